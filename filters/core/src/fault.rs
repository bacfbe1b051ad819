//! Panics and refused edits on demand, in the build for tests (`fault-injection`); nothing in every build that is shipped.
//!
//! A request names the place in `x-fault-injection`. Places that belong to no request are armed by one and strike once; a
//! configuration and a path name their place themselves, and a handshake by the client's certificate.

#[cfg(feature = "fault-injection")]
pub use injected::*;
#[cfg(not(feature = "fault-injection"))]
pub use none::*;

#[cfg(feature = "fault-injection")]
#[allow(clippy::panic, reason = "the purpose of this build")]
mod injected {
    use std::borrow::Cow;
    use std::sync::{Mutex, PoisonError};

    const HEADER: &str = "x-fault-injection";
    /// Places outside of requests.
    const ARMED_BY_REQUEST: [&[u8]; 5] = [b"send", b"callout", b"metrics", b"tick", b"timer"];

    static ARMED: Mutex<Option<Vec<u8>>> = Mutex::new(None);

    /// The place that a request named.
    #[derive(Debug, Default)]
    pub struct Fault(Option<Vec<u8>>);

    impl Fault {
        /// Reads the place by a function that returns a request header, and arms one outside of requests.
        pub fn read<'h>(&mut self, header: impl FnOnce(&str) -> Option<Cow<'h, [u8]>>) {
            self.0 = header(HEADER).map(Cow::into_owned);
            if let Some(place) = self.0.as_deref().filter(|place| ARMED_BY_REQUEST.contains(place)) {
                *ARMED.lock().unwrap_or_else(PoisonError::into_inner) = Some(place.to_owned());
            }
        }

        /// Panics if this is the place.
        pub fn strike(&self, place: &str) {
            if self.is(place) {
                panic!("fault injected");
            }
        }

        /// Whether this is the place.
        pub fn is(&self, place: &str) -> bool {
            self.0.as_deref() == Some(place.as_bytes())
        }
    }

    impl Drop for Fault {
        fn drop(&mut self) {
            self.strike("destroy");
        }
    }

    /// Whether lines name this place.
    pub fn is_named<'h>(place: &str, mut lines: impl Iterator<Item = (&'h [u8], &'h [u8])>) -> bool {
        lines.any(|(name, value)| name == HEADER.as_bytes() && value == place.as_bytes())
    }

    /// Panics if a request has armed this place, and disarms it.
    pub fn strike_once(place: &str) {
        let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
        if armed.as_deref() == Some(place.as_bytes()) {
            *armed = None;
            drop(armed);
            panic!("fault injected");
        }
    }

    /// Panics if a configuration, a certificate or a path names this place, as `fault-injection-PLACE`.
    pub fn strike_if_named(place: &str, text: &[u8]) {
        let name = format!("fault-injection-{place}");
        if text.windows(name.len()).any(|window| window == name.as_bytes()) {
            panic!("fault injected");
        }
    }
}

#[cfg(not(feature = "fault-injection"))]
mod none {
    use std::borrow::Cow;

    /// No fault.
    #[derive(Debug, Default)]
    pub struct Fault(());

    impl Fault {
        /// Reads nothing.
        pub fn read<'h>(&mut self, _header: impl FnOnce(&str) -> Option<Cow<'h, [u8]>>) {}

        /// Does nothing.
        pub fn strike(&self, _place: &str) {}

        /// False.
        pub fn is(&self, _place: &str) -> bool {
            false
        }
    }

    /// False.
    pub fn is_named<'h>(_place: &str, _lines: impl Iterator<Item = (&'h [u8], &'h [u8])>) -> bool {
        false
    }

    /// Does nothing.
    pub fn strike_once(_place: &str) {}

    /// Does nothing.
    pub fn strike_if_named(_place: &str, _text: &[u8]) {}
}
