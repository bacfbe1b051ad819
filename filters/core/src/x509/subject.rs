use super::CertificateError;
use crate::identity::{Extra, UserInfo};
use ring::digest::{SHA256, digest};
use std::borrow::Cow;
use x509_parser::asn1_rs::{Any, Tag};
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The attribute that carries a user's UID (kube-apiserver, feature `AllowParsingUserUIDFromCertAuth`).
const OID_UID: &str = "1.3.6.1.4.1.57683.2";

/// The extra that names the credential in audit logs (apiserver, `pkg/authentication/user`).
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// User name from the last common name, groups from every organization in order, UID from its own attribute. `None` if there is
/// no common name.
pub(super) fn user_of(leaf: &[u8]) -> Result<Option<UserInfo>, CertificateError> {
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::Malformed)?;
    let mut name = String::new();
    let mut groups = Vec::new();
    let mut uids: Vec<String> = Vec::new();
    for attribute in certificate.subject().iter_attributes() {
        let oid = attribute.attr_type();
        if *oid == OID_X509_COMMON_NAME {
            name = text(attribute.attr_value())?.into_owned();
        } else if *oid == OID_X509_ORGANIZATION_NAME {
            groups.push(text(attribute.attr_value())?.into_owned());
        } else if oid.to_id_string() == OID_UID {
            uids.push(text(attribute.attr_value())?.into_owned());
        }
    }
    if name.is_empty() {
        return Ok(None);
    }
    // Only now: a certificate without a name has no user, whatever its other fields.
    let uid = match &*uids {
        [] => String::new(),
        [uid] if !uid.is_empty() => uid.clone(),
        _ => return Err(CertificateError::Subject),
    };
    let credential = Extra { key: CREDENTIAL_ID.to_owned(), values: vec![credential_id(leaf)] };
    Ok(Some(UserInfo { name, uid, groups, extra: vec![credential] }))
}

fn credential_id(leaf: &[u8]) -> String {
    let mut id = String::from("X509SHA256=");
    for byte in digest(&SHA256, leaf).as_ref() {
        for nibble in [byte >> 4, byte & 15] {
            id.push(char::from_digit(u32::from(nibble), 16).unwrap_or_default());
        }
    }
    id
}

/// A name attribute's value as Go reads it (`crypto/x509`, `parseASN1String`). No other string types are text.
pub(super) fn text<'a>(value: &Any<'a>) -> Result<Cow<'a, str>, CertificateError> {
    let data = value.data;
    let plain = |is_allowed: fn(&u8) -> bool| {
        let is_text = data.iter().all(is_allowed);
        std::str::from_utf8(data).ok().filter(|_| is_text).map(Cow::Borrowed).ok_or(CertificateError::Subject)
    };
    match value.tag() {
        Tag::Utf8String => plain(|_| true),
        Tag::PrintableString => plain(is_printable),
        Tag::Ia5String => plain(u8::is_ascii),
        Tag::NumericString => plain(|byte| byte.is_ascii_digit() || *byte == b' '),
        // Read as Latin-1.
        Tag::T61String => Ok(data.iter().map(|byte| char::from(*byte)).collect::<String>().into()),
        Tag::BmpString => bmp(data).map(Cow::Owned).ok_or(CertificateError::Subject),
        _ => Err(CertificateError::Subject),
    }
}

/// The star and the ampersand are not of the type, but certificates have them.
fn is_printable(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(byte)
}

/// Two bytes a character, without a terminator, surrogates and what Unicode keeps unassigned for ever.
fn bmp(data: &[u8]) -> Option<String> {
    let data = data.strip_suffix(&[0, 0]).filter(|_| data.len().is_multiple_of(2)).unwrap_or(data);
    let (units, []) = data.as_chunks::<2>() else { return None };
    units.iter().map(|unit| u16::from_be_bytes(*unit)).map(bmp_character).collect()
}

fn bmp_character(unit: u16) -> Option<char> {
    let is_reserved = matches!(unit, 0xfdd0..=0xfdef | 0xfffe | 0xffff);
    char::from_u32(u32::from(unit)).filter(|_| !is_reserved)
}
