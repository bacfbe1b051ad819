//! Certificates that come by `x-forwarded-client-cert`, which Envoy writes itself. Whose certificate it was the connection
//! tells, too, where nobody can write: unless both tell of the same one, the request fails closed. A listener that lets a
//! client's own header through yields no identity.

use ring::digest::{SHA256, digest};

use portcullis_core::x509::ClientChain;

/// Whether a chain ([`portcullis_core::x509::encode_chain`]) is of the certificate with that SHA-256, in lower-case
/// hexadecimal digits.
pub(crate) fn is_of(chain: &[u8], presented: Option<&[u8]>) -> bool {
    let Some(presented) = presented.filter(|digest| !digest.is_empty()) else { return false };
    // One that is too large to be kept has no leaf to compare; the core refuses it as the client's fault.
    let Ok(chain) = ClientChain::decode(chain) else { return true };
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
    let found = digest(&SHA256, chain.leaf());
    let text = found.as_ref().iter().flat_map(digits);
    text.eq(presented.iter().map(|byte| Some(char::from(*byte))))
}

#[cfg(test)]
mod tests {
    use portcullis_core::x509::encode_chain;

    use super::is_of;

    #[test]
    fn a_chain_belongs_to_the_certificate_that_was_presented() {
        let chain = encode_chain([&b"abc"[..], b"issuer"].into_iter());
        let digest = b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(is_of(&chain, Some(digest)));
        let other = encode_chain([&b"abd"[..], b"issuer"].into_iter());
        assert!(!is_of(&other, Some(digest)));
        for presented in [None, Some(&b""[..]), digest.get(..62), Some(b"x")] {
            assert!(!is_of(&chain, presented), "{presented:?}");
        }
    }
}
