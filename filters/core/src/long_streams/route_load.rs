use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::edition::Edition;
use super::table_load::TableLoad;

/// The newest number of a load.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// A load of a configuration. Its number is greater than those of earlier loads; loads that a proxy uses together may have one number,
/// and no others have. A stream has that of the load that it began under. Streams and denials are compared by it, and by no clock: workers
/// use a load some time after it was compiled.
#[derive(Clone, Debug)]
pub struct RouteLoad(Arc<RouteLoadState>);

#[derive(Debug)]
struct RouteLoadState {
    /// The number that it had first, and no other load has.
    id: u64,
    number: AtomicU64,
    /// The id of its edition.
    edition: u64,
    variant: Arc<str>,
    /// The load of the route table that it is a part of, once the proxy uses it.
    table: OnceLock<Arc<TableLoad>>,
}

/// A load, as far as it is there.
#[derive(Debug)]
pub(super) struct RouteLoadRef(Weak<RouteLoadState>);

impl RouteLoad {
    /// A load of an edition, as the newest.
    pub(crate) fn newest(edition: &Edition) -> Self {
        let id = next();
        let variant = Arc::clone(edition.shared_variant());
        let number = AtomicU64::new(id);
        RouteLoad(Arc::new(RouteLoadState { id, number, edition: edition.id(), variant, table: OnceLock::new() }))
    }

    /// Unique in the process, and the same for as long as it is there.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    pub(crate) fn number(&self) -> u64 {
        self.0.number.load(Ordering::Acquire)
    }

    /// The id of its edition.
    pub(crate) fn edition(&self) -> u64 {
        self.0.edition
    }

    /// The variant of the configuration; empty for the cluster's own.
    pub(super) fn variant(&self) -> &Arc<str> {
        &self.0.variant
    }

    /// The load is one with others, of which this is the greatest number.
    pub(crate) fn raise(&self, to: u64) {
        self.0.number.fetch_max(to, Ordering::AcqRel);
    }

    /// Whether something else has this load, too.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// The load is in use again after others, and as new as one that is compiled now.
    pub(crate) fn renew(&self) {
        self.0.number.store(next(), Ordering::Release);
    }

    /// The load of the route table that it is a part of, or becomes one of.
    pub(crate) fn table_or(&self, make: impl FnOnce() -> Arc<TableLoad>) -> &Arc<TableLoad> {
        self.0.table.get_or_init(make)
    }

    /// Whether it is known of which load of a route table it is a part.
    pub(crate) fn has_table(&self) -> bool {
        self.0.table.get().is_some()
    }

    /// Whether its streams have to end, because those of its cluster's name keep too much.
    pub(crate) fn is_ended(&self) -> bool {
        self.0.is_ended()
    }

    /// Notes that a request begins. A load that had to end, and that the proxy has as a route still, goes on: all streams that begin under
    /// it would be reset.
    pub(crate) fn note_use(&self) {
        if let Some(table) = self.0.table.get() {
            table.note_use();
        }
    }

    pub(super) fn downgrade(&self) -> RouteLoadRef {
        RouteLoadRef(Arc::downgrade(&self.0))
    }
}

impl RouteLoadRef {
    pub(super) fn is_ended(&self) -> bool {
        self.0.upgrade().is_some_and(|load| load.is_ended())
    }
}

impl RouteLoadState {
    fn is_ended(&self) -> bool {
        self.table.get().is_some_and(|table| table.is_ended())
    }
}

fn next() -> u64 {
    NEWEST.fetch_add(1, Ordering::AcqRel).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_load_has_a_greater_number_until_another_is_renewed() {
        let [first, second] = [(), ()].map(|()| RouteLoad::newest(&Edition::default()));
        let (of_route, id) = (first.clone(), first.id());
        assert!(first.number() < second.number());
        first.renew();
        assert!(of_route.number() > second.number());
        second.raise(first.number());
        assert_eq!(second.number(), of_route.number());
        assert_eq!((first.id(), id < second.id()), (id, true), "its id stays");
    }
}
