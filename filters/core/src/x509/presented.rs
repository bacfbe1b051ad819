//! With which certificate a connection's client shook hands, by the digest that Envoy tells of it
//! (`connection.sha256_peer_certificate_digest`). No client can write that.

use ring::digest::{SHA256, digest};

use super::{ChainError, ClientChain};

/// Digits of a SHA-256 in hexadecimal.
const DIGITS: usize = 64;

/// The SHA-256 of something in lower-case hexadecimal digits, as Envoy tells digests.
pub fn hex_digest(data: &[u8]) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    let found = digest(&SHA256, data);
    let halves = found.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    for (digit, half) in digits.iter_mut().zip(halves) {
        *digit = if half < 10 { b'0' | half } else { b'a'.wrapping_add(half).wrapping_sub(10) };
    }
    digits
}

/// Whether a chain ([`super::encode_chain`]) is of the certificate with this digest. A chain that is of none, or that cannot be
/// compared because there is no digest or none that Envoy would write, yields no identity: the request fails closed.
pub fn is_presented(chain: &[u8], presented: Option<&[u8]>) -> bool {
    let Some(presented) = presented.filter(|text| is_digest(text)) else { return false };
    match ClientChain::decode(chain) {
        Ok(chain) => hex_digest(chain.leaf()) == presented,
        // It has no leaf to compare, and is refused as the client's fault.
        Err(ChainError::TooLarge) => true,
        Err(ChainError::Malformed) => false,
    }
}

fn is_digest(text: &[u8]) -> bool {
    text.len() == DIGITS && text.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x509::{MAX_CERTIFICATES, encode_chain};

    /// Of `abc` (FIPS 180-2, appendix B.1).
    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_written_as_envoy_writes_it() {
        assert_eq!(hex_digest(b"abc"), OF_ABC.as_bytes());
        assert_eq!(hex_digest(b""), OF_NOTHING.as_bytes());
    }

    #[test]
    fn a_chain_belongs_to_the_certificate_that_was_presented() {
        let abc = encode_chain([&b"abc"[..], b"issuer"].into_iter());
        let other = encode_chain([&b"abd"[..], b"abc"].into_iter());
        let too_large = encode_chain([&b"abc"[..]; MAX_CERTIFICATES + 1].into_iter());
        let garbled = [&abc[..], &[][..], b"garbled"].map(|chain| chain.get(..38).unwrap_or(chain).to_vec());
        for (case, chain, belongs) in [
            ("its own", &abc, true),
            ("another leaf before it", &other, false),
            ("refused for its size", &too_large, true),
            ("cut", &garbled[0], false),
            ("empty", &garbled[1], false),
            ("no chain", &garbled[2], false),
        ] {
            assert_eq!(is_presented(chain, Some(OF_ABC.as_bytes())), belongs, "{case}");
        }
        assert!(is_presented(&encode_chain([&b"abd"[..]].into_iter()), Some(&hex_digest(b"abd"))));
    }

    #[test]
    fn what_is_no_digest_belongs_to_no_chain() {
        let chains = [encode_chain([&b"abc"[..]].into_iter()), encode_chain([&b"abc"[..]; 9].into_iter())];
        let raw = digest(&SHA256, b"abc").as_ref().to_vec();
        let (short, shorter) = (&OF_ABC[..63], &OF_ABC[..62]);
        let upper = OF_ABC.to_uppercase();
        let odd = [("b", "g"), ("ad", "ad0"), ("ad", "ad,00"), ("ba78", " ba78"), ("ba78", "ba7\0"), ("ba78", "0xba")];
        let odd = odd.map(|(from, to)| OF_ABC.replacen(from, to, 1));
        let texts = ["", "x", short, shorter, &upper].into_iter().chain(odd.iter().map(String::as_str));
        let mut texts: Vec<&[u8]> = texts.map(str::as_bytes).collect();
        let twice = raw.repeat(2);
        texts.extend([&raw[..], &twice, &[0; 64]]);
        for chain in &chains {
            assert!(!is_presented(chain, None));
            for text in &texts {
                assert!(!is_presented(chain, Some(text)), "{}", String::from_utf8_lossy(text));
            }
        }
    }
}
