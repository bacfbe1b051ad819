use std::net::IpAddr;

use x509_parser::asn1_rs::{Any, Oid, Tag};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::*;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use super::CertificateError;
use super::bounds::Cost;
use super::bounds::{has_bounded_lists, is_bounded};
use super::subject::text;

/// Extensions whose content Go looks at; the content of another does not matter to it.
const READ_BY_GO: [Oid<'static>; 13] = [
    OID_PKIX_AUTHORITY_INFO_ACCESS,
    OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER,
    OID_X509_EXT_BASIC_CONSTRAINTS,
    OID_X509_EXT_CERTIFICATE_POLICIES,
    OID_X509_EXT_CRL_DISTRIBUTION_POINTS,
    OID_X509_EXT_EXTENDED_KEY_USAGE,
    OID_X509_EXT_INHIBIT_ANY_POLICY,
    OID_X509_EXT_KEY_USAGE,
    OID_X509_EXT_NAME_CONSTRAINTS,
    OID_X509_EXT_POLICY_CONSTRAINTS,
    OID_X509_EXT_POLICY_MAPPINGS,
    OID_X509_EXT_SUBJECT_ALT_NAME,
    OID_X509_EXT_SUBJECT_KEY_IDENTIFIER,
];

/// Parses a certificate that anybody may have written: one of more parts than are ever looked at is not read at all.
pub(super) fn parse_presented<'a>(
    der: &'a [u8],
    most: usize,
    cost: &mut Cost,
) -> Result<X509Certificate<'a>, CertificateError> {
    if !is_bounded(der, most, cost) {
        return Err(CertificateError::Oversized);
    }
    let certificate = parse(der)?;
    if has_bounded_lists(&certificate) { Ok(certificate) } else { Err(CertificateError::Oversized) }
}

/// Parses a certificate, and refuses what Go's parser refuses and a library for paths does not look at: with
/// kube-apiserver such a certificate ends the handshake, wherever in the chain it stands.
pub(super) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, CertificateError> {
    let Ok(([], certificate)) = X509Certificate::from_der(der) else { return Err(CertificateError::Malformed) };
    let is_well_formed = is_positive(certificate.raw_serial()) && has_sound_extensions(&certificate);
    if !is_well_formed {
        return Err(CertificateError::Malformed);
    }
    check_name(certificate.subject())?;
    check_name(certificate.issuer())?;
    Ok(certificate)
}

/// The content of the algorithm by which a certificate says that it is signed.
pub(super) fn signature_algorithm(der: &[u8]) -> Option<&[u8]> {
    let (_, certificate) = Any::from_der(der).ok()?;
    elements(certificate.data).nth(1)?.map(|algorithm| algorithm.data)
}

/// An integer of DER that is not negative.
fn is_positive(serial: &[u8]) -> bool {
    match serial {
        [] => false,
        [0, next, ..] => *next >= 0x80,
        [first, ..] => *first < 0x80,
    }
}

fn check_name(name: &X509Name<'_>) -> Result<(), CertificateError> {
    // The library ends a name in silence where it meets a set that it cannot read.
    if count_attributes(name.as_raw()) != Some(name.iter_attributes().count()) {
        return Err(CertificateError::Malformed);
    }
    name.iter_attributes().try_for_each(|attribute| text(attribute.attr_value()).map(|_| ()))
}

/// How many attributes a name has. `None` if it is no sequence of sets of them, or a set is empty.
fn count_attributes(name: &[u8]) -> Option<usize> {
    let ([], sequence) = Any::from_der(name).ok()? else { return None };
    let mut count = 0_usize;
    for set in elements(sequence.data) {
        let set = set.filter(|set| set.tag() == Tag::Set && !set.data.is_empty())?;
        for attribute in elements(set.data) {
            attribute.filter(|attribute| attribute.tag() == Tag::Sequence)?;
            count = count.saturating_add(1);
        }
    }
    Some(count)
}

/// The elements, one behind the other; `None` is the last where the rest is none.
fn elements(mut rest: &[u8]) -> impl Iterator<Item = Option<Any<'_>>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        match Any::from_der(rest) {
            Ok((tail, element)) => {
                rest = tail;
                Some(Some(element))
            }
            Err(_) => {
                rest = &[];
                Some(None)
            }
        }
    })
}

/// No extension twice, and none broken that Go reads.
fn has_sound_extensions(certificate: &X509Certificate<'_>) -> bool {
    let extensions = certificate.extensions();
    has_no_equal(extensions.iter().map(|extension| extension.oid.as_bytes()))
        && extensions.iter().all(|extension| match extension.parsed_extension() {
            ParsedExtension::ParseError { .. } => !READ_BY_GO.contains(&extension.oid),
            ParsedExtension::KeyUsage(_) => is_bit_string(extension.value),
            ParsedExtension::CertificatePolicies(policies) => {
                has_no_equal(policies.iter().map(|policy| policy.policy_id.as_bytes()))
            }
            ParsedExtension::SubjectAlternativeName(names) => names.general_names.iter().all(is_sound_name),
            _ => true,
        })
}

fn has_no_equal<'a>(identifiers: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut sorted: Vec<&[u8]> = identifiers.collect();
    sorted.sort_unstable();
    sorted.array_windows().all(|[a, b]| a != b)
}

/// A BIT STRING whose unused bits there are, and are zero.
fn is_bit_string(der: &[u8]) -> bool {
    match der {
        [3, 1, 0] => true,
        [3, len, unused @ 0..=7, bits @ .., last] => {
            usize::from(*len) == bits.len().saturating_add(2) && last.trailing_zeros() >= u32::from(*unused)
        }
        _ => false,
    }
}

fn is_sound_name(name: &GeneralName<'_>) -> bool {
    match name {
        GeneralName::RFC822Name(text) | GeneralName::DNSName(text) => text.is_ascii(),
        GeneralName::URI(uri) => is_plain_uri(uri),
        GeneralName::IPAddress(bytes) => {
            <[u8; 4]>::try_from(*bytes).map(IpAddr::from).is_ok()
                || <[u8; 16]>::try_from(*bytes).map(IpAddr::from).is_ok()
        }
        GeneralName::Invalid(..) => false,
        _ => true,
    }
}

/// Stricter than Go: a name as its host, which is what Go can hold against name constraints; no user, no empty label, and
/// escapes only behind the host.
fn is_plain_uri(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once("://") else { return false };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (host, port) = authority.split_once(':').unwrap_or((authority, "1"));
    let is_label = |label: &str| label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let is_address = host.rsplit('.').all(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    let is_host = !is_address && host.split('.').all(|label| !label.is_empty() && is_label(label));
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_path = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>[\\]^`{|}".contains(&byte));
    is_scheme && is_host && is_port && is_path && crate::request_info::unescape_path(path.as_bytes()).is_ok()
}
