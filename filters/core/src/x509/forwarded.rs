//! `x-forwarded-client-cert`, as Envoy writes it with `SANITIZE_SET` and `chain: true`
//! (`envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.ForwardClientCertDetails`).

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::{MAX_CERTIFICATES, encode_chain};

/// Why the header cannot be used. Envoy writes it, so that none of this is the client's doing: the request fails closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardedError {
    /// There are several lines or several elements: proxies before this one are not trusted with certificates.
    #[error("x-forwarded-client-cert tells more than one connection")]
    Several,
    /// It is no list of `key=value`.
    #[error("x-forwarded-client-cert is not readable")]
    Malformed,
    /// It has no `Chain`, or two.
    #[error("x-forwarded-client-cert has no certificate chain")]
    NoChain,
    /// The `Chain` is not PEM in percent-encoding.
    #[error("the chain in x-forwarded-client-cert is not readable")]
    Chain,
}

/// Reads the chain out of the header as [`encode_chain`] writes it. `None` without the header: no certificate was presented.
///
/// # Errors
/// [`ForwardedError`].
pub fn chain_from_header(header: Option<&[u8]>, lines: usize) -> Option<Result<Vec<u8>, ForwardedError>> {
    let header = header?;
    Some(if lines == 1 { read(header) } else { Err(ForwardedError::Several) })
}

fn read(header: &[u8]) -> Result<Vec<u8>, ForwardedError> {
    let mut chain = None;
    let mut rest = header;
    while !rest.is_empty() {
        let (key, value, tail) = pair(rest)?;
        if key.eq_ignore_ascii_case(b"chain") && chain.replace(value).is_some() {
            return Err(ForwardedError::NoChain);
        }
        rest = tail;
    }
    chain_from_text(chain.ok_or(ForwardedError::NoChain)?)
}

/// Reads certificates in percent-encoded PEM, leaf first, as Envoy writes them (`%DOWNSTREAM_PEER_CERT%`).
///
/// # Errors
/// [`ForwardedError::Chain`].
pub fn chain_from_text(text: &[u8]) -> Result<Vec<u8>, ForwardedError> {
    certificates(&unescape(text).ok_or(ForwardedError::Chain)?)
}

/// A key, its value and what follows behind a semicolon.
type Pair<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// The first `key=value`.
fn pair(text: &[u8]) -> Result<Pair<'_>, ForwardedError> {
    let equals = memchr::memchr(b'=', text).ok_or(ForwardedError::Malformed)?;
    let (key, value) = (text.get(..equals), text.get(equals.saturating_add(1)..));
    let (Some(key), Some(value)) = (key, value) else { return Err(ForwardedError::Malformed) };
    let (value, tail) = match value.strip_prefix(b"\"") {
        Some(quoted) => until_quote(quoted).ok_or(ForwardedError::Malformed)?,
        None => {
            let end = value.iter().position(|byte| matches!(byte, b';' | b',' | b'"')).unwrap_or(value.len());
            value.split_at_checked(end).ok_or(ForwardedError::Malformed)?
        }
    };
    match tail.split_first() {
        None => Ok((key, value, tail)),
        Some((b';', tail)) => Ok((key, value, tail)),
        Some((b',', _)) => Err(ForwardedError::Several),
        Some(_) => Err(ForwardedError::Malformed),
    }
}

/// A quoted value and what follows its closing quote. A backslash keeps the next byte from ending it.
fn until_quote(quoted: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut from = 0_usize;
    loop {
        let at = from.checked_add(memchr::memchr2(b'"', b'\\', quoted.get(from..)?)?)?;
        let behind = at.checked_add(1)?;
        if quoted.get(at) == Some(&b'"') {
            return Some((quoted.get(..at)?, quoted.get(behind..)?));
        }
        from = behind.checked_add(1)?;
    }
}

fn unescape(escaped: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut text = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = memchr::memchr(b'%', rest) {
        let (plain, escape) = rest.split_at_checked(at)?;
        let ([_, high, low], behind) = escape.split_first_chunk()?;
        text.extend_from_slice(plain);
        text.push(digit(high)?.checked_mul(16)?.checked_add(digit(low)?)?);
        rest = behind;
    }
    text.extend_from_slice(rest);
    Some(text)
}

fn certificates(pem: &[u8]) -> Result<Vec<u8>, ForwardedError> {
    // One more than is ever looked at, so that a longer chain is found to be too long.
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem).take(MAX_CERTIFICATES.saturating_add(1)).collect();
    let found = found.map_err(|_| ForwardedError::Chain)?;
    if found.is_empty() {
        return Err(ForwardedError::Chain);
    }
    Ok(encode_chain(found.iter().map(|certificate| certificate.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::escaped_pem as pem;
    use crate::x509::{ChainError, ClientChain};

    fn of(header: &str) -> Result<Vec<u8>, ForwardedError> {
        chain_from_header(Some(header.as_bytes()), 1).unwrap()
    }

    #[test]
    fn chain_is_read_whatever_stands_around_it() {
        let (leaf, ca) = (&b"\x30\x03leaf\xfb"[..], &b"\x30\x03the ca"[..]);
        let chain = pem(leaf) + &pem(ca);
        let expected = encode_chain([leaf, ca].into_iter());
        for header in [
            format!("Chain=\"{chain}\""),
            format!("Hash=abc;Chain=\"{chain}\";Subject=\"CN=a\\\"b;Chain=x,y\";URI="),
            format!("By=spiffe://x;hash=abc;chain={chain}"),
        ] {
            assert_eq!(of(&header), Ok(expected.clone()), "{header}");
        }
    }

    #[test]
    fn header_that_envoy_would_not_write_is_refused() {
        let chain = pem(b"\x30\x03leaf");
        let malformed = ["Chain", "Chain=\"abc", "Chain=\"a\"b", "Hash=a\"b", "Chain=\"a\\\""];
        let several = [format!("Chain=\"{chain}\",Chain=\"{chain}\""), "Hash=a,Hash=b".to_owned()];
        let none = ["", "Hash=abc", "Subject=\"Chain=x\""].map(str::to_owned);
        let twice = format!("Chain=\"{chain}\";Chain=\"{chain}\"");
        let unreadable = ["Chain=", "Chain=\"%2\"", "Chain=\"%zz\"", "Chain=\"-----BEGIN%20CERTIFICATE-----%0A*\""];
        let cases = malformed.map(|header| (header.to_owned(), ForwardedError::Malformed)).into_iter();
        let cases = cases.chain(several.map(|header| (header, ForwardedError::Several)));
        let cases = cases.chain(none.map(|header| (header, ForwardedError::NoChain)));
        let cases = cases.chain([(twice, ForwardedError::NoChain)]);
        let cases = cases.chain(unreadable.map(|header| (header.to_owned(), ForwardedError::Chain)));
        for (header, expected) in cases {
            assert_eq!(of(&header), Err(expected), "{header}");
        }
        let two_lines = chain_from_header(Some(format!("Chain=\"{chain}\"").as_bytes()), 2);
        assert_eq!(two_lines, Some(Err(ForwardedError::Several)));
        assert_eq!(chain_from_header(None, 0), None);
    }

    #[test]
    fn long_chain_is_too_large_and_not_cut() {
        let chain = pem(b"\x30\x03leaf").repeat(MAX_CERTIFICATES + 1);
        let encoded = of(&format!("Chain=\"{chain}\"")).unwrap();
        assert_eq!(ClientChain::decode(&encoded).err(), Some(ChainError::TooLarge));
    }
}
