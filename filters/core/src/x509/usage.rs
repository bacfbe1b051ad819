use webpki::{Error, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage, RequiredEkuNotFoundContext};

const CLIENT_AUTH: KeyPurposeId<'static> = KeyPurposeId::new(&[0x2b, 6, 1, 5, 5, 7, 3, 2]);
const ANY: KeyPurposeId<'static> = KeyPurposeId::new(&[0x55, 0x1d, 0x25, 0]);

/// What Go lets a client's certificate and its issuers be used for: no extended key usage is any, and `any` is any
/// (`crypto/x509`, `checkChainForKeyUsage`).
pub(super) struct ForClients;

impl ExtendedKeyUsageValidator for ForClients {
    fn validate(&self, usages: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        let (mut present, mut is_for_clients) = (Vec::new(), false);
        for usage in usages {
            let usage = usage?;
            is_for_clients |= usage == CLIENT_AUTH || usage == ANY;
            present.push(usage.to_decoded_oid());
        }
        if present.is_empty() || is_for_clients {
            return Ok(());
        }
        let required = KeyUsage::client_auth();
        Err(Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext { required, present }))
    }
}
