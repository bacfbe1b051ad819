use envoy_abi::http::Headers;

/// Panics where a request of the test-only build asks for it, by the place's name in `x-fault-injection`.
#[cfg(feature = "fault-injection")]
#[allow(clippy::panic, reason = "the purpose of this build")]
pub(crate) fn maybe<'a>(place: &str, headers: impl FnOnce() -> Option<Headers<'a>>) {
    if headers().is_some_and(|headers| is_asked_for(place, &headers)) {
        panic!("fault injected");
    }
}

/// Whether a request of the test-only build, or its trailers, ask for a fault at this place.
#[cfg(feature = "fault-injection")]
pub(crate) fn is_asked_for(place: &str, headers: &Headers<'_>) -> bool {
    headers.iter().any(|(name, value)| name == b"x-fault-injection" && value == place.as_bytes())
}

/// Nothing, in every build that is shipped.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn maybe<'a>(_place: &str, _headers: impl FnOnce() -> Option<Headers<'a>>) {}

/// Never, in every build that is shipped.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn is_asked_for(_place: &str, _headers: &Headers<'_>) -> bool {
    false
}
