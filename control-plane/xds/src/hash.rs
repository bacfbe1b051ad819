//! Versions are hashes of content.

use std::fmt::Write;

use ring::digest::{Context, SHA256};

/// A hash of several texts, each of which ends where it ends.
pub(crate) struct Hash(Context);

impl Default for Hash {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Hash {
    /// No text holds a NUL.
    pub(crate) fn add(&mut self, text: &str) {
        self.0.update(text.as_bytes());
        self.0.update(&[0]);
    }

    /// 16 of the 32 bytes: far more than is needed to tell versions apart.
    pub(crate) fn finish(self) -> String {
        self.0.finish().as_ref().iter().take(16).fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// The hash of a body.
pub(crate) fn hash_of(body: &[u8]) -> String {
    let mut hash = Hash::default();
    hash.0.update(body);
    hash.finish()
}
