//! TokenReview, SubjectAccessReview and their like.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::app::App;
use crate::authorize::{Attributes, allowed};
use crate::resources::REVIEWS;
use crate::route::Target;
use crate::status::{self, Answer};
use crate::user::{TokenEntry, User};

/// The stub's own audience.
const AUDIENCE: &str = "https://kubernetes.default.svc";

/// Answers a review; `None` when the target is none.
pub(crate) fn answer(app: &App, user: &User, target: &Target, method: &str, body: &[u8]) -> Option<Answer> {
    let known = |entry: &&(&str, &str, &str)| entry.0 == target.group && entry.1 == target.resource;
    let (group, _, kind) = REVIEWS.iter().find(known)?;
    if method != "POST" || target.version != "v1" {
        return Some(status::failure(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "only create is supported",
            None,
        ));
    }
    let Ok(mut review) = serde_json::from_slice::<Value>(body) else {
        return Some(status::bad_request("the body is not JSON"));
    };
    let spec = review.get("spec").cloned().unwrap_or_default();
    let outcome = match *kind {
        "TokenReview" => token_review(app, &spec),
        "SubjectAccessReview" => access_review(app, &subject(&spec), &spec),
        "SelfSubjectAccessReview" => access_review(app, user, &spec),
        _ => json!({"userInfo": user}),
    };
    let Some(object) = review.as_object_mut() else { return Some(status::bad_request("the body is no object")) };
    object.insert("apiVersion".to_owned(), json!(format!("{group}/v1")));
    object.insert("kind".to_owned(), json!(kind));
    object.insert("status".to_owned(), outcome);
    Some(status::json(StatusCode::CREATED, &review))
}

fn token_review(app: &App, spec: &Value) -> Value {
    let token = spec.get("token").and_then(Value::as_str).unwrap_or_default();
    let wanted = strings(spec.get("audiences"));
    let refused = |error: &str| json!({"user": {}, "authenticated": false, "error": error});
    let Some(entry) = app.options.tokens.get(token) else { return refused("invalid bearer token") };
    let audiences = common_audiences(entry, &wanted);
    if audiences.is_empty() {
        return refused("token audiences do not match");
    }
    json!({"authenticated": true, "user": User::from(entry), "audiences": audiences})
}

fn common_audiences(entry: &TokenEntry, wanted: &[String]) -> Vec<String> {
    let own = [AUDIENCE.to_owned()];
    match (entry.audiences.as_slice(), wanted) {
        ([], []) => own.to_vec(),
        ([], wanted) => wanted.to_vec(),
        // Nothing asked for means the server's own audience.
        (of_token, []) => of_token.iter().filter(|audience| *audience == AUDIENCE).cloned().collect(),
        (of_token, wanted) => of_token.iter().filter(|audience| wanted.contains(audience)).cloned().collect(),
    }
}

fn access_review(app: &App, user: &User, spec: &Value) -> Value {
    let attributes = spec.get("resourceAttributes").or_else(|| spec.get("nonResourceAttributes"));
    let field =
        |name: &str| attributes.and_then(|attributes| attributes.get(name)).and_then(Value::as_str).unwrap_or_default();
    let public = matches!(field("path"), "/healthz" | "/livez" | "/readyz" | "/version");
    let allowed = allowed(&app.options, user, Attributes { verb: field("verb"), public, discovery: false });
    json!({"allowed": allowed, "reason": if allowed { "the stub allows it" } else { "" }})
}

fn subject(spec: &Value) -> User {
    let field = |name: &str| spec.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    User { username: field("user"), uid: field("uid"), groups: strings(spec.get("groups")), ..User::default() }
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).cloned().unwrap_or_default();
    list.iter().filter_map(|entry| entry.as_str().map(str::to_owned)).collect()
}
