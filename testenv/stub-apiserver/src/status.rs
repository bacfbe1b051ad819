//! Answers: JSON, text, and Kubernetes' Status.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(crate) type Answer = Response<Body>;

/// A body of known bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: Body) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(crate) fn json(status: StatusCode, value: &Value) -> Answer {
    answer(status, "application/json", full(value.to_string()))
}

pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, "text/plain; charset=utf-8", full(body))
}

/// kube-apiserver's answer to a path that it does not know.
pub(crate) fn unknown_path() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Status Failure.
pub(crate) fn failure(code: StatusCode, reason: &str, message: &str, details: Option<Value>) -> Answer {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    if let (Some(details), Some(object)) = (details, status.as_object_mut()) {
        object.insert("details".to_owned(), details);
    }
    json(code, &status)
}

pub(crate) fn unauthorized() -> Answer {
    failure(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
}

pub(crate) fn bad_request(message: &str) -> Answer {
    failure(StatusCode::BAD_REQUEST, "BadRequest", message, None)
}

pub(crate) fn forbidden(message: &str, details: Value) -> Answer {
    failure(StatusCode::FORBIDDEN, "Forbidden", message, Some(details))
}

/// 404 of an object. `kind` is the resource's name, as in kube-apiserver.
pub(crate) fn not_found(group: &str, resource: &str, name: &str) -> Answer {
    let qualified = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let details = object_details(group, resource, name);
    failure(StatusCode::NOT_FOUND, "NotFound", &format!("{qualified} \"{name}\" not found"), Some(details))
}

/// 409 of an object.
pub(crate) fn conflict(reason: &str, group: &str, resource: &str, name: &str) -> Answer {
    let what =
        if reason == "AlreadyExists" { "already exists" } else { "cannot be changed: it was modified meanwhile" };
    let message = format!("{resource} \"{name}\" {what}");
    failure(StatusCode::CONFLICT, reason, &message, Some(object_details(group, resource, name)))
}

/// Details that name an object; empty parts are left out.
pub(crate) fn object_details(group: &str, resource: &str, name: &str) -> Value {
    let parts = [("name", name), ("group", group), ("kind", resource)];
    parts.iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
}
