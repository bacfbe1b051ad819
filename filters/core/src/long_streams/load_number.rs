use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The newest number of a load.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// The number of a load of a configuration, greater than those of earlier loads. Loads that a proxy uses together may have one number, and
/// no others have. A stream has that of the load that it began under. Streams and denials are compared by it, and by no clock: workers
/// use a load some time after it was compiled.
#[derive(Clone, Debug)]
pub(crate) struct LoadNumber(Arc<AtomicU64>);

impl LoadNumber {
    /// That of a load that is the newest.
    pub(crate) fn newest() -> Self {
        LoadNumber(Arc::new(AtomicU64::new(next())))
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// The load is one with others, of which this is the greatest number.
    pub(crate) fn raise(&self, to: u64) {
        self.0.fetch_max(to, Ordering::AcqRel);
    }

    /// Whether something else has the number of this load, too.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// The load is in use again after others, and as new as one that is compiled now.
    pub(crate) fn renew(&self) {
        self.0.store(next(), Ordering::Release);
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
        let [first, second] = [LoadNumber::newest(), LoadNumber::newest()];
        let of_route = first.clone();
        assert!(first.get() < second.get());
        first.renew();
        assert!(of_route.get() > second.get());
        second.raise(first.get());
        assert_eq!(second.get(), of_route.get());
    }
}
