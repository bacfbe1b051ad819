//! Ids of requests to which Envoy has given none: it makes one for each request or for none, and few requests need theirs.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of this process, another one after each restart.
static PROCESS: OnceLock<u64> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Takes the number of this process, for platforms that have none of their own, as WebAssembly has not. The first one counts.
pub fn seed_request_ids(process: u64) {
    PROCESS.get_or_init(|| process);
}

/// An id that no other request has, in any gateway. It can be guessed.
#[cold]
pub(crate) fn request_id() -> String {
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(0));
    format!("{process:016x}-{:x}", NEXT.fetch_add(1, Ordering::Relaxed))
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
