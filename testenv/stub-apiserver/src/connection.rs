//! One connection: handshake, HTTP, and the ways in which it can be ended.

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::certificate;
use crate::handler::handle;
use crate::peer::Peer;

/// A client that does not finish its handshake by then is gone.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves a connection to its end.
pub(crate) async fn serve(app: Arc<App>, acceptor: TlsAcceptor, tcp: TcpStream) {
    let mut cuts = app.cuts.subscribe();
    let id = app.records.count(|counters| counters.connections += 1);
    // Small answers at once; a kernel that refuses is no reason to fail.
    let _ = tcp.set_nodelay(true);
    let Ok(Ok(tls)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(tcp)).await else {
        app.records.count(|counters| counters.handshakes_failed += 1);
        return;
    };
    let chain: Vec<_> =
        tls.get_ref().1.peer_certificates().unwrap_or_default().iter().map(|der| der.clone().into_owned()).collect();
    let common_name = chain.first().and_then(certificate::common_name);
    let peer = Arc::new(Peer { id, chain, common_name, goaway: Notify::new(), abort: Notify::new() });
    let service = {
        let (app, peer) = (Arc::clone(&app), Arc::clone(&peer));
        service_fn(move |request| handle(Arc::clone(&app), Arc::clone(&peer), request))
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    // As many streams as kube-apiserver allows.
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(100);
    // Go's server closes no connection for a few hundred requests that were taken back, as those that took too long.
    builder.http2().max_pending_accept_reset_streams(1_000).max_local_error_reset_streams(10_000);
    // As kube-apiserver: a handler that does not read holds up no other stream's body.
    builder.http2().initial_stream_window_size(256 * 1024).initial_connection_window_size(64 * 1024 * 1024);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(tls), service);
    tokio::pin!(connection);
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if ended.is_err() {
                    app.records.count(|counters| counters.protocol_errors += 1);
                }
                return;
            }
            () = peer.goaway.notified() => connection.as_mut().graceful_shutdown(),
            () = peer.abort.notified() => return,
            _ = cuts.changed() => return,
        }
    }
}
