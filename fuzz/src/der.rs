//! Certificates over bytes that a fuzzer chooses, signed by a CA, so that what is behind a good signature is reached.

use ring::signature::{Ed25519KeyPair, KeyPair};

pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        short @ 0..=0x7f => out.push(short as u8),
        long => {
            let bytes: Vec<u8> = long.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
            out.push(0x80 | bytes.len() as u8);
            out.extend(bytes);
        }
    }
    out.extend_from_slice(content);
    out
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

/// Ed25519, RFC 8410.
fn algorithm() -> Vec<u8> {
    sequence(&[&element(6, &[0x2b, 0x65, 0x70])])
}

/// A CA whose key is always the same.
pub struct Authority {
    key: Ed25519KeyPair,
    pub der: Vec<u8>,
}

impl Default for Authority {
    fn default() -> Self {
        let key = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let der = certificate(&key, &key, &name("ca"), &name("ca"), &sequence(&[&basic_constraints()]));
        Authority { key, der }
    }
}

impl Authority {
    pub fn pem(&self) -> String {
        use base64::Engine;
        let body = base64::engine::general_purpose::STANDARD.encode(&self.der);
        format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    }

    /// A leaf with these attributes as the content of its subject, and these extensions as the content of their list.
    pub fn leaf(&self, subject: &[u8], extensions: &[u8]) -> Vec<u8> {
        certificate(&self.key, &self.key, &name("ca"), &element(0x30, subject), &element(0x30, extensions))
    }

    /// A self-signed certificate with these extensions. Its issuer has the name of this CA, or of its own subject.
    pub fn stranger(&self, is_below_ca: bool, extensions: &[u8]) -> Vec<u8> {
        let key = Ed25519KeyPair::from_seed_unchecked(&[2; 32]).unwrap();
        let issuer = name(if is_below_ca { "ca" } else { "x" });
        certificate(&key, &key, &issuer, &name("x"), &element(0x30, &[&basic_constraints(), extensions].concat()))
    }
}

fn name(common_name: &str) -> Vec<u8> {
    let attribute = sequence(&[&element(6, &[0x55, 4, 3]), &element(0x0c, common_name.as_bytes())]);
    sequence(&[&element(0x31, &attribute)])
}

/// Of a CA.
fn basic_constraints() -> Vec<u8> {
    sequence(&[&element(6, &[0x55, 0x1d, 0x13]), &element(1, &[0xff]), &element(4, &sequence(&[&element(1, &[0xff])]))])
}

fn certificate(
    key: &Ed25519KeyPair,
    issuer_key: &Ed25519KeyPair,
    issuer: &[u8],
    subject: &[u8],
    extensions: &[u8],
) -> Vec<u8> {
    let spki = sequence(&[&algorithm(), &element(3, &[&[0], key.public_key().as_ref()].concat())]);
    let validity = sequence(&[&element(0x17, b"250101000000Z"), &element(0x17, b"390101000000Z")]);
    // An empty list of extensions is not allowed.
    let extensions = if extensions == [0x30, 0] { Vec::new() } else { element(0xa3, extensions) };
    let tbs = sequence(&[
        &element(0xa0, &element(2, &[2])),
        &element(2, &[1]),
        &algorithm(),
        issuer,
        &validity,
        subject,
        &spki,
        &extensions,
    ]);
    let signature = issuer_key.sign(&tbs);
    sequence(&[&tbs, &algorithm(), &element(3, &[&[0], signature.as_ref()].concat())])
}
