//! A request's headers: whatever is written, nothing that only the gateway may write stays, and a token is one that was
//! presented.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_core::credential::{bearer_token, is_token_subprotocol, subprotocol_token, subprotocols};
use portcullis_core::header_scan::{ForwardedHeaders, HeaderScan, Reserved};

/// Written apart from the code under test: a byte of the name may be an underscore where a hyphen belongs.
fn is_for_the_gateway_only(name: &[u8]) -> bool {
    let name: Vec<u8> = name.iter().map(|byte| if *byte == b'_' { b'-' } else { *byte }).collect();
    [&b"impersonate-"[..], b"x-remote-", b"x-envoy-", b"x-portcullis-"].iter().any(|prefix| name.starts_with(prefix))
        || name == b"x-forwarded-client-cert"
}

fuzz_target!(|data: &[u8]| {
    let headers: Vec<(Vec<u8>, &[u8])> = data
        .split(|byte| *byte == b'\n')
        .map(|line| {
            let start = usize::from(line.first() == Some(&b':'));
            let end = line.iter().skip(start).position(|byte| *byte == b':').map_or(line.len(), |at| at + start);
            (line[..end].to_ascii_lowercase(), line.get(end + 1..).unwrap_or_default())
        })
        .collect();
    let scan =
        HeaderScan::from_headers(headers.iter().map(|(name, value)| (&**name, *value)), b"lab", Reserved::default());

    let removals = scan.removals(ForwardedHeaders::default());
    let is_lifted = |name: &[u8]| removals.names().any(|to_remove| to_remove.eq_ignore_ascii_case(name));
    let mut authorizations = 0;
    for (name, value) in &headers {
        assert!(!is_for_the_gateway_only(name) || is_lifted(name), "{}", name.escape_ascii());
        if name.starts_with(b"impersonate-") {
            assert!(scan.impersonation.contains(&(name, value)));
        }
        authorizations += usize::from(name == b"authorization");
        if name == b"connection" && scan.bad_connection.is_none() {
            for listed in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                let stays = [
                    &b""[..],
                    b"close",
                    b"connection",
                    b"content-length",
                    b"host",
                    b"keep-alive",
                    b"transfer-encoding",
                    b"upgrade",
                ];
                let stays = stays.iter().any(|name| name.eq_ignore_ascii_case(listed)) || listed.starts_with(b":");
                assert!(stays || is_lifted(listed), "{}", listed.escape_ascii());
            }
        }
    }
    assert!(scan.authorization_lines >= authorizations);
    assert_eq!(scan.authorization.is_some(), authorizations > 0);
    assert!(!scan.is_websocket || scan.is_upgrade);
    assert!(!scan.is_upgrade || scan.has_connection);
    let many = scan.to_remove.len() > headers.len() + 17;
    assert!(!many, "the work that Connection makes is bounded");

    if let Some(authorization) = scan.authorization
        && let Ok(Some(token)) = bearer_token(authorization)
    {
        assert!(!token.is_empty() && !token.contains(&b' '));
        assert!(authorization.windows(token.len()).any(|window| window == &*token));
        assert!(authorization.windows(7).any(|window| window.eq_ignore_ascii_case(b"bearer ")));
    }
    if let Ok(Some(token)) = subprotocol_token(&scan.subprotocols) {
        assert!(!token.is_empty() && scan.token_subprotocol);
        let entries = || scan.subprotocols.iter().flat_map(|line| subprotocols(line));
        assert_eq!(entries().filter(|entry| is_token_subprotocol(entry)).count(), 1);
        assert!(entries().any(|entry| !is_token_subprotocol(entry)));
    }
});
