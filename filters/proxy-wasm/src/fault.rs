//! Panics on demand, at every hook, in the build for tests; nothing in every build that is shipped. A panic ends the VM.
//!
//! A request names the place in `x-fault-injection`. The hook `callout` belongs to no request: it is armed by one.

#[cfg(feature = "fault-injection")]
pub(crate) use injected::*;
#[cfg(not(feature = "fault-injection"))]
pub(crate) use none::*;

#[cfg(feature = "fault-injection")]
#[allow(clippy::panic, reason = "the purpose of this build")]
mod injected {
    use std::cell::Cell;

    use crate::host::{Host, Map};

    std::thread_local! {
        static IS_ARMED: Cell<bool> = const { Cell::new(false) };
    }

    /// The place that a request named.
    #[derive(Default)]
    pub(crate) struct Fault(Option<Vec<u8>>);

    impl Fault {
        /// Reads it, and arms what strikes elsewhere.
        pub(crate) fn read<H: Host>(&mut self, host: &H) {
            self.0 = host.header(Map::Request, "x-fault-injection");
            if self.0.as_deref() == Some(b"callout") {
                IS_ARMED.set(true);
            }
        }

        /// Panics if this is the place.
        pub(crate) fn strike(&self, place: &str) {
            if self.0.as_deref() == Some(place.as_bytes()) {
                panic!("fault injected");
            }
        }
    }

    /// Panics if a request has armed it.
    pub(crate) fn strike_callout() {
        if IS_ARMED.get() {
            panic!("fault injected");
        }
    }
}

#[cfg(not(feature = "fault-injection"))]
mod none {
    use crate::host::Host;

    #[derive(Default)]
    pub(crate) struct Fault(());

    impl Fault {
        pub(crate) fn read<H: Host>(&mut self, _host: &H) {}

        pub(crate) fn strike(&self, _place: &str) {}
    }

    pub(crate) fn strike_callout() {}
}
