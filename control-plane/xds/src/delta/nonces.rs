//! Nonces of responses.

use std::hash::{BuildHasher, RandomState};

/// Nonces that a node cannot know before it has read the response: an answer proves that it did. Each is the number of the response,
/// which increases, and a keyed hash of that.
#[derive(Debug)]
pub(super) struct Nonces {
    last: u64,
    key: RandomState,
}

impl Nonces {
    /// Nonces of one stream, with a random key of its own.
    pub(super) fn new(key: RandomState) -> Self {
        Self { last: 0, key }
    }

    /// The number and the nonce of the next response.
    pub(super) fn next(&mut self) -> (u64, String) {
        self.last += 1;
        (self.last, format!("{}-{:016x}", self.last, self.key.hash_one(self.last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonce_follows_from_none_of_another_response_or_stream() {
        let [mut one, mut other] = [(); 2].map(|()| Nonces::new(RandomState::new()));
        let mut secrets = std::collections::BTreeSet::new();
        for number in 1..=100 {
            for nonces in [&mut one, &mut other] {
                let (found, nonce) = nonces.next();
                let (shown, secret) = nonce.split_once('-').unwrap();
                assert_eq!((found, shown, secret.len()), (number, number.to_string().as_str(), 16));
                assert!(secrets.insert(secret.to_owned()), "{nonce}");
            }
        }
    }
}
