use std::io::{self, Write};

use portcullis_filter_config::hex;
use ring::digest::{Context, SHA256};

/// A writer that takes the hash of all that it writes.
pub(super) struct Digested<W> {
    file: W,
    digest: Context,
}

impl<W> Digested<W> {
    pub(super) fn new(file: W) -> Self {
        Self { file, digest: Context::new(&SHA256) }
    }

    /// The hash of everything.
    pub(super) fn hash(self) -> String {
        hex(self.digest.finish().as_ref())
    }
}

impl<W: Write> Write for Digested<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
