use std::fmt;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Serialize, Serializer};

/// Bytes that follow each other, written as one text in base64 without a copy of them.
pub(super) struct Base64Pieces(pub(super) Vec<Bytes>);

/// The bytes that four letters hold.
const BYTES_OF_GROUP: usize = 3;

impl fmt::Display for Base64Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| Base64Display::new(bytes, &STANDARD).fmt(f);
        // Of a group that begins in one piece and ends in another.
        let mut open = Vec::with_capacity(BYTES_OF_GROUP);
        for piece in &self.0 {
            let missing = (BYTES_OF_GROUP - open.len()) % BYTES_OF_GROUP;
            let (end_of_open, piece) = piece.split_at(missing.min(piece.len()));
            open.extend_from_slice(end_of_open);
            if open.len() == BYTES_OF_GROUP {
                write(f, &open)?;
                open.clear();
            }
            let (groups, rest) = piece.split_at(piece.len() - piece.len() % BYTES_OF_GROUP);
            write(f, groups)?;
            open.extend_from_slice(rest);
        }
        write(f, &open)
    }
}

impl Serialize for Base64Pieces {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_is_that_of_all_bytes(pieces: Vec<Vec<u8>>) {
            let expected = STANDARD.encode(pieces.concat());
            let pieces = Base64Pieces(pieces.into_iter().map(Bytes::from).collect());
            prop_assert_eq!(pieces.to_string(), &*expected);
            prop_assert_eq!(serde_json::to_string(&pieces).unwrap(), format!("\"{expected}\""));
        }
    }
}
