//! Chains that came as text and were read, so that not every request of a connection has to.

use super::{ChainError, ClientChain};
use crate::seeded_hash::SeededHash;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum size of each of the two tables: unsigned certificates are free to make.
const MAX_TABLE_BYTES: usize = 1 << 20;

/// Maximum size of a chain that is kept. A larger one is read for each request, at the cost of the client that presents it.
const MAX_CHAIN_BYTES: usize = 32 << 10;

/// Chains that were read, by the digest of the certificate: those of one worker. New ones come into the first table. When
/// that is full it becomes the second one, whose chains come back when they are asked for and are forgotten otherwise.
#[derive(Debug, Default)]
pub struct KnownChains {
    young: Table,
    old: Table,
}

#[derive(Debug, Default)]
struct Table {
    chains: HashMap<Vec<u8>, ParsedChain, SeededHash>,
    bytes: usize,
}

#[derive(Debug)]
struct ParsedChain {
    text: Vec<u8>,
    chain: Rc<[u8]>,
    /// It is of one certificate.
    is_alone: bool,
}

impl ParsedChain {
    /// Bytes, with what a place in the table takes.
    fn size(&self) -> usize {
        self.text.len().saturating_add(self.chain.len()).saturating_add(256)
    }
}

impl KnownChains {
    /// The chain of one certificate with this digest, the one of the TLS handshake, from Envoy. `None` if it was not read yet, or the
    /// last text about it had others beside it.
    pub fn alone(&mut self, presented: &[u8]) -> Option<Rc<[u8]>> {
        if let Some(known) = self.young.chains.get(presented) {
            return known.is_alone.then(|| Rc::clone(&known.chain));
        }
        if !self.old.chains.get(presented)?.is_alone {
            return None;
        }
        let known = self.old.take(presented)?;
        let chain = Rc::clone(&known.chain);
        self.keep(presented, known);
        Some(chain)
    }

    /// The chain ([`super::encode_chain`]) of a text, as `read` parses it. `presented` is the digest of the certificate of the
    /// TLS handshake, from Envoy. `None` if the text is not readable or of another certificate: the request fails closed.
    pub fn chain(
        &mut self,
        presented: &[u8],
        text: &[u8],
        read: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> Option<Rc<[u8]>> {
        if let Some(known) = self.young.chains.get(presented)
            && known.text == text
        {
            return Some(Rc::clone(&known.chain));
        }
        let chain = match self.old.take(presented).filter(|known| known.text == text) {
            Some(known) => known.chain,
            None => read(text).filter(|chain| is_presented(chain, Some(presented)))?.into(),
        };
        let is_alone = ClientChain::decode(&chain).is_ok_and(|chain| chain.intermediates().next().is_none());
        self.keep(presented, ParsedChain { text: text.to_vec(), chain: Rc::clone(&chain), is_alone });
        Some(chain)
    }

    fn keep(&mut self, presented: &[u8], known: ParsedChain) {
        if known.size() > MAX_CHAIN_BYTES {
            return;
        }
        if self.young.bytes.saturating_add(known.size()) > MAX_TABLE_BYTES {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.put(presented.to_vec(), known);
    }
}

impl Table {
    fn put(&mut self, presented: Vec<u8>, known: ParsedChain) {
        self.bytes = self.bytes.saturating_add(known.size());
        if let Some(before) = self.chains.insert(presented, known) {
            self.bytes = self.bytes.saturating_sub(before.size());
        }
    }

    fn take(&mut self, presented: &[u8]) -> Option<ParsedChain> {
        let known = self.chains.remove(presented)?;
        self.bytes = self.bytes.saturating_sub(known.size());
        Some(known)
    }
}

/// Digits of a SHA-256 in hexadecimal.
const DIGITS: usize = 64;

/// The SHA-256 of some bytes in lower-case hexadecimal digits, as Envoy writes digests.
pub fn hex_digest(data: &[u8]) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    let found = digest(&SHA256, data);
    let halves = found.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    for (digit, half) in digits.iter_mut().zip(halves) {
        *digit = if half < 10 { b'0' | half } else { b'a'.wrapping_add(half).wrapping_sub(10) };
    }
    digits
}

/// Whether a chain ([`super::encode_chain`]) is of the certificate with this digest. A chain that is of none, or that cannot be
/// compared because there is no digest or none that Envoy would write, yields no identity: the request fails closed.
pub fn is_presented(chain: &[u8], presented: Option<&[u8]>) -> bool {
    let Some(presented) = presented.filter(|text| is_digest(text)) else { return false };
    match ClientChain::decode(chain) {
        Ok(chain) => hex_digest(chain.leaf()) == presented,
        // It has no leaf to compare, and is refused as the client's fault.
        Err(ChainError::TooLarge) => true,
        Err(ChainError::Malformed) => false,
    }
}

fn is_digest(text: &[u8]) -> bool {
    text.len() == DIGITS && text.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use super::{KnownChains, MAX_CHAIN_BYTES, MAX_TABLE_BYTES, Table};
    use crate::x509::hex_digest;
    use crate::x509::{MAX_CERTIFICATES, encode_chain};

    fn read(text: &[u8]) -> Option<Vec<u8>> {
        Some(encode_chain(std::iter::once(text)))
    }

    #[test]
    fn text_is_read_once_for_each_certificate() {
        let mut known = KnownChains::default();
        let digest = hex_digest(b"abc");
        let first = known.chain(&digest, b"abc", read).unwrap();
        assert_eq!(*first, encode_chain(std::iter::once(&b"abc"[..])));
        assert_eq!(known.chain(&digest, b"abc", |_| None), Some(first));
        assert_eq!(known.chain(&digest, b"abd", |_| None), None, "another text is not the one that was read");
    }

    #[test]
    fn text_of_another_certificate_yields_no_chain() {
        let mut known = KnownChains::default();
        assert_eq!(known.chain(&hex_digest(b"abc"), b"abd", read), None);
        assert_eq!(known.chain(b"", b"abc", read), None);
        assert_eq!(known.chain(&hex_digest(b"abc"), b"abc", |_| None), None);
        assert!(known.young.chains.is_empty() && known.old.chains.is_empty());
    }

    /// A text of so many bytes that is a certificate of its own.
    fn text(number: usize, bytes: usize) -> Vec<u8> {
        let mut text = number.to_le_bytes().to_vec();
        text.resize(bytes, b'x');
        text
    }

    #[test]
    fn certificates_that_anybody_can_make_take_bounded_memory() {
        let mut known = KnownChains::default();
        for number in 0..2_000 {
            let text = text(number / 2, if number % 5 == 0 { 10 } else { 15_000 });
            known.chain(&hex_digest(&text), &text, read).unwrap();
            for Table { chains, bytes } in [&known.young, &known.old] {
                let kept: usize = chains.values().map(super::ParsedChain::size).sum();
                assert!(kept == *bytes && kept <= MAX_TABLE_BYTES, "{kept}, counted {bytes}");
            }
        }
    }

    #[test]
    fn chain_in_use_outlives_the_certificates_of_others() {
        let mut known = KnownChains::default();
        let honest = text(0, 2_000);
        let digest = hex_digest(&honest);
        known.chain(&digest, &honest, read).unwrap();
        for number in 1..1_000 {
            let text = text(number, 15_000);
            known.chain(&hex_digest(&text), &text, read).unwrap();
            assert!(known.chain(&digest, &honest, |_| None).is_some(), "read again after {number} others");
        }
    }

    #[test]
    fn chain_that_is_too_large_is_read_each_time_and_displaces_none() {
        let mut known = KnownChains::default();
        let honest = text(0, 2_000);
        known.chain(&hex_digest(&honest), &honest, read).unwrap();
        let before = known.young.bytes;
        for number in 1..200 {
            let huge = text(number, MAX_CHAIN_BYTES);
            assert!(known.chain(&hex_digest(&huge), &huge, read).is_some());
            assert_eq!(known.chain(&hex_digest(&huge), &huge, |_| None), None);
        }
        assert_eq!((known.young.bytes, known.old.chains.len()), (before, 0));
    }

    /// Of `abc` (FIPS 180-2, appendix B.1).
    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digest_is_written_as_envoy_writes_it() {
        assert_eq!(hex_digest(b"abc"), OF_ABC.as_bytes());
        assert_eq!(hex_digest(b""), OF_NOTHING.as_bytes());
    }

    #[test]
    fn chain_belongs_to_the_certificate_that_was_presented() {
        let abc = encode_chain([&b"abc"[..], b"issuer"].into_iter());
        let other = encode_chain([&b"abd"[..], b"abc"].into_iter());
        let too_large = encode_chain([&b"abc"[..]; MAX_CERTIFICATES + 1].into_iter());
        let garbled = [&abc[..], &[][..], b"garbled"].map(|chain| chain.get(..38).unwrap_or(chain).to_vec());
        for (case, chain, belongs) in [
            ("its own", &abc, true),
            ("another leaf before it", &other, false),
            ("refused for its size", &too_large, true),
            ("cut", &garbled[0], false),
            ("empty", &garbled[1], false),
            ("no chain", &garbled[2], false),
        ] {
            assert_eq!(is_presented(chain, Some(OF_ABC.as_bytes())), belongs, "{case}");
        }
        assert!(is_presented(&encode_chain([&b"abd"[..]].into_iter()), Some(&hex_digest(b"abd"))));
    }

    #[test]
    fn malformed_digest_belongs_to_no_chain() {
        let chains = [encode_chain([&b"abc"[..]].into_iter()), encode_chain([&b"abc"[..]; 9].into_iter())];
        let raw = digest(&SHA256, b"abc").as_ref().to_vec();
        let (short, shorter) = (&OF_ABC[..63], &OF_ABC[..62]);
        let upper = OF_ABC.to_uppercase();
        let odd = [("b", "g"), ("ad", "ad0"), ("ad", "ad,00"), ("ba78", " ba78"), ("ba78", "ba7\0"), ("ba78", "0xba")];
        let odd = odd.map(|(from, to)| OF_ABC.replacen(from, to, 1));
        let texts = ["", "x", short, shorter, &upper].into_iter().chain(odd.iter().map(String::as_str));
        let mut texts: Vec<&[u8]> = texts.map(str::as_bytes).collect();
        let twice = raw.repeat(2);
        texts.extend([&raw[..], &twice, &[0; 64]]);
        for chain in &chains {
            assert!(!is_presented(chain, None));
            for text in &texts {
                assert!(!is_presented(chain, Some(text)), "{}", String::from_utf8_lossy(text));
            }
        }
    }
}
