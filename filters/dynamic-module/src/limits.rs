//! Parts of limits that several gateways share, between the state of the process and the messages that carry them.

use std::time::Instant;

use portcullis_report::limits::{PartsMessage, encode_use};

use crate::memory::{self, uptime};

/// A report of the use of all parts; empty if there are none.
pub(crate) fn report(process: u64) -> Vec<u8> {
    let report = memory::global_limits().report(uptime(Instant::now()));
    if report.parts.is_empty() {
        return Vec::new();
    }
    let parts = report.parts.iter().map(|(name, used)| (name.cluster.as_str(), name.schema.as_str(), *used));
    encode_use(process, report.number, parts)
}

/// Applies an answer. One that comes late changes nothing: the lease of the parts ends by itself.
pub(crate) fn apply(message: &PartsMessage) {
    memory::global_limits().apply(message.number, message.parts(), uptime(Instant::now()));
}

/// Whether local limits hold in the place of those that gateways share.
pub(crate) fn are_degraded() -> bool {
    memory::global_limits().is_degraded(uptime(Instant::now()))
}
