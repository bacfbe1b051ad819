//! The messages in which the limits of one cluster are written down. Times are nanoseconds since the origin of the limiter's clock.

use std::collections::HashMap;
use std::time::Duration;

use prost::Message;

/// The format. Another one is not read: its reader begins with a limiter that knows of no parts.
pub(crate) const FORMAT: u32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LimiterState {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) next_holder: u64,
    #[prost(map = "string, message", tag = "3")]
    pub(crate) schemas: HashMap<String, SharesState>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) processes: Vec<ProcessState>,
    #[prost(uint64, tag = "5")]
    pub(crate) swept: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessState {
    #[prost(string, tag = "1")]
    pub(crate) node: String,
    #[prost(fixed64, tag = "2")]
    pub(crate) process: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) holder: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) number: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) last: u64,
}

/// One limit.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SharesState {
    #[prost(message, required, tag = "1")]
    pub(crate) limit: LimitState,
    #[prost(uint64, tag = "2")]
    pub(crate) learns_until: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) issues_from: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) issue_level: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) issue_at: u64,
    #[prost(message, repeated, tag = "6")]
    pub(crate) holdings: Vec<HoldingState>,
    #[prost(uint64, tag = "7")]
    pub(crate) spare_level: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) spare_at: u64,
    /// Releases without guests leave these out.
    #[prost(message, repeated, tag = "9")]
    pub(crate) guests: Vec<GuestState>,
    #[prost(uint64, tag = "10")]
    pub(crate) fleet_until: u64,
}

/// A guest's numbers beside the holdings of its processes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GuestState {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint64, tag = "2")]
    pub(crate) claims: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) issue_level: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) issue_at: u64,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) excess_until: Option<u64>,
    #[prost(uint64, tag = "6")]
    pub(crate) granted: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) granted_most: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) granted_before: u64,
    #[prost(uint64, tag = "9")]
    pub(crate) granted_since: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LimitState {
    #[prost(bool, tag = "1")]
    pub(crate) is_counted: bool,
    #[prost(bool, tag = "2")]
    pub(crate) is_rate: bool,
    /// Requests in flight, or per second.
    #[prost(uint32, tag = "3")]
    pub(crate) units: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) burst: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct HoldingState {
    #[prost(uint64, tag = "1")]
    pub(crate) holder: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) reserved: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) wanted: u32,
    #[prost(uint64, tag = "4")]
    pub(crate) wanted_at: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) first: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) last: u64,
    #[prost(uint32, tag = "7")]
    pub(crate) held: u32,
    #[prost(uint32, tag = "8")]
    pub(crate) tokens: u32,
    #[prost(uint64, tag = "9")]
    pub(crate) number: u64,
}

/// A time of the limiter's clock. Later ones than in the year 2554 are that one.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
