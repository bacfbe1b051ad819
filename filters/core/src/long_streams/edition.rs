use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Editions of one cluster's name that streams may keep beside the newest one, or beside the newest one of each variant: the control plane
/// bounds variants.
const MAX_REPLACED: usize = 255;
/// Bytes that the editions of one cluster's name may take together, beside the newest one.
const MAX_BYTES: usize = 256 << 20;
/// Bytes that an entry of a policy's lists takes in the index of policies (docs/performance.md).
const ENTRY_BYTES: usize = 500;
/// Copies of a configuration's text that a proxy and the filter keep, parsed ones included.
const TEXT_COPIES: usize = 4;
/// Bytes that the further loads of one edition may take together. The load after them is an edition of its own, whose bound
/// ends this one's streams at last.
const MAX_LOAD_BYTES: usize = 128 << 20;
/// Bytes of a load besides its text: the proxy's routes.
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
    variant: Arc<str>,
    bytes: usize,
    /// Bytes of the loads that are alive, but for the first.
    loads: AtomicUsize,
    state: AtomicU8,
    /// A later edition of its variant is in use.
    is_replaced: AtomicBool,
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
        let parts = [text.saturating_mul(TEXT_COPIES), entries.saturating_mul(ENTRY_BYTES), LOAD_BYTES];
        let bytes = parts.into_iter().fold(0, usize::saturating_add);
        Edition { id, bytes, state: AtomicU8::new(GOING_ON), ..Edition::default() }
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

    /// The same, for its streams.
    pub(super) fn shared_variant(&self) -> &Arc<str> {
        &self.variant
    }

    /// The namespace of the route whose policies the variant has, as in its name behind a listener's; empty if it is of no route.
    fn namespace(&self) -> &str {
        let route = self.variant.split_once('/').map_or("", |(_, route)| route);
        route.split('/').next().unwrap_or_default()
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

    fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
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

/// The editions of one namespace's routes.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    /// Those that a later one of their variant has replaced, in the order in which they end.
    replaced: VecDeque<Arc<Edition>>,
    /// The newest ones of their variants, but for the newest of all. They count in bytes alone, and end after the others.
    of_variants: VecDeque<Arc<Edition>>,
}

impl Editions {
    /// Notes an edition as the newest, and returns those whose streams have to end now: the oldest ones of the namespace that has most,
    /// as long as there are too many. Those that were met in use come last, and the one that is noted never. The newest one of another
    /// variant may end, as one of a namespace that has most bytes.
    pub(super) fn add(&mut self, newest: &Arc<Edition>) -> Vec<Arc<Edition>> {
        self.0.retain(|edition| edition.strong_count() > 0 && edition.as_ptr() != Arc::as_ptr(newest));
        self.0.push(Arc::downgrade(newest));
        newest.note_use();
        let kept: Vec<_> = self.0.iter().filter_map(Weak::upgrade).filter(|edition| !edition.is_ended()).collect();
        for edition in kept.iter().filter(|edition| edition.variant == newest.variant) {
            edition.is_replaced.store(!Arc::ptr_eq(edition, newest), Ordering::Release);
        }
        let bytes = kept.iter().map(|edition| edition.bytes()).fold(0, usize::saturating_add);
        let replaced = kept.iter().filter(|edition| edition.is_replaced()).count();
        if replaced <= MAX_REPLACED && bytes.saturating_sub(newest.bytes()) <= MAX_BYTES {
            return Vec::new();
        }
        let mut shares = Self::shares(kept, newest);
        std::iter::from_fn(|| Self::excess(&mut shares, newest.bytes())).collect()
    }

    /// By namespace.
    fn shares(kept: Vec<Arc<Edition>>, newest: &Arc<Edition>) -> BTreeMap<String, Share> {
        let (in_use, others): (Vec<_>, Vec<_>) = kept.into_iter().partition(|edition| edition.is_in_use());
        let mut shares: BTreeMap<String, Share> = BTreeMap::new();
        for edition in others.into_iter().chain(in_use) {
            let share = shares.entry(edition.namespace().to_owned()).or_default();
            share.bytes = share.bytes.saturating_add(edition.bytes());
            if edition.is_replaced() {
                share.replaced.push_back(edition);
            } else if !Arc::ptr_eq(&edition, newest) {
                share.of_variants.push_back(edition);
            }
        }
        shares
    }

    /// The next one that has to end, if there are too many beside a newest one of that size. None of another namespace ends while one has
    /// more, the newest included, and some that may end.
    fn excess(shares: &mut BTreeMap<String, Share>, newest: usize) -> Option<Arc<Edition>> {
        let sum = |of: fn(&Share) -> usize| shares.values().map(of).fold(0, usize::saturating_add);
        let are_many = sum(|share| share.replaced.len()) > MAX_REPLACED;
        if !are_many && sum(|share| share.bytes).saturating_sub(newest) <= MAX_BYTES {
            return None;
        }
        let measure = |share: &Share| if are_many { share.replaced.len() } else { share.bytes };
        let may_end = |share: &&mut Share| !(share.replaced.is_empty() && (are_many || share.of_variants.is_empty()));
        let largest = shares.values_mut().filter(may_end).max_by_key(|share| measure(share))?;
        let edition = largest.replaced.pop_front().or_else(|| largest.of_variants.pop_front())?;
        largest.bytes = largest.bytes.saturating_sub(edition.bytes());
        edition.end();
        Some(edition)
    }

    /// Whether none is alive.
    pub(super) fn are_gone(&self) -> bool {
        self.0.iter().all(|edition| edition.strong_count() == 0)
    }
}
