//! Who the client's certificate says it is. The chain comes in `x-forwarded-client-cert`, which Envoy writes itself; the
//! digest of the certificate with which the client shook hands comes from the connection, where nobody can write it. Unless
//! both tell of the same certificate, the request fails closed: a listener that lets a client's own header through yields no
//! identity.

use std::rc::Rc;

use portcullis_core::Peer;
use portcullis_core::hygiene::Scan;
use portcullis_core::x509::{KnownChains, chain_from_header};

use crate::host::Host;

const DIGEST: &str = "connection\0sha256_peer_certificate_digest";

/// Chains that were read.
#[derive(Default)]
pub(crate) struct Peers(KnownChains);

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
            (Some(digest), Some(header)) => self.read(&digest, header, scan.forwarded_cert_lines),
            _ => Presented::Unreadable,
        }
    }

    fn read(&mut self, digest: &[u8], header: &[u8], lines: usize) -> Presented {
        let read = |header: &[u8]| chain_from_header(Some(header), lines)?.ok();
        let chain = if lines == 1 { self.0.chain(digest, header, read) } else { None };
        chain.map_or(Presented::Unreadable, Presented::Chain)
    }
}
