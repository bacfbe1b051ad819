use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// How long an answer may take in all.
const DEADLINE: Duration = Duration::from_secs(15);
/// Most bytes of an answer.
const MAX_BODY: usize = 256 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    #[error("cannot connect; does `portcullis serve` run there?")]
    Connect(#[source] io::Error),
    #[error("the request failed")]
    Http(#[from] hyper::Error),
    #[error("the request cannot be built")]
    Request(#[from] hyper::http::Error),
    #[error("the answer cannot be read")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("it answered {0}")]
    Refused(StatusCode),
    #[error("it did not answer within {} s", DEADLINE.as_secs())]
    Deadline,
}

/// The body that a control plane answers for a path.
pub(super) fn get(address: &str, path: &str) -> Result<Bytes, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AskError::Runtime)?;
    let asked = async { tokio::time::timeout(DEADLINE, ask(address, path)).await };
    runtime.block_on(asked).map_err(|_| AskError::Deadline)?
}

async fn ask(address: &str, path: &str) -> Result<Bytes, AskError> {
    let stream = TcpStream::connect(address).await.map_err(AskError::Connect)?;
    // A control plane answers to addresses, and to other names only if it was told them.
    let peer = stream.peer_addr().map_err(AskError::Connect)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, peer.to_string()).body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    if response.status() != StatusCode::OK {
        return Err(AskError::Refused(response.status()));
    }
    let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(AskError::Body)?;
    connection.abort();
    Ok(body.to_bytes())
}
