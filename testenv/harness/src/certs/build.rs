//! From a specification to a signed certificate (RFC 5280 4.1).

use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::{SecureRandom, SystemRandom};

use super::extensions::Issuer;
use super::key::PrivateKey;
use super::spec::CertSpec;
use super::{der, extensions};
use crate::error::{Error, Result};

/// The subject as DER.
pub(super) fn name(spec: &CertSpec) -> Vec<u8> {
    let attribute =
        |arcs: &[u64], value: &Vec<u8>| der::set(&der::sequence(&[&der::oid(arcs), &der::utf8_string(value)]));
    // Organizations first and the common name last, the usual order of names.
    let parts: Vec<Vec<u8>> = (spec.organizations.iter().map(|value| attribute(&[2, 5, 4, 10], value)))
        .chain(spec.common_names.iter().map(|value| attribute(&[2, 5, 4, 3], value)))
        .chain(spec.uids.iter().map(|value| attribute(&[1, 3, 6, 1, 4, 1, 57683, 2], value)))
        .collect();
    der::element(0x30, &parts.concat())
}

/// A certificate for `key`, signed by `issuer`.
pub(super) fn certificate(spec: &CertSpec, key: &PrivateKey, issuer: &Issuer<'_>) -> Result<Vec<u8>> {
    let body = to_be_signed(spec, key, issuer)?;
    let signature = issuer.key.sign(&body)?;
    Ok(der::sequence(&[&body, &signature_algorithm(), &der::bit_string(&signature)]))
}

fn to_be_signed(spec: &CertSpec, key: &PrivateKey, issuer: &Issuer<'_>) -> Result<Vec<u8>> {
    let now = now()?;
    let version = der::element(0xa0, &der::integer(&[2]));
    let validity = der::sequence(&[
        &der::time(now.saturating_add(spec.not_before)),
        &der::time(now.saturating_add(spec.not_after)),
    ]);
    Ok(der::sequence(&[
        &version,
        &der::integer(&serial(spec)?),
        &signature_algorithm(),
        issuer.name,
        &validity,
        &name(spec),
        &key.public_key_info(),
        &der::element(0xa3, &extensions::all(spec, key, issuer)),
    ]))
}

/// ecdsa-with-SHA256 (RFC 5758).
fn signature_algorithm() -> Vec<u8> {
    der::sequence(&[&der::oid(&[1, 2, 840, 10045, 4, 3, 2])])
}

fn serial(spec: &CertSpec) -> Result<Vec<u8>> {
    if let Some(serial) = &spec.serial {
        return Ok(serial.clone());
    }
    let mut bytes = [0_u8; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Certificate("no randomness".to_owned()))?;
    // At most 127 bits, so that the encoding needs no more than 16 bytes.
    Ok(bytes.into_iter().enumerate().map(|(at, byte)| if at == 0 { byte & 0x7f | 1 } else { byte }).collect())
}

fn now() -> Result<i64> {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .ok_or_else(|| Error::Certificate("the clock is before 1970".to_owned()))
}
