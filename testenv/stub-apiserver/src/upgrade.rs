//! Protocol upgrades (WebSocket and SPDY/3.1 alike): 101, then every byte comes back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Response, StatusCode};
use hyper_util::rt::TokioIo;

use crate::load::Running;
use crate::status::{self, Answer, full};
use crate::text::lossy;

/// The protocol that a request wants to go over to, if `Connection` says so as well.
pub(crate) fn wants_upgrade(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(CONNECTION).iter().map(lossy).collect::<Vec<_>>().join(",");
    let named = lines.split(',').any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    let protocol = headers.get(UPGRADE).map(lossy)?;
    named.then_some(protocol)
}

/// Answers 101 and echoes, or 400 when no upgrade is asked for.
pub(crate) fn echo(headers: &HeaderMap, upgraded: Option<OnUpgrade>, running: Running) -> Answer {
    let (Some(protocol), Some(upgraded)) = (wants_upgrade(headers), upgraded) else {
        return status::bad_request("Upgrade request required");
    };
    tokio::spawn(async move {
        let _running = running;
        if let Ok(stream) = upgraded.await {
            let (mut reader, mut writer) = tokio::io::split(TokioIo::new(stream));
            // Either side may close at any time.
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut writer).await;
        }
    });
    switching(headers, &protocol)
}

fn switching(headers: &HeaderMap, protocol: &str) -> Answer {
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let mut set = |name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    };
    set(CONNECTION, "Upgrade".to_owned());
    set(UPGRADE, protocol.to_owned());
    if let Some(key) = headers.get("sec-websocket-key").map(lossy) {
        set(HeaderName::from_static("sec-websocket-accept"), websocket_accept(&key));
    }
    for name in ["sec-websocket-protocol", "x-stream-protocol-version"] {
        if let Some(chosen) = first_protocol(headers, name) {
            set(HeaderName::from_static(name), chosen);
        }
    }
    response
}

/// The first offered protocol that is not a token in disguise.
fn first_protocol(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(name).iter().map(lossy).collect::<Vec<_>>().join(",");
    let mut offered = lines.split(',').map(str::trim).filter(|entry| !entry.is_empty() && !entry.contains("bearer"));
    offered.next().map(str::to_owned)
}

/// RFC 6455 section 4.2.2, step 5.4.
fn websocket_accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::websocket_accept;

    #[test]
    fn accept_is_that_of_the_rfc() {
        assert_eq!(websocket_accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
