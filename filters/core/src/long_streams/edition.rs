use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Editions of one cluster's name that streams may keep.
const MAX_EDITIONS: usize = 256;
/// Bytes that the editions of one cluster's name may take together; the newest one may take more.
const MAX_BYTES: usize = 256 << 20;
/// Bytes that an entry of a policy's lists takes in the index of policies (docs/performance.md).
const ENTRY_BYTES: usize = 500;
/// Copies of a configuration's text that a proxy and the filter keep, parsed ones included.
const TEXT_COPIES: usize = 4;
/// Bytes that the further loads of one edition may take together. The load after them is an edition of its own, whose bound
/// ends this one's streams at last.
const MAX_LOAD_BYTES: usize = 128 << 20;
/// Bytes of such a load besides its text: the proxy's routes.
const LOAD_BYTES: usize = 32 << 10;

/// Streams of the edition go on.
const GOING_ON: u8 = 0;
/// Streams of the edition have to end.
const ENDED: u8 = 1;
/// A request has begun under the edition after its end: the proxy has it as a route still.
const IN_USE: u8 = 2;

/// One edition of a cluster's configuration. A proxy keeps it, as the filter does, until the last stream is gone that began under
/// it, whatever the stream is doing. Loads that differ in host names alone are of one edition.
#[derive(Debug, Default)]
pub struct Edition {
    id: u64,
    /// The variant of the configuration.
    variant: Box<str>,
    bytes: usize,
    /// Bytes of the loads that are alive, but for the first.
    loads: AtomicUsize,
    state: AtomicU8,
}

/// A further load of an edition, counted for as long as it is alive.
#[derive(Debug)]
pub(crate) struct EditionLoad {
    edition: Arc<Edition>,
    bytes: usize,
}

impl Drop for EditionLoad {
    fn drop(&mut self) {
        self.edition.loads.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl Edition {
    /// An edition with a text of that many bytes, and policies with that many entries. A later edition has a greater `id`, which
    /// is unique in the process.
    pub fn new(id: u64, text: usize, entries: usize) -> Self {
        let bytes = text.saturating_mul(TEXT_COPIES).saturating_add(entries.saturating_mul(ENTRY_BYTES));
        Edition { id, variant: Box::default(), bytes, loads: AtomicUsize::new(0), state: AtomicU8::new(GOING_ON) }
    }

    /// The edition as one of a variant of the configuration.
    #[must_use]
    pub fn of_variant(self, variant: &str) -> Self {
        Edition { variant: variant.into(), ..self }
    }

    /// The variant of the configuration; empty for the cluster's own.
    pub fn variant(&self) -> &str {
        &self.variant
    }

    /// Unique in the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether its streams have to end, because those of its cluster's name keep too many editions.
    pub fn is_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDED
    }

    /// Notes that a request begins, or a load. An edition that had to end, and that the proxy has as a route still, goes on: all
    /// streams that begin under it would be reset. Of those beyond the bounds it is among the last to end again.
    pub(crate) fn note_use(&self) {
        if self.is_ended() {
            let _changed = self.state.compare_exchange(ENDED, IN_USE, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Counts a further load with a text of that many bytes. `None` if the edition has to end, or has no room for it.
    pub(crate) fn load(self: &Arc<Self>, text: usize) -> Option<EditionLoad> {
        let bytes = text.saturating_add(LOAD_BYTES);
        let with_it = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= MAX_LOAD_BYTES);
        if self.is_ended() {
            return None;
        }
        self.loads.fetch_update(Ordering::AcqRel, Ordering::Acquire, with_it).ok()?;
        Some(EditionLoad { edition: Arc::clone(self), bytes })
    }

    fn bytes(&self) -> usize {
        self.bytes.saturating_add(self.loads.load(Ordering::Acquire))
    }

    fn is_in_use(&self) -> bool {
        self.state.load(Ordering::Acquire) == IN_USE
    }

    fn end(&self) {
        self.state.store(ENDED, Ordering::Release);
    }
}

/// The editions of one cluster's name that are alive, the newest last: of every object that has had the name. Without a bound the
/// owner of an object could fill the memory of a proxy that others share, by one open stream after each edit.
#[derive(Debug, Default)]
pub(super) struct Editions(Vec<Weak<Edition>>);

impl Editions {
    /// Notes an edition as the newest, and returns those whose streams have to end now: the oldest beyond the bounds, of which those
    /// that were met in use come last, and never the newest.
    pub(super) fn add(&mut self, newest: &Arc<Edition>) -> Vec<Arc<Edition>> {
        self.0.retain(|edition| edition.strong_count() > 0 && edition.as_ptr() != Arc::as_ptr(newest));
        self.0.push(Arc::downgrade(newest));
        newest.note_use();
        let kept: Vec<_> = self.0.iter().filter_map(Weak::upgrade).filter(|edition| !edition.is_ended()).collect();
        let mut bytes = kept.iter().fold(0_usize, |sum, edition| sum.saturating_add(edition.bytes()));
        let mut left = kept.len();
        let mut ended = Vec::new();
        let older = kept.into_iter().filter(|edition| !Arc::ptr_eq(edition, newest));
        let (in_use, others): (Vec<_>, Vec<_>) = older.partition(|edition| edition.is_in_use());
        for edition in others.into_iter().chain(in_use) {
            if left <= MAX_EDITIONS && bytes <= MAX_BYTES {
                break;
            }
            left = left.saturating_sub(1);
            bytes = bytes.saturating_sub(edition.bytes());
            edition.end();
            ended.push(edition);
        }
        ended
    }

    /// Whether none is alive.
    pub(super) fn are_gone(&self) -> bool {
        self.0.iter().all(|edition| edition.strong_count() == 0)
    }
}
