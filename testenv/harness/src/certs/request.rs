//! Certificates for keys of others, by a certificate signing request (RFC 2986): the part of the signer that a cluster's
//! controller manager has.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::key::{self, PrivateKey};
use super::{Ca, CertSpec, build, extensions};
use crate::error::{Error, Result};

/// commonName, 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

impl Ca {
    /// Issues the client certificate that a request in PEM asks for: its key (P-256) and its common name, nothing else.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn sign_request(&self, pem: &str) -> Result<String> {
        let unreadable = || Error::Certificate("reading a certificate signing request".to_owned());
        let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let der = STANDARD.decode(body).map_err(|_| unreadable())?;
        let (user, point) = user_and_point(&der).ok_or_else(unreadable)?;
        let spec = CertSpec::client(user, [""; 0]);
        let issuer = extensions::Issuer { name: &self.name, key: &self.identity.key };
        let certificate = build::certificate(&spec, &PrivateKey::of_another(point.to_vec()), &issuer)?;
        Ok(key::pem("CERTIFICATE", &certificate))
    }
}

/// The common name and the point of the public key.
fn user_and_point(request: &[u8]) -> Option<(&[u8], &[u8])> {
    let (request, _) = element(request)?;
    let (info, _) = element(request)?;
    let (_version, rest) = element(info)?;
    let (subject, rest) = element(rest)?;
    let (public_key, _) = element(rest)?;
    let (_algorithm, rest) = element(public_key)?;
    let (bits, _) = element(rest)?;
    Some((common_name(subject)?, bits.strip_prefix(&[0])?))
}

fn common_name(mut subject: &[u8]) -> Option<&[u8]> {
    while !subject.is_empty() {
        let (set, rest) = element(subject)?;
        let (attribute, _) = element(set)?;
        let (oid, value) = element(attribute)?;
        if oid == COMMON_NAME {
            return Some(element(value)?.0);
        }
        subject = rest;
    }
    None
}

/// The content of the first element, and what follows it.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.get(1..)?.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ ..0x80 => (short, rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(long - 0x80)?;
            (bytes.iter().fold(0, |length, byte| length * 256 + usize::from(*byte)), rest)
        }
    };
    rest.split_at_checked(length)
}
