use std::borrow::Cow;

/// A percent escape that is cut off or not hexadecimal. kube-apiserver answers 400; it is the client's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid URL escape in the path")]
pub struct InvalidEscape;

/// Decodes a path's percent escapes, once, as Go's `net/url` does. Borrows where there is none.
///
/// # Errors
/// [`InvalidEscape`], the client's fault.
pub fn unescape_path(raw: &[u8]) -> Result<Cow<'_, [u8]>, InvalidEscape> {
    if memchr::memchr(b'%', raw).is_some() { unescape(raw, false).map(Cow::Owned) } else { Ok(Cow::Borrowed(raw)) }
}

/// Decodes a key or value of a query: a plus is a blank.
///
/// # Errors
/// [`InvalidEscape`]; Go drops such a pair in silence.
pub(super) fn unescape_query(raw: &[u8]) -> Result<Cow<'_, [u8]>, InvalidEscape> {
    if raw.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        unescape(raw, true).map(Cow::Owned)
    } else {
        Ok(Cow::Borrowed(raw))
    }
}

fn unescape(raw: &[u8], plus_is_blank: bool) -> Result<Vec<u8>, InvalidEscape> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let high = bytes.next().and_then(hex_value).ok_or(InvalidEscape)?;
                let low = bytes.next().and_then(hex_value).ok_or(InvalidEscape)?;
                (high << 4) | low
            }
            b'+' if plus_is_blank => b' ',
            other => *other,
        });
    }
    Ok(decoded)
}

fn hex_value(digit: &u8) -> Option<u8> {
    char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
