use hyper::header::HeaderValue;

/// A header's value as text.
pub(crate) fn lossy(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}
