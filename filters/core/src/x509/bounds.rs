//! How much of a certificate is looked at. Parsers are linear, but a hundred nanoseconds for every two bytes of a chain that
//! anybody can write is too much: its elements are counted first, which costs a few nanoseconds each.

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{ExtendedKeyUsage, ParsedExtension};

/// Extensions of one certificate.
const MAX_EXTENSIONS: usize = 32;
/// Extended key usages of one certificate.
const MAX_USAGES: usize = 32;
/// Certificate policies of one certificate.
const MAX_POLICIES: usize = 32;
/// Elements of a client's own certificate: 1,024 of them for groups.
pub(super) const MAX_LEAF_ELEMENTS: usize = 1_536;
/// Elements of an issuer's certificate; usual ones have fewer than 100.
pub(super) const MAX_ISSUER_ELEMENTS: usize = 512;

const OCTET_STRING: u8 = 0x04;
const CONSTRUCTED: u8 = 0x20;

/// Whether a certificate has at most so many elements, those inside of its extensions included.
pub(super) fn is_bounded(der: &[u8], most: usize, cost: &mut Cost) -> bool {
    let mut count = 0_usize;
    // The regions to read: extensions are DER in the octet strings of other DER.
    let mut regions = vec![der];
    while let Some(mut rest) = regions.pop() {
        while !rest.is_empty() && count <= most {
            let Some((tag, content, tail)) = element(rest) else {
                // Not DER, but perhaps readable for a lenient parser: no element is shorter than two bytes.
                count = count.saturating_add(rest.len() / 2);
                break;
            };
            count = count.saturating_add(1);
            if is_looked_into(tag, content) {
                regions.push(tail);
                rest = content;
            } else {
                rest = tail;
            }
        }
    }
    cost.step(count.min(most));
    count <= most
}

/// Whether parsers look for elements inside. Some do not mind that an element says it has none.
fn is_looked_into(tag: u8, content: &[u8]) -> bool {
    const CARELESS: [u8; 5] = [0x10, 0x11, 0x80, 0x81, 0x82];
    let is_text = || content.iter().all(|byte| matches!(byte, b' '..=b'~'));
    tag & CONSTRUCTED != 0 || tag == OCTET_STRING || CARELESS.contains(&tag) && !is_text()
}

/// The tag, the content and what follows. `None` for what DER does not have: tags of several bytes, lengths without an end or
/// of more than three bytes.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, length], rest) = der.split_first_chunk()?;
    let (length, rest) = match length {
        ..=0x7f => (usize::from(length), rest),
        0x81 => rest.split_first_chunk().map(|([length], rest)| (usize::from(*length), rest))?,
        0x82 => rest.split_first_chunk().map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest))?,
        _ => return None,
    };
    let (content, tail) = rest.split_at_checked(length)?;
    (tag & 0x1f != 0x1f).then_some((tag, content, tail))
}

/// Whether each list of a certificate is of a useful length.
pub(super) fn has_bounded_lists(certificate: &X509Certificate<'_>) -> bool {
    let extensions = certificate.extensions();
    extensions.len() <= MAX_EXTENSIONS
        && extensions.iter().all(|extension| match extension.parsed_extension() {
            ParsedExtension::ExtendedKeyUsage(usages) => count(usages) <= MAX_USAGES,
            ParsedExtension::CertificatePolicies(policies) => policies.len() <= MAX_POLICIES,
            _ => true,
        })
}

fn count(usages: &ExtendedKeyUsage<'_>) -> usize {
    let ExtendedKeyUsage { any, server_auth, client_auth, code_signing, email_protection, time_stamping, .. } = *usages;
    let known = [any, server_auth, client_auth, code_signing, email_protection, time_stamping, usages.ocsp_signing];
    usages.other.len().saturating_add(known.iter().filter(|is_there| **is_there).count())
}

/// How much work a chain was, in numbers that are the same on every machine. Whatever bytes a client sends, the steps are
/// bounded by their number, and the signatures by [`MAX_SIGNATURES`](super::MAX_SIGNATURES).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Elements of DER that were looked at, and names and key identifiers that were compared, each 16 bytes of them a step.
    pub steps: u64,
    /// Signatures that were checked before the path was found, good ones included.
    pub signatures: u32,
}

impl Cost {
    fn step(&mut self, count: usize) {
        self.steps = self.steps.saturating_add(count as u64);
    }

    /// Compares two texts of a client's.
    pub(super) fn equal(&mut self, a: &[u8], b: &[u8]) -> bool {
        let compared = if a.len() == b.len() { a.len() / 16 } else { 0 };
        self.step(compared.saturating_add(1));
        a == b
    }
}
