//! `x-forwarded-client-cert`: read or refused, never a panic, and what is read is what was written.
#![no_main]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use portcullis_core::x509::{ClientChain, chain_from_header, hex_digest, is_presented};

fuzz_target!(|data: &[u8]| {
    if let Some(Ok(chain)) = chain_from_header(Some(data), 1) {
        let pems = data.windows(5).filter(|window| *window == b"BEGIN").count();
        let pems = pems.max(data.windows(3).filter(|window| window.first() == Some(&b'%')).count());
        assert!(pems > 0, "certificates come from PEM");
        if let Ok(chain) = ClientChain::decode(&chain) {
            assert!(!chain.leaf().is_empty());
        }
    }
    assert!(matches!(chain_from_header(Some(data), 2), Some(Err(_))), "two lines were believed");

    // As Envoy writes a certificate of these bytes.
    if data.is_empty() || data.len() > 4096 {
        return;
    }
    let mut header = "Hash=00;Chain=\"-----BEGIN%20CERTIFICATE-----%0A".to_owned();
    header += &STANDARD.encode(data).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    header += "%0A-----END%20CERTIFICATE-----%0A\"";
    let chain = chain_from_header(Some(header.as_bytes()), 1).expect("a header").expect("a chain");
    assert_eq!(ClientChain::decode(&chain).expect("a small chain").leaf(), data);
    assert!(is_presented(&chain, Some(&hex_digest(data))), "the certificate that was presented");
    assert!(!is_presented(&chain, Some(data)), "a client's own bytes are no digest of them");
});
