use portcullis_filter_config::{TokenKey, TokenPublicKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, EcdsaVerificationAlgorithm, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};

use super::NotVerified;
use super::token::{SignedToken, decode};

/// Bytes of an RSA modulus, and of its exponent. A longer one would have each forged token cost more.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=512;
const MAX_EXPONENT: usize = 4;

/// A key of an issuer.
#[derive(Debug)]
pub(super) struct IssuerKey {
    pub(super) id: Box<str>,
    algorithm: Option<Box<str>>,
    key: PublicKey,
}

#[derive(Debug)]
enum PublicKey {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// A point, and the only algorithm of its curve.
    Curve(&'static str, UnparsedPublicKey<Vec<u8>>),
}

impl IssuerKey {
    /// `None` if it is no key, or one that is too weak.
    pub(super) fn compile(raw: &TokenKey) -> Option<Self> {
        let key = match &raw.key {
            TokenPublicKey::Rsa { n, e } => {
                let (n, e) = (number(n)?, number(e)?);
                if !MODULUS.contains(&n.len()) || e.len() > MAX_EXPONENT {
                    return None;
                }
                PublicKey::Rsa(RsaPublicKeyComponents { n, e })
            }
            TokenPublicKey::P256 { x, y } => PublicKey::on_curve("ES256", &ECDSA_P256_SHA256_FIXED, 32, x, y)?,
            TokenPublicKey::P384 { x, y } => PublicKey::on_curve("ES384", &ECDSA_P384_SHA384_FIXED, 48, x, y)?,
        };
        let algorithm = raw.algorithm.as_deref().map(Box::from);
        (!raw.id.is_empty()).then(|| IssuerKey { id: raw.id.as_str().into(), algorithm, key })
    }

    /// Checks a token's signature. The key, and not the token, says what kind of signature it is.
    pub(super) fn check(&self, token: &SignedToken<'_>) -> Result<(), NotVerified> {
        if self.algorithm.as_deref().is_some_and(|only| only != token.algorithm) {
            return Err(NotVerified::Algorithm);
        }
        let checked = match &self.key {
            PublicKey::Rsa(key) => {
                let parameters = rsa_parameters(&token.algorithm).ok_or(NotVerified::Algorithm)?;
                key.verify(parameters, token.signed, &token.signature)
            }
            PublicKey::Curve(algorithm, key) if *algorithm == token.algorithm => {
                key.verify(token.signed, &token.signature)
            }
            PublicKey::Curve(..) => return Err(NotVerified::Algorithm),
        };
        checked.map_err(|_| NotVerified::Signature)
    }
}

impl PublicKey {
    fn on_curve(
        name: &'static str,
        algorithm: &'static EcdsaVerificationAlgorithm,
        size: usize,
        x: &str,
        y: &str,
    ) -> Option<Self> {
        let coordinate = |text: &str| decode(text.as_bytes()).filter(|bytes| bytes.len() == size);
        let point = [&[4][..], &coordinate(x)?, &coordinate(y)?].concat();
        Some(PublicKey::Curve(name, UnparsedPublicKey::new(algorithm, point)))
    }
}

fn rsa_parameters(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &RSA_PSS_2048_8192_SHA256,
        "PS384" => &RSA_PSS_2048_8192_SHA384,
        "PS512" => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// A positive number, without the leading zeros that some issuers write.
fn number(text: &str) -> Option<Vec<u8>> {
    let mut bytes = decode(text.as_bytes())?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    (!bytes.is_empty()).then_some(bytes)
}
