//! Maps of headers as the ABI writes them: their number, the sizes of each name and value, then names and values, each behind
//! its text a NUL. Numbers are little-endian `u32`.

use portcullis_core::exchange::HeaderLines;

/// A map that was read from Envoy.
#[derive(Debug)]
pub(crate) struct OwnedHeaders {
    bytes: Vec<u8>,
    /// Of each line, where its name begins, and the lengths of name and value.
    lines: Vec<(usize, usize, usize)>,
}

impl OwnedHeaders {
    /// Reads a map. `None` if it is not written as above, which is Envoy's fault.
    pub(crate) fn read(bytes: Vec<u8>) -> Option<Self> {
        let mut lines = Vec::new();
        if !bytes.is_empty() {
            let (count, rest) = number(&bytes)?;
            let (mut sizes, mut texts) = rest.split_at_checked(count.checked_mul(8)?)?;
            lines.reserve_exact(count);
            for _ in 0..count {
                let start = bytes.len().checked_sub(texts.len())?;
                let (name, rest) = number(sizes)?;
                let (value, rest) = number(rest)?;
                sizes = rest;
                texts = behind_text(behind_text(texts, name)?, value)?;
                lines.push((start, name, value));
            }
        }
        Some(OwnedHeaders { bytes, lines })
    }
}

impl HeaderLines for OwnedHeaders {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().filter_map(|(start, name, value)| {
            let (name, rest) = self.bytes.get(*start..)?.split_at_checked(*name)?;
            Some((name, rest.get(1..)?.get(..*value)?))
        })
    }
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_le_bytes(*number)).ok()?, rest))
}

/// The bytes behind a text of that size and its NUL.
fn behind_text(bytes: &[u8], size: usize) -> Option<&[u8]> {
    let (_, rest) = bytes.split_at_checked(size)?;
    let (0, rest) = rest.split_first()? else { return None };
    Some(rest)
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
