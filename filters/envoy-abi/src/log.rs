//! Envoy's log, logger `dynamic_modules`.

use crate::raw::{Buffer, envoy_dynamic_module_callback_log as log};

const ERROR: u32 = 4;
const CRITICAL: u32 = 5;

/// Logs a message of the module's own. Nothing that a client wrote and no secret belongs into it.
pub fn error(message: &str) {
    // SAFETY: the buffer is lent for the call; Envoy copies it.
    unsafe { log(ERROR, Buffer::lend(message.as_bytes())) }
}

/// Logs that an entry point panicked.
pub(crate) fn critical(entry: &'static str) {
    let message = format!("portcullis: panic in {entry}; the request fails closed");
    // SAFETY: as above.
    unsafe { log(CRITICAL, Buffer::lend(message.as_bytes())) }
}
