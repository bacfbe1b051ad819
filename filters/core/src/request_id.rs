//! Ids of requests to which Envoy has given none: it makes one for each request or for none, and few requests need theirs.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of this process, another one after each restart.
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
static NEXT: AtomicU64 = AtomicU64::new(1);

/// An id that no other request has, in any gateway. It can be guessed.
#[cold]
pub(crate) fn request_id() -> String {
    format!("{:016x}-{:x}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_process_differ_in_their_number() {
        let (one, other) = (request_id(), request_id());
        assert_ne!(one, other);
        assert_eq!(one.split_once('-').unwrap().0, other.split_once('-').unwrap().0);
        assert_eq!(one.find('-'), Some(16));
    }
}
