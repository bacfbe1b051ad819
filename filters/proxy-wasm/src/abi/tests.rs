use portcullis_core::exchange::HeaderLines;

use super::header_map::{self, OwnedHeaders};

#[test]
fn header_map_is_read_as_written_and_never_if_cut() {
    let lines = [(":path", "/"), ("empty", ""), ("a", "b")];
    let bytes = header_map::write(&lines);
    let expected: Vec<_> = lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    assert_eq!(OwnedHeaders::read(bytes.clone()).unwrap().lines().collect::<Vec<_>>(), expected);
    for length in 1..bytes.len() {
        assert!(OwnedHeaders::read(bytes[..length].to_vec()).is_none(), "{length}");
    }
    let huge = [&u32::MAX.to_le_bytes()[..], &[0; 8]].concat();
    assert!(OwnedHeaders::read(huge.to_vec()).is_none());
}
