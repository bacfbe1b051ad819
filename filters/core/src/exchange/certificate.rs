//! The client's certificate of a request, from the one place that the listener's configuration names.

use std::rc::Rc;

use portcullis_filter_config::PeerSource;

use super::host::Host;
use crate::header_scan::HeaderScan;
use crate::request::Peer;
use crate::x509::{chain_from_header, chain_from_text};

/// A client's chain, borrowed from the proxy or parsed from text.
pub(super) enum PresentedChain<'h> {
    None,
    Recorded(&'h [u8]),
    Parsed(Rc<[u8]>),
    /// There is a certificate, or there may be one, but no chain that belongs to the handshake: an error, never an anonymous
    /// client.
    Unreadable,
}

impl<'h> PresentedChain<'h> {
    /// The chain of the connection that the request came on.
    pub(super) fn find<H: Host>(source: PeerSource, scan: &HeaderScan<'_>, host: &'h H) -> Self {
        let header = match source {
            PeerSource::Validator => None,
            PeerSource::ForwardedClientCert | PeerSource::Connection => scan.forwarded_cert,
        };
        if let Some(header) = header {
            let lines = scan.forwarded_cert_lines;
            // Before the memory of parsed chains is asked: of several lines only the last is at hand.
            if lines != 1 {
                return Self::Unreadable;
            }
            return Self::parse(host, header, |header| chain_from_header(Some(header), lines)?.ok());
        }
        let found = match source {
            PeerSource::Connection => Self::of_connection(host),
            PeerSource::Validator | PeerSource::ForwardedClientCert => host.recorded_chain().map(Self::Recorded),
        };
        found.unwrap_or_else(|| if host.presented_certificate() { Self::Unreadable } else { Self::None })
    }

    /// The one certificate of the connection. The digest of the handshake alone says which it is, once its text was read. A text
    /// without a digest is no certificate's, and never counts as none.
    fn of_connection(host: &impl Host) -> Option<Self> {
        let digest = host.certificate_digest();
        let known = digest.as_ref().and_then(|digest| host.with_known_chains(|known| known.alone(digest)).flatten());
        known.map(Self::Parsed).or_else(|| {
            let text = host.connection_certificate()?;
            let read = |text: &[u8]| chain_from_text(text).ok();
            let read = |digest| host.with_known_chains(|known| known.chain(digest, &text, read)).flatten();
            Some(digest.as_deref().and_then(read).map_or(Self::Unreadable, Self::Parsed))
        })
    }

    /// A text counts only for the certificate of the TLS handshake: a client's own header yields no identity.
    fn parse(host: &impl Host, text: &[u8], parse: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Self {
        let chain = host
            .certificate_digest()
            .and_then(|digest| host.with_known_chains(|known| known.chain(&digest, text, parse)).flatten());
        chain.map_or(Self::Unreadable, Self::Parsed)
    }

    pub(super) fn peer(&self) -> Peer<'_> {
        match self {
            Self::None => Peer::None,
            Self::Recorded(chain) => Peer::Chain(chain),
            Self::Parsed(chain) => Peer::Chain(chain),
            Self::Unreadable => Peer::Unreadable,
        }
    }
}
