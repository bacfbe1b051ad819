//! Parts of limits that several gateways share: the use that a gateway reports, and the part that it gets.

use std::time::Duration;

/// The time for which a part holds, counted by the gateway from the moment at which it began to write its report.
pub const LEASE: Duration = Duration::from_secs(3);

/// Most bytes of a gateway's report of the use of its parts. Parts that do not fit are left out, and the local limits alone hold for
/// them meanwhile, whatever was in use.
pub const MAX_USE_BYTES: usize = 768 << 10;
/// Most schemas of one cluster in a row of a report: more of them are in a second row.
pub const MAX_SCHEMAS: usize = 1_024;
/// Most bytes of a schema or a cluster in a report without its name: four numbers of up to five bytes, tags and lengths.
const OVERHEAD: usize = 32;

/// Most bytes that a schema or a cluster of that name takes of a report.
pub fn bytes_in_report(name: &str) -> usize {
    name.len().saturating_add(OVERHEAD)
}

/// Use of one limit in one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartUse {
    /// Whether the limit is a rate; otherwise it is one of requests in flight.
    pub is_rate: bool,
    /// Whether the process has a part under a lease, if only one of 0.
    pub is_leased: bool,
    /// The part that the process has: requests in flight, or requests per second. 0 if its lease has ended.
    pub held: u32,
    /// Requests in flight, or whole tokens in the bucket.
    pub used: u32,
    /// The part that the process has use for: requests in flight, or requests per second, those that it refused included.
    pub wanted: u32,
}

/// The part of one limit that a process has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitPart {
    /// Requests in flight, or requests per second.
    pub quota: u32,
    /// Most tokens in the bucket; 0 for requests in flight.
    pub burst: u32,
    /// Tokens that are added to the bucket once.
    pub tokens: u32,
}
