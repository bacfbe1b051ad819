use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Editions of one cluster's name that streams may keep.
const MAX_EDITIONS: usize = 256;
/// Bytes that the editions of one cluster's name may take together; the newest one may take more.
const MAX_BYTES: usize = 256 << 20;
/// Bytes that an entry of a policy's lists takes in the index of policies (docs/performance.md).
const ENTRY_BYTES: usize = 500;
/// Copies of a configuration's text that a proxy and the filter keep, parsed ones included.
const TEXT_COPIES: usize = 4;

/// One edition of a cluster's configuration. A proxy keeps it, as the filter does, until the last stream is gone that began under
/// it, whatever the stream is doing.
#[derive(Debug, Default)]
pub struct Edition {
    id: u64,
    bytes: usize,
    is_ended: AtomicBool,
}

impl Edition {
    /// An edition with a text of that many bytes, and policies with that many entries. A later edition has a greater `id`, which
    /// is unique in the process.
    pub fn new(id: u64, text: usize, entries: usize) -> Self {
        let bytes = text.saturating_mul(TEXT_COPIES).saturating_add(entries.saturating_mul(ENTRY_BYTES));
        Edition { id, bytes, is_ended: AtomicBool::new(false) }
    }

    /// Unique in the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether its streams have to end, because those of its cluster's name keep too many editions.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Acquire)
    }
}

/// The editions of one cluster's name that are alive, the newest last: of every object that has had the name. Without a bound the
/// owner of an object could fill the memory of a proxy that others share, by one open stream after each edit.
#[derive(Debug, Default)]
pub(super) struct Editions(Vec<Weak<Edition>>);

impl Editions {
    /// Notes an edition as the newest, and returns those whose streams have to end now: the oldest beyond the bounds, never the
    /// newest.
    pub(super) fn add(&mut self, newest: &Arc<Edition>) -> Vec<Arc<Edition>> {
        self.0.retain(|edition| edition.strong_count() > 0 && edition.as_ptr() != Arc::as_ptr(newest));
        self.0.push(Arc::downgrade(newest));
        let kept: Vec<_> = self.0.iter().filter_map(Weak::upgrade).filter(|edition| !edition.is_ended()).collect();
        let mut bytes = kept.iter().fold(0_usize, |sum, edition| sum.saturating_add(edition.bytes));
        let mut left = kept.len();
        let mut ended = Vec::new();
        for edition in kept {
            if left <= 1 || (left <= MAX_EDITIONS && bytes <= MAX_BYTES) {
                break;
            }
            left = left.saturating_sub(1);
            bytes = bytes.saturating_sub(edition.bytes);
            edition.is_ended.store(true, Ordering::Release);
            ended.push(edition);
        }
        ended
    }

    /// Whether none is alive.
    pub(super) fn are_gone(&self) -> bool {
        self.0.iter().all(|edition| edition.strong_count() == 0)
    }
}
