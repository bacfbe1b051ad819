//! The extensions of a certificate (RFC 5280 4.2).

use std::net::IpAddr;

use super::der;
use super::key::PrivateKey;
use super::spec::{CertSpec, Usage};

/// The signer of a certificate.
pub(super) struct Issuer<'a> {
    pub(super) name: &'a [u8],
    pub(super) key: &'a PrivateKey,
}

/// All extensions as one SEQUENCE.
pub(super) fn all(spec: &CertSpec, key: &PrivateKey, issuer: &Issuer<'_>) -> Vec<u8> {
    let mut list = vec![basic_constraints(spec.is_ca), key_usage(spec.is_ca)];
    list.push(extension(14, false, &der::octet_string(&key.identifier())));
    list.push(extension(35, false, &der::sequence(&[&der::element(0x80, &issuer.key.identifier())])));
    if !spec.usages.is_empty() {
        let usages: Vec<Vec<u8>> = spec.usages.iter().map(|usage| usage_oid(*usage)).collect();
        list.push(extension(37, false, &der::element(0x30, &usages.concat())));
    }
    if !(spec.dns.is_empty() && spec.uris.is_empty() && spec.ips.is_empty()) {
        list.push(extension(17, false, &alternative_names(spec)));
    }
    der::element(0x30, &list.concat())
}

/// One extension below id-ce (2.5.29).
fn extension(id: u64, critical: bool, value: &[u8]) -> Vec<u8> {
    let flag = if critical { der::boolean_true() } else { Vec::new() };
    der::sequence(&[&der::oid(&[2, 5, 29, id]), &flag, &der::octet_string(value)])
}

fn basic_constraints(is_ca: bool) -> Vec<u8> {
    let flag = if is_ca { der::boolean_true() } else { Vec::new() };
    extension(19, true, &der::sequence(&[&flag]))
}

/// keyCertSign and cRLSign for an authority, digitalSignature for all others; as BIT STRING with its unused bits.
fn key_usage(is_ca: bool) -> Vec<u8> {
    let bits: [u8; 2] = if is_ca { [1, 0b0000_0110] } else { [7, 0b1000_0000] };
    extension(15, true, &der::element(0x03, &bits))
}

fn alternative_names(spec: &CertSpec) -> Vec<u8> {
    let dns = spec.dns.iter().map(|name| der::element(0x82, name.as_bytes()));
    let ips = spec.ips.iter().map(|ip| match ip {
        IpAddr::V4(ip) => der::element(0x87, &ip.octets()),
        IpAddr::V6(ip) => der::element(0x87, &ip.octets()),
    });
    let uris = spec.uris.iter().map(|uri| der::element(0x86, uri.as_bytes()));
    der::element(0x30, &dns.chain(uris).chain(ips).collect::<Vec<_>>().concat())
}

/// The object identifier of a usage below id-kp (RFC 5280 4.2.1.12).
fn usage_oid(usage: Usage) -> Vec<u8> {
    match usage {
        Usage::Server => der::oid(&[1, 3, 6, 1, 5, 5, 7, 3, 1]),
        Usage::Client => der::oid(&[1, 3, 6, 1, 5, 5, 7, 3, 2]),
        Usage::CodeSigning => der::oid(&[1, 3, 6, 1, 5, 5, 7, 3, 3]),
        Usage::Any => der::oid(&[2, 5, 29, 37, 0]),
    }
}
