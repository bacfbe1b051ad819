/// Panics if the test-only build is told to, by the place's name in `PORTCULLIS_FAULT`.
#[cfg(feature = "fault-injection")]
#[allow(clippy::panic, reason = "the purpose of this build")]
pub(crate) fn maybe(place: &str) {
    if std::env::var("PORTCULLIS_FAULT").is_ok_and(|fault| fault == place) {
        panic!("fault injected");
    }
}

/// Nothing, in every build that is shipped.
#[cfg(not(feature = "fault-injection"))]
pub(crate) const fn maybe(_place: &str) {}
