//! Chains that came as text and were read, so that not every request of a connection has to.

use std::collections::HashMap;
use std::rc::Rc;

use super::is_presented;

/// Bytes that are kept. Anybody can present new certificates, large ones, too, that nobody signed.
const MOST: usize = 2 << 20;

/// Chains that were read, by the digest of the certificate: those of one worker.
#[derive(Debug, Default)]
pub struct KnownChains {
    known: HashMap<Vec<u8>, Known>,
    bytes: usize,
}

#[derive(Debug)]
struct Known {
    text: Vec<u8>,
    chain: Rc<[u8]>,
}

impl Known {
    /// Bytes, with what a place in the table takes.
    fn size(&self) -> usize {
        self.text.len().saturating_add(self.chain.len()).saturating_add(256)
    }
}

impl KnownChains {
    /// The chain ([`super::encode_chain`]) that a text holds, in which `read` finds it. `presented` is the digest of the
    /// certificate with which the connection's client shook hands, as Envoy tells it. `None` if the text is not readable or of
    /// another certificate: the request fails closed.
    pub fn chain(
        &mut self,
        presented: &[u8],
        text: &[u8],
        read: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> Option<Rc<[u8]>> {
        if let Some(known) = self.known.get(presented)
            && known.text == text
        {
            return Some(Rc::clone(&known.chain));
        }
        let chain = read(text).filter(|chain| is_presented(chain, Some(presented)))?;
        let chain: Rc<[u8]> = chain.into();
        self.keep(presented.to_vec(), Known { text: text.to_vec(), chain: Rc::clone(&chain) });
        Some(chain)
    }

    fn keep(&mut self, presented: Vec<u8>, known: Known) {
        let size = known.size();
        if size > MOST {
            return;
        }
        if self.bytes.saturating_add(size) > MOST {
            self.known.clear();
            self.bytes = 0;
        }
        let before = self.known.insert(presented, known).map_or(0, |before| before.size());
        self.bytes = self.bytes.saturating_add(size).saturating_sub(before);
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, KnownChains, MOST};
    use crate::x509::{encode_chain, hex_digest};

    fn read(text: &[u8]) -> Option<Vec<u8>> {
        Some(encode_chain(std::iter::once(text)))
    }

    #[test]
    fn a_text_is_read_once_for_each_certificate() {
        let mut known = KnownChains::default();
        let digest = hex_digest(b"abc");
        let first = known.chain(&digest, b"abc", read).unwrap();
        assert_eq!(*first, encode_chain(std::iter::once(&b"abc"[..])));
        assert_eq!(known.chain(&digest, b"abc", |_| None), Some(first));
        assert_eq!(known.chain(&digest, b"abd", |_| None), None, "another text is not the one that was read");
    }

    #[test]
    fn a_text_of_another_certificate_yields_no_chain() {
        let mut known = KnownChains::default();
        assert_eq!(known.chain(&hex_digest(b"abc"), b"abd", read), None);
        assert_eq!(known.chain(b"", b"abc", read), None);
        assert_eq!(known.chain(&hex_digest(b"abc"), b"abc", |_| None), None);
        assert!(known.known.is_empty());
    }

    #[test]
    fn certificates_that_anybody_can_make_take_bounded_memory() {
        let mut chains = KnownChains::default();
        for number in 0..2_000_u32 {
            let known = || Known { text: vec![b'x'; 100_000], chain: vec![0; 30_000].into() };
            chains.keep(number.to_le_bytes().to_vec(), known());
            chains.keep(number.to_le_bytes().to_vec(), known());
            let kept: usize = chains.known.values().map(Known::size).sum();
            assert!(kept == chains.bytes && kept <= MOST, "{kept}, counted {}", chains.bytes);
        }
        let before = chains.bytes;
        chains.keep(b"huge".to_vec(), Known { text: vec![0; MOST], chain: vec![0; 1].into() });
        assert_eq!(chains.bytes, before);
    }
}
