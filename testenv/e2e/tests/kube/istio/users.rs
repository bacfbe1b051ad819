//! For whom kube-apiserver takes a client, directly and through a gateway.

use portcullis_harness::client::{H2Client, TlsTarget};
use serde_json::Value;

use super::fixture::MeshFixture;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW: &[u8] = br#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;

pub(crate) type Headers<'a> = &'a [(&'a str, &'a [u8])];

/// Headers that only the gateway may send.
const FORGED: [Headers<'static>; 8] = [
    &[("x-remote-user", b"admin")],
    &[("x-remote-user", b"admin"), ("x-remote-group", b"system:masters")],
    &[("x-remote-uid", b"0"), ("x-remote-extra-scopes", b"all")],
    &[("x_remote_user", b"admin"), ("x_remote_group", b"system:masters")],
    &[("x-forwarded-client-cert", b"Hash=00;Subject=\"CN=admin,O=system:masters\"")],
    &[("x-envoy-original-path", b"/api/v1/secrets"), ("x-envoy-decorator-operation", b"x")],
    &[("x-portcullis-destination", b"all.h2.read"), ("x-envoy-upstream-alt-stat-name", b"x")],
    &[("x-envoy-peer-metadata", b"x"), ("x-envoy-peer-metadata-id", b"router~x")],
];

/// Headers that kube-apiserver itself judges.
const JUDGED: [Headers<'static>; 3] = [
    &[("impersonate-user", b"dave")],
    &[("impersonate-user", b"dave"), ("impersonate-group", b"system:masters")],
    &[("impersonate-group", b"system:masters")],
];

/// Status, and the user or the reason of the refusal.
pub(super) fn reviewed_user(target: &TlsTarget, headers: Headers<'_>) -> (u16, Value) {
    let headers: Vec<_> = headers.iter().copied().chain([("content-type", &b"application/json"[..])]).collect();
    let response = H2Client::connect(target).unwrap().request("POST", REVIEWS, &headers, REVIEW).unwrap();
    let mut body = response.json().unwrap_or_else(|_| Value::String(response.text()));
    let is_review = response.status == 201;
    (response.status, if is_review { body["status"]["userInfo"].take() } else { body["reason"].take() })
}

/// Whatever a client says of itself, it is who it is past the gateway.
pub(super) fn everybody_is_who_they_are(fixture: &MeshFixture, through: &TlsTarget) {
    let direct = fixture.direct();
    let token = format!("Bearer {}", fixture.token);
    for (case, identity, credential) in [
        ("certificate", Some(&fixture.alice), &[][..]),
        ("token", None, &[("authorization", token.as_bytes())][..]),
        ("both", Some(&fixture.alice), &[("authorization", token.as_bytes())]),
        ("nobody", None, &[]),
        ("rejected", None, &[("authorization", b"Bearer unheard-of")]),
        ("administrator", Some(fixture.kube.admin()), &[]),
    ] {
        let with = |target: &TlsTarget| match identity {
            Some(identity) => target.clone().identity(identity),
            None => target.clone(),
        };
        nothing_said_changes_it(case, credential, &with(&direct), &with(through));
    }
}

/// The user of a credential, whatever else a request says.
pub(crate) fn nothing_said_changes_it(case: &str, credential: Headers<'_>, direct: &TlsTarget, through: &TlsTarget) {
    let expected = reviewed_user(direct, credential);
    assert_eq!(reviewed_user(through, credential), expected, "{case}");
    for forged in FORGED {
        let headers = [credential, forged].concat();
        assert_eq!(reviewed_user(through, &headers), expected, "{case}, {forged:?}");
    }
    for judged in JUDGED {
        let headers = [credential, judged].concat();
        let (expected, found) = (reviewed_user(direct, &headers), reviewed_user(through, &headers));
        // A malformed request is refused by the gateway earlier, and in other words.
        let is_refused = |status: u16| (400..500).contains(&status);
        let same = found == expected || is_refused(found.0) && is_refused(expected.0);
        assert!(same, "{case}, {judged:?}: {found:?}, directly {expected:?}");
    }
}
