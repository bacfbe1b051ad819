//! Panics and refusals on demand, at every hook, in the build for tests; nothing in every build that is shipped.
//!
//! A request names the place in `x-fault-injection`. Of hooks that belong to no request, `send`, `callout` and `metrics` are armed by
//! one and strike once; a configuration names its place itself, and a handshake by the client's certificate.

#[cfg(feature = "fault-injection")]
pub(crate) use injected::*;
#[cfg(not(feature = "fault-injection"))]
pub(crate) use none::*;

#[cfg(feature = "fault-injection")]
#[allow(clippy::panic, reason = "the purpose of this build")]
mod injected {
    use std::sync::Mutex;

    use envoy_abi::http::{FilterHandle, HeaderMap, Headers};

    const HEADER: &[u8] = b"x-fault-injection";
    const ARMED_BY_A_REQUEST: [&[u8]; 3] = [b"send", b"callout", b"metrics"];

    static ARMED: Mutex<Option<Vec<u8>>> = Mutex::new(None);

    /// The place that a request named.
    #[derive(Default)]
    pub(crate) struct Fault(Option<Vec<u8>>);

    impl Fault {
        /// Reads it, and arms what strikes elsewhere.
        pub(crate) fn read(&mut self, stream: &FilterHandle) {
            let place = stream.headers(HeaderMap::Request).and_then(|headers| named(&headers));
            if let Some(place) = place.as_deref().filter(|place| ARMED_BY_A_REQUEST.contains(place)) {
                *ARMED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(place.to_owned());
            }
            self.0 = place;
        }

        /// Panics if this is the place.
        pub(crate) fn strike(&self, place: &str) {
            if self.is(place) {
                panic!("fault injected");
            }
        }

        /// Whether this is the place.
        pub(crate) fn is(&self, place: &str) -> bool {
            self.0.as_deref() == Some(place.as_bytes())
        }

        /// Whether the request's trailers name this place.
        pub(crate) fn is_in_trailers(&self, place: &str, stream: &FilterHandle) -> bool {
            let trailers = stream.headers(HeaderMap::RequestTrailers);
            trailers.and_then(|trailers| named(&trailers)).as_deref() == Some(place.as_bytes())
        }
    }

    impl Drop for Fault {
        fn drop(&mut self) {
            self.strike("destroy");
        }
    }

    /// Panics if a request has armed this place, and disarms it.
    pub(crate) fn strike_once(place: &str) {
        let mut armed = ARMED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if armed.as_deref() == Some(place.as_bytes()) {
            *armed = None;
            drop(armed);
            panic!("fault injected");
        }
    }

    /// Panics if a configuration or a certificate names this place, as `fault-injection-PLACE`.
    pub(crate) fn strike_if_named(place: &str, text: &[u8]) {
        let name = format!("fault-injection-{place}");
        if text.windows(name.len()).any(|window| window == name.as_bytes()) {
            panic!("fault injected");
        }
    }

    fn named(headers: &Headers<'_>) -> Option<Vec<u8>> {
        headers.iter().find(|(name, _)| *name == HEADER).map(|(_, place)| place.to_owned())
    }
}

#[cfg(not(feature = "fault-injection"))]
mod none {
    use envoy_abi::http::FilterHandle;

    #[derive(Default)]
    pub(crate) struct Fault(());

    impl Fault {
        pub(crate) fn read(&mut self, _stream: &FilterHandle) {}

        pub(crate) fn strike(&self, _place: &str) {}

        pub(crate) fn is(&self, _place: &str) -> bool {
            false
        }

        pub(crate) fn is_in_trailers(&self, _place: &str, _stream: &FilterHandle) -> bool {
            false
        }
    }

    pub(crate) fn strike_once(_place: &str) {}

    pub(crate) fn strike_if_named(_place: &str, _text: &[u8]) {}
}
