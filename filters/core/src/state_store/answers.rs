//! Answers to reviews that all workers share: a worker that does not know an answer looks here before it asks the upstream.
//!
//! The key of an answer is the keyed hash of its question; its value is the answer's status only, never the question, which
//! contains a token. There is a fixed number of places, and good answers have their own, so that a flood of bad ones displaces
//! none of them.

use serde_json::Value;

use super::SharedData;
use crate::review::{MIN_TRUST_SECS, ReviewKey, ReviewResult};

/// Number of answers.
const GOOD_PLACES: u32 = 4_096;
const BAD_PLACES: u32 = 1_024;
/// Bytes of an answer: memory of the proxy's shared data is never given back.
const MAX_GOOD_BYTES: usize = 8 * 1024;
const MAX_BAD_BYTES: usize = 1024;
const KEY_SIZE: usize = size_of::<ReviewKey>();

/// Shares an answer that came at an uptime, in seconds, which all workers read from one clock.
pub(super) fn put(host: &impl SharedData, key: &ReviewKey, result: &ReviewResult, body: &[u8], at: u64) {
    let is_good = match result {
        ReviewResult::User(_) | ReviewResult::Allowed => true,
        ReviewResult::Rejected | ReviewResult::Denied => false,
        // A worker verifies by itself.
        ReviewResult::Verified(_) | ReviewResult::Failed => return,
    };
    let most = if is_good { MAX_GOOD_BYTES } else { MAX_BAD_BYTES };
    let Some(answer) = without_question(body).filter(|answer| answer.len() <= most) else { return };
    let value = [&key[..], &at.to_le_bytes(), answer.as_bytes()].concat();
    if !is_good {
        forget(host, key, |_| true);
    }
    let _ = host.set_shared(&place(key, is_good), &value, 0);
}

/// An answer that is shared, and the uptime in seconds at which it came.
pub(super) fn find(host: &impl SharedData, key: &ReviewKey) -> Option<(Vec<u8>, u64)> {
    [true, false].into_iter().find_map(|is_good| {
        let (value, _) = host.shared(&place(key, is_good))?;
        let (known, rest) = value.split_first_chunk::<KEY_SIZE>()?;
        let (at, answer) = rest.split_first_chunk()?;
        (known == key).then(|| (answer.to_vec(), u64::from_le_bytes(*at)))
    })
}

/// Removes a good answer that the upstream has contradicted, unless it came just now, as in [`crate::review::PassedToken`].
pub(super) fn invalidate_if_older(host: &impl SharedData, key: &ReviewKey, now: u64) {
    forget(host, key, |at| now.saturating_sub(at) >= MIN_TRUST_SECS);
}

/// Removes a good answer.
pub(super) fn forget(host: &impl SharedData, key: &ReviewKey, is_old: impl Fn(u64) -> bool) {
    let place = place(key, true);
    let Some((value, cas)) = host.shared(&place) else { return };
    let came = value.strip_prefix(&key[..]).and_then(|rest| rest.first_chunk()).map(|at| u64::from_le_bytes(*at));
    if came.is_some_and(is_old) {
        // A value that was written meanwhile is newer, and stays.
        let _ = host.set_shared(&place, &[], cas);
    }
}

fn place(key: &ReviewKey, is_good: bool) -> Vec<u8> {
    let number = key.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let (kind, places) = if is_good { ("good", GOOD_PLACES) } else { ("bad", BAD_PLACES) };
    format!("portcullis/{kind}/{}", number % places).into_bytes()
}

fn without_question(body: &[u8]) -> Option<String> {
    let mut answer: Value = serde_json::from_slice(body).ok()?;
    answer.as_object_mut()?.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "status"));
    Some(answer.to_string())
}
