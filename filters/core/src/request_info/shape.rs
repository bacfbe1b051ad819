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

/// Refuses ambiguous forms in the part of a resource path that kube-apiserver itself reads. What stands behind a `proxy`
/// subresource or verb belongs to the proxied server and passes untouched, as do plain paths.
///
/// # Errors
/// [`AmbiguousPath`], the client's fault.
pub fn check_shape(info: &RequestInfo<'_>, raw_path: &[u8]) -> Result<(), AmbiguousPath> {
    if !info.is_resource {
        return Ok(());
    }
    // Folded instead of searched, so that several bytes are looked at in one instruction.
    let is_special = raw_path.iter().fold(false, |found, byte| found | matches!(byte, b'%' | b'\\' | 0));
    if !is_special && info.proxied_from.is_none() {
        return check_plain(trim_slashes(raw_path));
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

/// As above, for a path in which only slashes and dots can be wrong.
fn check_plain(path: &[u8]) -> Result<(), AmbiguousPath> {
    let mut start = 0;
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        match path.get(start..end).unwrap_or_default() {
            b"" => return Err(AmbiguousPath::EmptySegment),
            b"." | b".." => return Err(AmbiguousPath::DotSegment),
            _ => start = end.saturating_add(1),
        }
    }
    Ok(())
}
