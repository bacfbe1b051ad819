use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use serde::Deserialize;
use serde_json::json;

use super::ReviewResult;
use crate::credential::BASE64URL;
use crate::identity::{Extra, UserInfo};
use crate::upstream_user::{IdentityError, UpstreamUser};

pub(super) const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Without audiences the upstream takes its own.
pub(super) fn request_body(token: &[u8], audiences: &[String]) -> String {
    let mut spec = json!({"token": String::from_utf8_lossy(token)});
    if let (false, Some(spec)) = (audiences.is_empty(), spec.as_object_mut()) {
        spec.insert("audiences".to_owned(), audiences.into());
    }
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}).to_string()
}

#[derive(Deserialize)]
struct Answer {
    kind: String,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
struct Status {
    authenticated: Option<bool>,
    user: Option<User>,
    audiences: Option<Vec<String>>,
    error: Option<String>,
}

#[derive(Default, Deserialize)]
struct User {
    username: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
}

/// Parts of errors by which a kube-apiserver says that it could not look at a token: keys of an issuer, a webhook or etcd did not
/// answer. Each has a space: no name of an object in an error looks like one.
const UNCHECKED: [&str; 14] = [
    "not initialized",
    "fetching keys",
    "deadline exceeded",
    "connection refused",
    "connection reset",
    "no such host",
    "no route to host",
    "i/o timeout",
    "handshake timeout",
    "timed out",
    "context canceled",
    "leader changed",
    "did not complete within",
    "has prevented the request from succeeding",
];

/// Reads the TokenReview of a token that keys verify. A kube-apiserver writes `authenticated: false` for every error of its
/// authenticators: that one of them could not look is no word on the token.
pub(super) fn parse_check(body: &[u8], audiences: &[String]) -> ReviewResult {
    match parse_response(body, audiences) {
        ReviewResult::Rejected if is_unchecked(body) => ReviewResult::Failed,
        result => result,
    }
}

fn is_unchecked(body: &[u8]) -> bool {
    let status = serde_json::from_slice::<Answer>(body).ok().and_then(|answer| answer.status).unwrap_or_default();
    let error = status.error.unwrap_or_default();
    status.authenticated != Some(true) && UNCHECKED.iter().any(|part| error.contains(part))
}

/// Reads a TokenReview. `authenticated` decides, and where audiences were asked for, that the token has one of them by the
/// upstream's own word, as kube-apiserver reads the answer of a webhook (apiserver, `plugin/pkg/authenticator/token/webhook`): an
/// upstream that does not know audiences names none. A user without a name is no answer; a user that no header can carry is
/// rejected.
pub(super) fn parse_response(body: &[u8], audiences: &[String]) -> ReviewResult {
    let Ok(Answer { kind, status }) = serde_json::from_slice::<Answer>(body) else { return ReviewResult::Failed };
    if kind != "TokenReview" {
        return ReviewResult::Failed;
    }
    // Go reads null as nothing.
    let status = status.unwrap_or_default();
    if status.authenticated != Some(true) {
        return ReviewResult::Rejected;
    }
    let named = status.audiences.unwrap_or_default();
    if !audiences.is_empty() && !named.iter().any(|audience| audiences.contains(audience)) {
        return ReviewResult::Rejected;
    }
    let user = status.user.unwrap_or_default();
    let extra = user.extra.unwrap_or_default().into_iter();
    let extra = extra.map(|(key, values)| Extra { key, values }).collect();
    let (name, uid) = (user.username.unwrap_or_default(), user.uid.unwrap_or_default());
    let user = UserInfo::authenticated(name, uid, user.groups.unwrap_or_default(), extra);
    match UpstreamUser::new(user) {
        Ok(user) => ReviewResult::User(Arc::new(user)),
        Err(IdentityError::NoName) => ReviewResult::Failed,
        Err(_) => ReviewResult::Rejected,
    }
}

/// When the token says that it expires, in seconds since the epoch: only ever shortens what a cache keeps.
pub fn expiry(token: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let mut parts = token.split(|byte| *byte == b'.');
    let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let claims: Claims = serde_json::from_slice(&BASE64URL.decode(claims).ok()?).ok()?;
    // A cast of a float saturates, and makes 0 of what is no number.
    Some(claims.exp as u64)
}
