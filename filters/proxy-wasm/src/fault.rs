/// Panics where a request of the test-only build asks for it, by the place's name in `x-fault-injection`.
#[cfg(feature = "fault-injection")]
#[allow(clippy::panic, reason = "the purpose of this build")]
pub(crate) fn maybe(place: &str, headers: &[(&[u8], &[u8])]) {
    if headers.iter().any(|(name, value)| *name == b"x-fault-injection" && *value == place.as_bytes()) {
        panic!("fault injected");
    }
}

/// Nothing, in every build that is shipped.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn maybe(_place: &str, _headers: &[(&[u8], &[u8])]) {}
