//! Panics end here: one that left an `extern "C"` function would abort the whole of Envoy.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::log;

/// A panic was caught; what it touched must not be used again.
#[derive(Clone, Copy, Debug)]
pub struct Panicked;

/// Runs an entry point's work.
///
/// # Errors
/// [`Panicked`], always a bug of the module. The caller answers by failing closed.
pub fn guard<R>(entry: &'static str, work: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        // Dropping a payload may run anything, even panic again: then that payload stays.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
        log::critical(entry);
        Panicked
    })
}
