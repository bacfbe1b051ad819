use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, de};

/// A private key or a token; copies share the bytes. Its `Debug` form shows nothing of it; it has no `Display` and no `Serialize`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretBytes(Arc<[u8]>);

impl SecretBytes {
    /// Takes the bytes as they are.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    /// The bytes themselves: only for a secret that is sent to Envoy.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<'de> Deserialize<'de> for SecretBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        decode(deserializer).map(Self::new)
    }
}

/// Bytes that anybody may see: a certificate or a bundle of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PublicBytes(Vec<u8>);

impl PublicBytes {
    /// Takes the bytes as they are.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes themselves.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for PublicBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}

impl<'de> Deserialize<'de> for PublicBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        decode(deserializer).map(Self::new)
    }
}

/// Reads base64 and says nothing about the value in an error.
fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text: Option<String> =
        Option::deserialize(deserializer).map_err(|_| de::Error::custom("expected a string in base64"))?;
    let compact: String = text.unwrap_or_default().split_ascii_whitespace().collect();
    STANDARD.decode(compact).map_err(|_| de::Error::custom("the value is not valid base64"))
}
