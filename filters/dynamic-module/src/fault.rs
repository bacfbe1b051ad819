use envoy_abi::http::Headers;

/// Panics where a request of the test-only build asks for it, by the place's name in `x-fault-injection`.
#[cfg(feature = "fault-injection")]
#[allow(clippy::panic, reason = "the purpose of this build")]
pub(crate) fn maybe<'a>(place: &str, headers: impl FnOnce() -> Headers<'a>) {
    if headers().iter().any(|(name, value)| name == b"x-fault-injection" && value == place.as_bytes()) {
        panic!("fault injected");
    }
}

/// Nothing, in every build that is shipped.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn maybe<'a>(_place: &str, _headers: impl FnOnce() -> Headers<'a>) {}
