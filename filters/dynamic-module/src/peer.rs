//! The client of a connection, by the certificate that it presented.

use std::cell::RefCell;
use std::rc::Rc;

use envoy_abi::http::FilterHandle;
use portcullis_core::Peer;
use portcullis_core::hygiene::Scan;
use portcullis_core::x509::{KnownChains, chain_from_header, chain_from_text};
use portcullis_filter_config::{PeerSource, names};

thread_local! {
    /// The chains that this worker has read.
    static KNOWN: RefCell<KnownChains> = RefCell::default();
}

/// What is known of the client's certificate.
pub(crate) enum Presented<'a> {
    /// There is none.
    None,
    /// Its chain ([`portcullis_core::x509::encode_chain`]), kept by the certificate validator.
    Kept(&'a [u8]),
    /// Its chain, read from a text that Envoy wrote.
    Read(Rc<[u8]>),
    /// It cannot be told which: an error, never nobody.
    Unreadable,
}

impl<'a> Presented<'a> {
    /// The certificate of the current request's connection.
    pub(crate) fn find(source: PeerSource, scan: &Scan<'_>, stream: &'a FilterHandle) -> Self {
        let header = match source {
            PeerSource::Validator => None,
            PeerSource::ForwardedClientCert | PeerSource::Connection => scan.forwarded_cert,
        };
        if let Some(header) = header {
            let lines = scan.forwarded_cert_lines;
            // Before the memory of known chains is asked: of several lines only the last is at hand.
            if lines != 1 {
                return Self::Unreadable;
            }
            return Self::read(stream, header, |header| chain_from_header(Some(header), lines)?.ok());
        }
        let kept = match source {
            PeerSource::Connection => stream
                .filter_state(names::CLIENT_CERTIFICATE)
                .map(|text| Self::read(stream, text, |text| chain_from_text(text).ok())),
            PeerSource::Validator | PeerSource::ForwardedClientCert => {
                stream.filter_state(names::CLIENT_CHAIN).map(Self::Kept)
            }
        };
        kept.unwrap_or(if stream.presented_certificate() { Self::Unreadable } else { Self::None })
    }

    fn read(stream: &FilterHandle, text: &[u8], read: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Self {
        let chain = stream.certificate_digest().and_then(|digest| {
            KNOWN.with(|known| known.try_borrow_mut().ok().and_then(|mut known| known.chain(digest, text, read)))
        });
        chain.map_or(Self::Unreadable, Self::Read)
    }

    pub(crate) fn peer(&self) -> Peer<'_> {
        match self {
            Self::None => Peer::None,
            Self::Kept(chain) => Peer::Chain(chain),
            Self::Read(chain) => Peer::Chain(chain),
            Self::Unreadable => Peer::Unreadable,
        }
    }
}
