use ring::digest::{SHA256, digest};
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::CertificateError;
use super::directory_string::text;
use crate::identity::{Extra, UserInfo};

/// The attribute that carries a user's UID (kube-apiserver, feature `AllowParsingUserUIDFromCertAuth`).
const OID_UID: &str = "1.3.6.1.4.1.57683.2";

/// The extra that names the credential in audit logs (apiserver, `pkg/authentication/user`).
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// User name from the last common name, groups from every organization in order, UID from its own attribute. Nobody, if
/// there is no common name.
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
    // Only now: a certificate without a name says nothing, whatever else stands in it.
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
