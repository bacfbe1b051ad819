//! Maps of headers as the ABI writes them: their number, the sizes of each name and value, then names and values, each behind
//! its text a NUL. Numbers are little-endian `u32`.

/// Names and values.
pub(crate) type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Reads a map. `None` if it is not written as above, which is Envoy's fault.
pub(crate) fn read(bytes: &[u8]) -> Option<Pairs<'_>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let (count, rest) = number(bytes)?;
    let (mut sizes, mut texts) = rest.split_at_checked(count.checked_mul(8)?)?;
    let mut pairs = Vec::with_capacity(count);
    for _ in 0..count {
        let (name_size, rest) = number(sizes)?;
        let (value_size, rest) = number(rest)?;
        sizes = rest;
        let (name, rest) = text(texts, name_size)?;
        let (value, rest) = text(rest, value_size)?;
        texts = rest;
        pairs.push((name, value));
    }
    Some(pairs)
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_le_bytes(*number)).ok()?, rest))
}

fn text(bytes: &[u8], size: usize) -> Option<(&[u8], &[u8])> {
    let (text, rest) = bytes.split_at_checked(size)?;
    let (0, rest) = rest.split_first()? else { return None };
    Some((text, rest))
}

/// Writes a map.
#[cfg_attr(not(any(target_arch = "wasm32", test)), expect(dead_code, reason = "for Envoy alone"))]
pub(crate) fn write(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut number = |number: usize| bytes.extend_from_slice(&u32::try_from(number).unwrap_or(0).to_le_bytes());
    number(pairs.len());
    for (name, value) in pairs {
        number(name.len());
        number(value.len());
    }
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    bytes
}
