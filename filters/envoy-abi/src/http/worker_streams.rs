use std::cell::RefCell;
use std::marker::PhantomData;

use slab::Slab;

use super::StreamScheduler;
use crate::raw::FilterPtr;

thread_local! {
    /// The streams of this worker, each with the number of its group.
    static STREAMS: RefCell<Slab<(FilterPtr, u64)>> = const { RefCell::new(Slab::new()) };
}

/// A stream's place among those of its worker; given back when it is dropped, there.
#[derive(Debug)]
pub(super) struct WorkerPlace {
    key: usize,
    is_of_worker: PhantomData<FilterPtr>,
}

impl WorkerPlace {
    /// # Safety
    /// Called on the worker of `filter`, which Envoy keeps until the place is dropped.
    pub(super) unsafe fn take(filter: FilterPtr, group: u64) -> Option<Self> {
        let key =
            STREAMS.with(|streams| streams.try_borrow_mut().ok().map(|mut streams| streams.insert((filter, group))));
        key.map(|key| WorkerPlace { key, is_of_worker: PhantomData })
    }
}

impl Drop for WorkerPlace {
    fn drop(&mut self) {
        // A thread that ends has none to remove from.
        let _ = STREAMS.try_with(|streams| streams.borrow_mut().try_remove(self.key));
    }
}

/// Wakes the streams of this worker whose group `is_meant`: Envoy calls `resumed` of each, after the hook that is running.
pub(super) fn wake_streams(is_meant: impl Fn(u64) -> bool) {
    let meant: Vec<FilterPtr> = STREAMS.with(|streams| {
        let streams = streams.borrow();
        streams.iter().filter(|(_, (_, group))| is_meant(*group)).map(|(_, (filter, _))| *filter).collect()
    });
    for filter in meant {
        // SAFETY: on the filter's worker, where no filter with a place has gone.
        unsafe { StreamScheduler::new(filter) }.wake();
    }
}
