use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_harness::client::{TlsConnection, TlsTarget};

use super::place::{IMPERSONATING, Place, SOON};
use crate::fixture::NAME;

/// As a dashboard does it: browsers send `Connection: keep-alive, Upgrade`, and a token among the subprotocols.
pub(super) fn executes_with_a_token(place: &Place) {
    place.fixture.kube.run_pod("browsed").unwrap();
    let token = place.fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    let directly = TlsTarget::new(place.fixture.kube.address(0).unwrap()).trust(place.fixture.kube.server_ca());
    let through = |name: &str| place.fixture.gateway.target(name);
    for (host, target) in [("localhost", directly), (NAME, through(NAME)), (IMPERSONATING, through(IMPERSONATING))] {
        let target = target.timeout(SOON);
        let mut session = exec(&target, host, &token, ECHO, 101);
        // Channel 1 is standard output.
        assert_eq!(hear(&mut session, 1), "seen\n", "{host}");
        exec(&target, host, &format!("{token}x"), ECHO, 401);
    }
}

const ECHO: &str = "command=echo&command=seen&stdout=true";
/// A command that repeats its input.
pub(super) const CAT: &str = "command=cat&stdin=true&stdout=true";

/// Asks for a session in the pod `browsed`.
pub(super) fn exec(target: &TlsTarget, host: &str, token: &str, what: &str, expected: u16) -> TlsConnection {
    let path = format!("/api/v1/namespaces/default/pods/browsed/exec?{what}");
    let token = format!("base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(token));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: v5.channel.k8s.io, {token}\r\n\r\n"
    );
    let mut session = target.connect().unwrap();
    session.write(request.as_bytes()).unwrap();
    let answer = session.read_response(false).unwrap();
    assert_eq!(answer.status, expected, "{host}: {}", answer.text());
    if expected == 101 {
        assert_eq!(answer.header("sec-websocket-protocol").as_deref(), Some("v5.channel.k8s.io"), "{host}");
    }
    session
}

/// The payload of the first frame of a channel that holds something; servers' frames are not masked.
pub(super) fn hear(session: &mut TlsConnection, channel: u8) -> String {
    loop {
        let head = session.read_exact(2).unwrap();
        assert!(head[1] < 126, "a short frame");
        let payload = session.read_exact(head[1].into()).unwrap();
        match &payload[..] {
            [of, text @ ..] if *of == channel && !text.is_empty() => return String::from_utf8_lossy(text).into_owned(),
            _ => continue,
        }
    }
}

/// Writes to channel 0, standard input, with a mask of zeros, as a client has to mask.
pub(super) fn say(session: &mut TlsConnection, text: &[u8]) {
    let length = u8::try_from(text.len() + 1).unwrap();
    assert!(length < 126, "a short frame");
    session.write(&[&[0x82, 0x80 | length, 0, 0, 0, 0, 0], text].concat()).unwrap();
}
