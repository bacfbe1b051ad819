//! Who the client's certificate says it is. The chain comes in `x-forwarded-client-cert`, which Envoy writes itself; the
//! digest of the certificate with which the client shook hands comes from the connection, where nobody can write it. Unless
//! both tell of the same certificate, the request fails closed: a listener that lets a client's own header through yields no
//! identity.

use std::collections::HashMap;
use std::rc::Rc;

use portcullis_core::Peer;
use portcullis_core::hygiene::Scan;
use portcullis_core::x509::{chain_from_header, is_presented};

use crate::host::Host;

const DIGEST: &str = "connection\0sha256_peer_certificate_digest";

/// Bytes of certificates that are kept, so that no request has to read its header. Anybody can present new ones, large ones,
/// too, that nobody signed.
const MOST: usize = 4 << 20;

/// Chains that were read, by the digest of the certificate.
#[derive(Default)]
pub(crate) struct Peers {
    read: HashMap<Vec<u8>, Read>,
    bytes: usize,
}

struct Read {
    header: Vec<u8>,
    chain: Rc<[u8]>,
}

impl Read {
    /// Bytes, with what a place in the table takes.
    fn size(&self) -> usize {
        self.header.len().saturating_add(self.chain.len()).saturating_add(256)
    }
}

/// What is known of the client's certificate.
pub(crate) enum Presented {
    /// There is none.
    None,
    /// Its chain ([`portcullis_core::x509::encode_chain`]).
    Chain(Rc<[u8]>),
    /// It cannot be told which.
    Unreadable,
}

impl Presented {
    pub(crate) fn peer(&self) -> Peer<'_> {
        match self {
            Presented::None => Peer::None,
            Presented::Chain(chain) => Peer::Chain(chain),
            Presented::Unreadable => Peer::Unreadable,
        }
    }
}

impl Peers {
    /// The current request's certificate.
    pub(crate) fn of(&mut self, scan: &Scan<'_>, host: &impl Host) -> Presented {
        let digest = host.property(DIGEST).filter(|digest| !digest.is_empty());
        match (digest, scan.forwarded_cert) {
            (None, None) => Presented::None,
            (Some(digest), Some(header)) => self.read(digest, header, scan.forwarded_cert_lines),
            _ => Presented::Unreadable,
        }
    }

    fn keep(&mut self, digest: Vec<u8>, read: Read) {
        let size = read.size();
        if self.bytes.saturating_add(size) > MOST {
            self.read.clear();
            self.bytes = 0;
        }
        let before = self.read.insert(digest, read).map_or(0, |before| before.size());
        self.bytes = self.bytes.saturating_add(size).saturating_sub(before);
    }

    fn read(&mut self, digest: Vec<u8>, header: &[u8], lines: usize) -> Presented {
        if let Some(known) = self.read.get(&digest)
            && known.header == header
            && lines == 1
        {
            return Presented::Chain(Rc::clone(&known.chain));
        }
        let Some(Ok(chain)) = chain_from_header(Some(header), lines) else { return Presented::Unreadable };
        if !is_presented(&chain, Some(&digest)) {
            return Presented::Unreadable;
        }
        let chain: Rc<[u8]> = chain.into();
        self.keep(digest, Read { header: header.to_vec(), chain: Rc::clone(&chain) });
        Presented::Chain(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Peers, Read};

    #[test]
    fn certificates_that_anybody_can_make_take_bounded_memory() {
        let mut peers = Peers::default();
        for number in 0..2_000_u32 {
            let read = || Read { header: vec![b'x'; 100_000], chain: vec![0; 30_000].into() };
            peers.keep(number.to_le_bytes().to_vec(), read());
            peers.keep(number.to_le_bytes().to_vec(), read());
            let kept: usize = peers.read.values().map(Read::size).sum();
            assert!(kept == peers.bytes && kept <= MOST, "{kept}, counted {}", peers.bytes);
        }
    }
}
