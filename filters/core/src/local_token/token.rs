use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::NotVerified;
use super::json::Json;

/// Most bytes of a token, of its header, and of what it signs, as they are encoded.
const MAX_TOKEN: usize = 16 * 1024;
const MAX_HEADER: usize = 1024;

/// A compact JSON Web Signature, taken apart. Nothing of it is known to be true.
#[derive(Debug)]
pub(super) struct SignedToken<'a> {
    /// The claims, encoded.
    pub(super) payload: &'a [u8],
    /// The bytes that are signed.
    pub(super) signed: &'a [u8],
    pub(super) signature: Vec<u8>,
    pub(super) algorithm: String,
    pub(super) key_id: String,
}

impl<'a> SignedToken<'a> {
    /// Only what kube-apiserver reads in the same way, whatever its version: an encoding of which there is one for each text, and
    /// headers that change nothing. `crit` and `b64` would, and of `jwk`, `x5c` and others it has its own opinion.
    pub(super) fn read(token: &'a [u8]) -> Result<Self, NotVerified> {
        SignedToken::parse(token).ok_or(NotVerified::Form)
    }

    fn parse(token: &'a [u8]) -> Option<Self> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let first = memchr::memchr(b'.', token)?;
        let last = memchr::memrchr(b'.', token).filter(|last| *last > first)?;
        let (header, signed, signature) = (token.get(..first)?, token.get(..last)?, token.get(last.checked_add(1)?..)?);
        let payload = signed.get(first.checked_add(1)?..)?;
        if header.len() > MAX_HEADER || payload.contains(&b'.') {
            return None;
        }
        let mut header = Json::read_object(&decode(header)?)?;
        let mut take = |name: &str| match header.remove(name) {
            Some(Json::Text(text)) => Some(text),
            _ => None,
        };
        let (algorithm, key_id) = (take("alg")?, take("kid").filter(|id| !id.is_empty())?);
        let is_harmless = |(name, value): (&String, &Json)| {
            matches!(name.as_str(), "typ" | "x5t" | "x5t#S256") && matches!(value, Json::Text(_))
        };
        if !header.iter().all(is_harmless) {
            return None;
        }
        Some(SignedToken { payload, signed, signature: decode(signature)?, algorithm, key_id })
    }
}

/// Decodes base64url without padding, and refuses the other spellings of the same bytes.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
