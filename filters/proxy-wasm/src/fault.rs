//! Panics on demand, at every hook, in the build for tests; nothing in every build that is shipped. A panic ends the VM.
//!
//! A request names the place in `x-fault-injection`. The hooks `callout` and `tick` belong to no request: they are armed by one.

#[cfg(feature = "fault-injection")]
pub(crate) use injected::*;
#[cfg(not(feature = "fault-injection"))]
pub(crate) use none::*;

#[cfg(feature = "fault-injection")]
#[allow(clippy::panic, reason = "the purpose of this build")]
mod injected {
    use std::cell::Cell;

    use crate::hostcalls::{Hostcalls, Map};

    const ARMED_BY_A_REQUEST: [&str; 2] = ["callout", "tick"];

    std::thread_local! {
        static ARMED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// The place that a request named.
    #[derive(Default)]
    pub(crate) struct Fault(Option<Vec<u8>>);

    impl Fault {
        /// Reads it, and arms what strikes elsewhere.
        pub(crate) fn read<H: Hostcalls>(&mut self, host: &H) {
            self.0 = host.header(Map::Request, "x-fault-injection");
            let names = |place: &&str| self.0.as_deref() == Some(place.as_bytes());
            if let Some(place) = ARMED_BY_A_REQUEST.into_iter().find(names) {
                ARMED.set(Some(place));
            }
        }

        /// Panics if this is the place.
        pub(crate) fn strike(&self, place: &str) {
            if self.0.as_deref() == Some(place.as_bytes()) {
                panic!("fault injected");
            }
        }
    }

    /// Panics if a request has armed this place.
    pub(crate) fn strike_if_armed(place: &str) {
        if ARMED.get() == Some(place) {
            panic!("fault injected");
        }
    }
}

#[cfg(not(feature = "fault-injection"))]
mod none {
    use crate::hostcalls::Hostcalls;

    #[derive(Default)]
    pub(crate) struct Fault(());

    impl Fault {
        pub(crate) fn read<H: Hostcalls>(&mut self, _host: &H) {}

        pub(crate) fn strike(&self, _place: &str) {}
    }

    pub(crate) fn strike_if_armed(_place: &str) {}
}
