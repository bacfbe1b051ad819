//! Headers by which a server believes a front proxy, written in every way that a client can think of.

use portcullis_e2e::PlainFiles;

use super::policy::showing_the_front_proxy;
use super::start;
use crate::fixture::{NAME, PODS};
use crate::plain::Plain;

const SPELLINGS: [&str; 17] = [
    "X-REMOTE-USER: admin\r\nX-REMOTE-GROUP: system:masters\r\n",
    "X_Remote_User: admin\r\nX_REMOTE-GROUP: system:masters\r\n",
    "x-remote_user: admin\r\nX-Remote_Group: system:masters\r\n",
    "X-Remote-User : admin\r\nX-Remote-Group : system:masters\r\n",
    " X-Remote-User: admin\r\n",
    "X-Remote-User:\tadmin\r\nX-Remote-Group:\t system:masters\t\r\n",
    "Accept: a\r\n X-Remote-User: admin\r\n",
    "Accept: a\nX-Remote-User: admin\r\n",
    "Accept: a\rX-Remote-User: admin\r\n",
    "X-Remote-User\0: admin\r\n",
    "X-Remote-User\r: admin\r\n",
    "X-Remote-User: nobody\r\nX-Remote-User: admin\r\nX-Remote-Group: a\r\nX-Remote-Group: system:masters\r\n",
    "Connection: X-Remote-User\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n",
    "Connection: close, x-remote-user, x-remote-group\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n",
    "Connection: Upgrade, X-Remote-User\r\nUpgrade: websocket\r\nX-Remote-User: admin\r\n",
    "X-Remote-Extra-Scopes: a\r\nX-Remote-Uid: 1\r\nX-Remote-User: admin\r\n",
    "X-Forwarded-Client-Cert: Subject=\"CN=admin,O=system:masters\"\r\nX-Envoy-Original-Path: /\r\n",
];

/// The mistake that the filter cannot see, and the mode whose server believes such headers.
#[test]
fn no_spelling_of_a_header_makes_a_client_somebody() {
    for mode in ["policy", "request-info", "request-header"] {
        let mistake = |files: &PlainFiles| {
            if mode != "request-header" {
                showing_the_front_proxy(files);
            }
        };
        let world = start(mode, mistake);
        let mut reached = 0;
        for spelling in SPELLINGS {
            let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n{spelling}Connection: close\r\n\r\n");
            reached += usize::from(is_anonymous(&world, &request));
        }
        assert!(reached >= 6, "{mode}: {reached} reached the server, without what they said");
        let chunked = "Transfer-Encoding: chunked\r\nTrailer: X-Remote-User";
        let trailers = "0\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n\r\n";
        is_anonymous(
            &world,
            &format!("POST {PODS} HTTP/1.1\r\nHost: {NAME}\r\n{chunked}\r\nConnection: close\r\n\r\n{trailers}"),
        );
    }
}

/// Whatever the gateway itself answers: the server has not heard of anybody. Whether it has heard of the request.
fn is_anonymous(world: &Plain, request: &str) -> bool {
    world.stub.clear();
    let answer = world.gateway.target().raw_request(request.as_bytes());
    assert!(answer.as_ref().is_ok_and(|answer| answer.status >= 400), "{request:?}: {answer:?}");
    let Some(record) = world.seen() else { return false };
    let told = record.headers.iter().map(|header| header.name.to_lowercase().replace('_', "-"));
    let told: Vec<_> = told.filter(|name| name.starts_with("x-remote-") || name.contains("client-cert")).collect();
    assert_eq!(told, [""; 0], "{request:?}");
    assert!(
        record.effective.as_ref().is_none_or(|user| user.username == "system:anonymous"),
        "{request:?}: {record:?}"
    );
    true
}
