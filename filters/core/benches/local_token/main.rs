//! The cost of a token that is not remembered: `local-token [rounds] [key.der]` prints the time of a verification by an issuer's key, of
//! a forged token up to its signature, and of one of an unknown key. With an RSA key (PKCS#8) the issuer has that one, else one of
//! P-256. Under `valgrind --tool=callgrind --toggle-collect='*TokenIssuers*verify*'` it has the instructions. Run it by
//! `cargo bench -p portcullis-core --bench local-token -- [rounds] [key.der]`.

use std::hint::black_box;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_core::local_token::TokenIssuers;
use portcullis_filter_config::{TokenIssuer, TokenKey, TokenPublicKey, TokenUsers};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::json;

/// 2030-01-01.
const NOW: u64 = 1_893_456_000;
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

enum Signer {
    P256(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    #[allow(clippy::unwrap_used, reason = "a benchmark")]
    fn new(key: Option<&String>) -> Self {
        if let Some(path) = key {
            return Signer::Rsa(RsaKeyPair::from_pkcs8(&std::fs::read(path).unwrap()).unwrap());
        }
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Signer::P256(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Signer::P256(_) => "ES256",
            Signer::Rsa(_) => "RS256",
        }
    }

    #[allow(clippy::unwrap_used, reason = "a benchmark")]
    fn public(&self) -> TokenPublicKey {
        match self {
            Signer::P256(pair) => {
                let (x, y) = pair.public_key().as_ref().get(1..).unwrap().split_at(32);
                TokenPublicKey::P256 { x: encode(x), y: encode(y) }
            }
            Signer::Rsa(pair) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
                TokenPublicKey::Rsa { n: encode(n), e: encode(e) }
            }
        }
    }

    #[allow(clippy::unwrap_used, reason = "a benchmark")]
    fn sign(&self, key_id: &str) -> String {
        let header = json!({"alg": self.algorithm(), "kid": key_id});
        let claims = json!({
            "aud": [ISSUER], "exp": NOW + 3_607, "iat": NOW, "iss": ISSUER, "jti": "5f0c1d2e-3a4b-4c5d-8e6f-708192a3b4c5",
            "kubernetes.io": {
                "namespace": "shop", "node": {"name": "node-17", "uid": "1f0c1d2e-3a4b-4c5d-8e6f-708192a3b4c5"},
                "pod": {"name": "robot-7d9c6b5f4-00042", "uid": "2f0c1d2e-3a4b-4c5d-8e6f-708192a3b4c5"},
                "serviceaccount": {"name": "robot", "uid": "3f0c1d2e-3a4b-4c5d-8e6f-708192a3b4c5"}, "warnafter": NOW + 3_000,
            },
            "nbf": NOW, "sub": "system:serviceaccount:shop:robot",
        });
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match self {
            Signer::P256(pair) => pair.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
            Signer::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
                signature
            }
        };
        format!("{signed}.{}", encode(signature))
    }
}

#[allow(clippy::unwrap_used, reason = "a benchmark")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let rounds: u32 = arguments.first().and_then(|rounds| rounds.parse().ok()).unwrap_or(1_000);
    let signer = Signer::new(arguments.get(1));
    let issuer = TokenIssuer {
        url: ISSUER.to_owned(),
        audiences: vec![ISSUER.to_owned()],
        keys: vec![TokenKey { id: "k1".to_owned(), algorithm: None, key: signer.public() }],
        keys_valid_until: None,
        users: TokenUsers::ServiceAccounts,
        required_claims: [].into(),
        max_age_seconds: 3_600,
    };
    let issuers = TokenIssuers::compile(&[issuer]).unwrap().unwrap();
    let good = signer.sign("k1");
    // Another signature of the same length: everything before it is read.
    let (signed, _) = good.rsplit_once('.').unwrap();
    let (_, signature) = signer.sign("k2").rsplit_once('.').map(|(one, two)| (one.to_owned(), two.to_owned())).unwrap();
    let cases = [
        ("verified", good.clone(), true),
        ("forged signature", format!("{signed}.{signature}"), false),
        ("unknown key id", signer.sign("k2"), false),
    ];
    for (case, token, is_good) in cases {
        let wanted = arguments.get(2).is_none_or(|one| case.starts_with(one.as_str()));
        if !wanted {
            continue;
        }
        let start = Instant::now();
        for _ in 0..rounds {
            assert_eq!(issuers.verify(black_box(token.as_bytes()), NOW + 1).is_ok(), is_good, "{case}");
        }
        let each = start.elapsed() / rounds.max(1);
        println!("{} {case}, {} bytes: {each:?}", signer.algorithm(), token.len());
    }
}
