use portcullis_filter_config::hex;
use ring::digest::{Context, SHA256};

/// The SHA-256 of a list, in hexadecimal. Every part is preceded by its length, so that no two lists run together.
pub(crate) fn sha256_hex<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        context.update(part);
    }
    hex(context.finish().as_ref())
}
