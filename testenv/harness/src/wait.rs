//! Waiting for a condition with a deadline: the only place of the harness that lets time pass.

use std::time::{Duration, Instant};

use crate::deps;
use crate::error::{Error, Result};

/// How often a condition is looked at.
const INTERVAL: Duration = Duration::from_millis(20);

/// The factor of all deadlines: `PORTCULLIS_PATIENCE`, for a machine that others use too. With wasm three by default: each
/// Envoy compiles the filter before it listens, seconds of a core.
pub fn deadline_factor() -> u32 {
    let told = std::env::var("PORTCULLIS_PATIENCE").ok().and_then(|times| times.parse().ok());
    told.unwrap_or(if deps::runs_wasm() { 3 } else { 1 })
}

/// Asks `probe` until it gives a value, at most for `deadline`, or a few times that (`PORTCULLIS_PATIENCE`).
///
/// # Errors
/// [`Error::Deadline`] naming `what`.
pub fn until<T>(what: &str, deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
    until_ok(what, deadline, || probe().ok_or_else(String::new))
}

/// As [`until`], for a probe that can say why the condition does not hold yet; the last reason is in the error.
///
/// # Errors
/// [`Error::Deadline`] naming `what`, with the probe's last error as detail.
pub fn until_ok<T, E: std::fmt::Display>(
    what: &str,
    deadline: Duration,
    mut probe: impl FnMut() -> std::result::Result<T, E>,
) -> Result<T> {
    let start = Instant::now();
    let deadline = deadline.saturating_mul(deadline_factor());
    loop {
        let reason = match probe() {
            Ok(value) => return Ok(value),
            Err(reason) => reason.to_string(),
        };
        let waited = start.elapsed();
        if waited >= deadline {
            let detail = if reason.is_empty() { reason } else { format!("\nlast seen: {reason}") };
            return Err(Error::Deadline { what: what.to_owned(), waited, detail });
        }
        std::thread::park_timeout(INTERVAL.min(deadline.saturating_sub(waited)));
    }
}

/// How often an experiment is begun anew.
const ATTEMPTS: u32 = 8;

/// Repeats an experiment whose outcome means something only if its steps came in time, until they did: `attempt` returns
/// nothing otherwise. Claims about timing can thus be tested on a machine that stalls for seconds, too.
///
/// # Errors
/// [`Error::Deadline`] naming `what`, if the machine was too slow each time.
pub fn retry_if_slow<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> Result<T> {
    let start = Instant::now();
    let outcome = (0..ATTEMPTS).find_map(|_| attempt());
    let detail = format!("\nthe machine was too slow {ATTEMPTS} times");
    outcome.ok_or_else(|| Error::Deadline { what: what.to_owned(), waited: start.elapsed(), detail })
}
