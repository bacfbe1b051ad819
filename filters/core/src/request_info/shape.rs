use super::list_options::has_too_many_parameters;
use super::{RequestInfo, trim_slashes, unescape_path};

/// A resource path that an honest client never sends and that servers on the way read differently. The client's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmbiguousPath {
    /// `%2F` inside a segment.
    #[error("the path has an encoded slash")]
    EncodedSlash,
    /// A backslash, plain or encoded.
    #[error("the path has a backslash")]
    Backslash,
    /// An encoded NUL.
    #[error("the path has a NUL byte")]
    Nul,
    /// `.` or `..`, plain or encoded.
    #[error("the path has a dot segment")]
    DotSegment,
    /// Two slashes in a row between segments.
    #[error("the path has an empty segment")]
    EmptySegment,
}

/// A query of which one kube-apiserver reads everything and another, built with a newer Go, nothing. The client's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the query has more than 10000 parameters")]
pub struct AmbiguousQuery;

/// Refuses a query that kube-apiservers read differently.
///
/// # Errors
/// [`AmbiguousQuery`], the client's fault.
pub fn check_query(query: &[u8]) -> Result<(), AmbiguousQuery> {
    if has_too_many_parameters(query) { Err(AmbiguousQuery) } else { Ok(()) }
}

/// Refuses ambiguous forms in the part of a resource path that kube-apiserver itself reads. The part behind a `proxy`
/// subresource or verb belongs to the proxied server and passes untouched, as do plain paths.
///
/// # Errors
/// [`AmbiguousPath`], the client's fault.
pub fn check_shape(info: &RequestInfo<'_>, raw_path: &[u8]) -> Result<(), AmbiguousPath> {
    if !info.is_resource {
        return Ok(());
    }
    if is_plain(raw_path) {
        return Ok(());
    }
    let head = info.proxied_from.unwrap_or(usize::MAX);
    for raw in trim_slashes(raw_path).split(|byte| *byte == b'/').take(head) {
        let segment = unescape_path(raw).unwrap_or_default();
        match &*segment {
            b"" => return Err(AmbiguousPath::EmptySegment),
            b"." | b".." => return Err(AmbiguousPath::DotSegment),
            _ => {}
        }
        for byte in &*segment {
            match byte {
                b'/' => return Err(AmbiguousPath::EncodedSlash),
                b'\\' => return Err(AmbiguousPath::Backslash),
                0 => return Err(AmbiguousPath::Nul),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether nothing can be ambiguous: no escape, no backslash, no NUL, and behind no slash a dot or another slash. Most paths
/// are so, and this looks at several bytes in one instruction, because it does not stop where it finds one.
fn is_plain(path: &[u8]) -> bool {
    let is_special = path.iter().fold(false, |found, byte| found | matches!(byte, b'%' | b'\\' | 0));
    let pairs = path.iter().zip(path.get(1..).unwrap_or_default());
    let is_doubtful = pairs.fold(false, |found, (byte, next)| found | ((*byte == b'/') & matches!(next, b'/' | b'.')));
    !is_special && !is_doubtful && path.first() == Some(&b'/')
}
