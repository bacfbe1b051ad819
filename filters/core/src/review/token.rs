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
}

#[derive(Default, Deserialize)]
struct User {
    username: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
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
