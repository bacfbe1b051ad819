//! Time that passes while something is measured.

use std::time::Duration;

/// Lets a time pass in which load is measured, or between two steps of a steady pace. Waiting for a condition is
/// [`portcullis_harness::wait`]'s.
#[expect(clippy::disallowed_methods, reason = "the length of a measurement is a time, not a condition")]
pub(crate) fn pause(length: Duration) {
    std::thread::sleep(length);
}
