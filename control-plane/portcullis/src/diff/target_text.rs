//! Targets of requests, and the texts that can be in them.

use std::fmt::Write;

use portcullis_core::request_info::{RequestInfo, RequestTarget};

/// A text as one segment of a path, or a value of a query.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~:".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

pub(super) fn encoded_path(path: &str) -> String {
    path.split('/').map(encoded).collect::<Vec<_>>().join("/")
}

/// Whether a request is let through to be judged, and reads so.
pub(super) fn reads(method: &str, target: &str, is_it: impl Fn(&RequestInfo<'_>) -> bool) -> bool {
    let Ok(parsed) = RequestTarget::parse(target.as_bytes()) else { return false };
    let Ok(info) = parsed.resolve(method.as_bytes()) else { return false };
    parsed.check(&info).is_ok() && is_it(&info)
}

/// Whether a text can be a segment of a resource's path.
pub(super) fn is_segment(text: &str) -> bool {
    let target = format!("/api/v1/namespaces/a/pods/{}", encoded(text));
    !text.is_empty() && reads("GET", &target, |info| *info.name == *text.as_bytes())
}

/// Whether a text can be the path of a request that is for no resource.
pub(super) fn is_path(text: &str) -> bool {
    let is_it = |info: &RequestInfo<'_>| !info.is_resource && info.path == text.as_bytes();
    text.starts_with('/') && reads("GET", &encoded_path(text), is_it)
}
