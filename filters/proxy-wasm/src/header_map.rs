//! Maps of headers as the ABI writes them: their number, the sizes of each name and value, then names and values, each behind
//! its text a NUL. Numbers are little-endian `u32`.

use portcullis_core::exchange::HeaderLines;

/// A map that was read from Envoy.
#[derive(Debug)]
pub(crate) struct HeaderMap {
    bytes: Vec<u8>,
    count: usize,
}

impl HeaderMap {
    /// Checks a map. `None` if it is not written as above, which is Envoy's fault.
    pub(crate) fn read(bytes: Vec<u8>) -> Option<Self> {
        if bytes.is_empty() {
            return Some(HeaderMap { bytes, count: 0 });
        }
        let (count, _) = number(&bytes)?;
        let map = HeaderMap { bytes, count };
        let is_whole = map.pairs()?.count() == count;
        is_whole.then_some(map)
    }

    /// The names and values up to the first that is not there.
    fn pairs(&self) -> Option<Pairs<'_>> {
        let (_, rest) = number(&self.bytes)?;
        let (sizes, texts) = rest.split_at_checked(self.count.checked_mul(8)?)?;
        Some(Pairs { sizes, texts })
    }
}

impl HeaderLines for HeaderMap {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs().into_iter().flatten()
    }
}

struct Pairs<'a> {
    sizes: &'a [u8],
    texts: &'a [u8],
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name_size, sizes) = number(self.sizes)?;
        let (value_size, sizes) = number(sizes)?;
        let (name, texts) = text(self.texts, name_size)?;
        let (value, texts) = text(texts, value_size)?;
        *self = Pairs { sizes, texts };
        Some((name, value))
    }
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
