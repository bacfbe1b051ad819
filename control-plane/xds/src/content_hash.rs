use portcullis_filter_config::hex;
use ring::digest::{Context, SHA256};

/// A hash of several texts, each of which ends where it ends.
pub(crate) struct ContentHash(Context);

impl Default for ContentHash {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl ContentHash {
    /// No text holds a NUL.
    pub(crate) fn add(&mut self, text: &str) {
        self.0.update(text.as_bytes());
        self.0.update(&[0]);
    }

    /// 16 of the 32 bytes: far more than versions need to differ.
    pub(crate) fn finish(self) -> String {
        let digest = self.0.finish();
        hex(digest.as_ref().get(..16).unwrap_or_default())
    }
}

/// The hash of a body.
pub(crate) fn hash_of(body: &[u8]) -> String {
    hash_of_pieces([body])
}

/// The hash of a body in pieces: that of the whole.
pub(crate) fn hash_of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = ContentHash::default();
    pieces.into_iter().for_each(|piece| hash.0.update(piece));
    hash.finish()
}
