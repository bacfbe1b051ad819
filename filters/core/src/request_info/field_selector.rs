/// A selector that apimachinery does not parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidSelector;

/// The value that a field selector requires of `metadata.name`: the first such term after sorting the terms as text,
/// which is the order in which apimachinery keeps them. `None` where there is none.
pub(super) fn required_name(selector: &[u8]) -> Result<Option<Vec<u8>>, InvalidSelector> {
    let mut terms = split_terms(selector);
    terms.sort_unstable();
    let mut name = None;
    for term in terms.into_iter().filter(|term| !term.is_empty()) {
        let (field, equal, value) = split_operator(term).ok_or(InvalidSelector)?;
        let value = unescape_value(value).ok_or(InvalidSelector)?;
        if name.is_none() && equal && field == b"metadata.name" {
            name = Some(value);
        }
    }
    Ok(name)
}

/// Splits at commas that no backslash escapes.
fn split_terms(selector: &[u8]) -> Vec<&[u8]> {
    let mut escaped = false;
    selector
        .split(move |byte| {
            let splits = *byte == b',' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            splits
        })
        .collect()
}

/// Field, whether the operator asks for equality, and value. The first operator in the text wins.
fn split_operator(term: &[u8]) -> Option<(&[u8], bool, &[u8])> {
    (0..term.len()).find_map(|at| {
        let (field, rest) = term.split_at_checked(at)?;
        let (equal, operator_len) = match rest {
            [b'!', b'=', ..] => (false, 2),
            [b'=', b'=', ..] => (true, 2),
            [b'=', ..] => (true, 1),
            _ => return None,
        };
        Some((field, equal, rest.get(operator_len..)?))
    })
}

/// Only backslash, comma and equals sign may be escaped, and a raw comma or equals sign is an error. apimachinery reads a
/// value that has an escape rune by rune, so that each byte of it that is no UTF-8 becomes U+FFFD.
fn unescape_value(value: &[u8]) -> Option<Vec<u8>> {
    let mut unescaped = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(escaped @ (b'\\' | b',' | b'=')) => unescaped.push(*escaped),
                _ => return None,
            },
            b',' | b'=' => return None,
            other => unescaped.push(*other),
        }
    }
    Some(if value.contains(&b'\\') { replace_invalid(&unescaped) } else { unescaped })
}

fn replace_invalid(bytes: &[u8]) -> Vec<u8> {
    let mut replaced = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        replaced.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|_| replaced.push(char::REPLACEMENT_CHARACTER));
    }
    replaced.into_bytes()
}
