use webpki::{Error, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage, RequiredEkuNotFoundContext};
use x509_parser::certificate::X509Certificate;

use super::CertificateError;

const CLIENT_AUTH: KeyPurposeId<'static> = KeyPurposeId::new(&[0x2b, 6, 1, 5, 5, 7, 3, 2]);
const ANY: KeyPurposeId<'static> = KeyPurposeId::new(&[0x55, 0x1d, 0x25, 0]);

/// Go's rule for the usage of a client's certificate and its issuers: no extended key usage is any, and `any` is any
/// (`crypto/x509`, `checkChainForKeyUsage`).
pub(super) struct ClientAuthEku;

impl ExtendedKeyUsageValidator for ClientAuthEku {
    fn validate(&self, usages: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        let mut is_any = true;
        for usage in usages {
            let usage = usage?;
            if usage == CLIENT_AUTH || usage == ANY {
                return Ok(());
            }
            is_any = false;
        }
        let (required, present) = (KeyUsage::client_auth(), Vec::new());
        if is_any {
            Ok(())
        } else {
            Err(Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext { required, present }))
        }
    }
}

/// The same of a certificate that is parsed already.
pub(super) fn is_for_clients(certificate: &X509Certificate<'_>) -> Result<bool, CertificateError> {
    let usages = certificate.extended_key_usage().map_err(|_| CertificateError::Malformed)?;
    Ok(usages.is_none_or(|usages| usages.value.any || usages.value.client_auth))
}
