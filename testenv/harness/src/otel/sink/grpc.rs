use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use hyper::{HeaderMap, Response};

use super::{Received, take};

/// Bytes before a gRPC message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Answers calls of one connection until it ends.
pub(super) fn serve(connection: TcpStream, spans: &Received) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    // A connection that breaks is its client's affair.
    let _ = runtime.block_on(answer_all(connection, spans));
}

async fn answer_all(connection: TcpStream, spans: &Received) -> Result<(), Box<dyn std::error::Error>> {
    connection.set_nonblocking(true)?;
    let mut connection = h2::server::handshake(tokio::net::TcpStream::from_std(connection)?).await?;
    while let Some(call) = connection.accept().await {
        let (request, respond) = call?;
        let spans = spans.clone();
        tokio::spawn(async move { answer(request.into_body(), respond, &spans).await });
    }
    Ok(())
}

async fn answer(mut body: RecvStream, mut respond: SendResponse<Bytes>, spans: &Received) -> Result<(), h2::Error> {
    let mut message = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        message.extend_from_slice(&chunk);
    }
    take(message.get(PREFIX..).unwrap_or_default(), spans);
    let mut response = Response::new(());
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/grpc"));
    let mut stream = respond.send_response(response, false)?;
    stream.send_data(Bytes::from_static(&[0; PREFIX]), false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", hyper::header::HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}
