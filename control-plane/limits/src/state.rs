//! The limits of one cluster written down, so that another process goes on with them: see [`Limiter::write`].

use std::collections::HashMap;
use std::time::Duration;

use prost::Message;

use crate::holder::HolderId;
use crate::limiter::{Limiter, Process};
use crate::shares::Shares;

/// The format. Another one is not read: its reader begins with a limiter that knows of no parts.
const FORMAT: u32 = 1;

#[derive(Clone, PartialEq, Message)]
struct LimiterState {
    #[prost(uint32, tag = "1")]
    format: u32,
    #[prost(uint64, tag = "2")]
    next_holder: u64,
    #[prost(map = "string, message", tag = "3")]
    schemas: HashMap<String, SharesState>,
    #[prost(message, repeated, tag = "4")]
    processes: Vec<ProcessState>,
    #[prost(uint64, tag = "5")]
    swept: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessState {
    #[prost(string, tag = "1")]
    node: String,
    #[prost(fixed64, tag = "2")]
    process: u64,
    #[prost(uint64, tag = "3")]
    holder: u64,
    #[prost(uint64, tag = "4")]
    number: u64,
    #[prost(uint64, tag = "5")]
    last: u64,
}

/// One limit. Times are nanoseconds since the origin of the limiter's clock.
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
}

impl Limiter {
    /// Writes down the limits of one cluster, with the processes that report them.
    pub fn write(&self, cluster: &str) -> Vec<u8> {
        let schemas = self.clusters.get(cluster).into_iter().flatten();
        let processes = self.holders.iter().flat_map(|(node, all)| {
            all.iter().map(|one| ProcessState {
                node: node.clone(),
                process: one.process,
                holder: one.id.0,
                number: one.number,
                last: nanoseconds(one.last),
            })
        });
        let state = LimiterState {
            format: FORMAT,
            next_holder: self.next,
            schemas: schemas.map(|(schema, shares)| (schema.clone(), shares.write())).collect(),
            processes: processes.collect(),
            swept: nanoseconds(self.swept),
        };
        state.encode_to_vec()
    }

    /// A limiter of one cluster that goes on with what [`Limiter::write`] wrote, by the same clock. `None` if that is not readable,
    /// or of another format.
    pub fn read(cluster: &str, state: &[u8]) -> Option<Self> {
        let state = LimiterState::decode(state).ok().filter(|state| state.format == FORMAT)?;
        let schemas = state.schemas.iter().map(|(schema, shares)| (schema.clone(), Shares::read(shares)));
        let swept = Duration::from_nanos(state.swept);
        let mut limiter = Limiter { next: state.next_holder, swept, ..Limiter::new() };
        limiter.clusters.insert(cluster.to_owned(), schemas.collect());
        for one in state.processes {
            let process = Process {
                process: one.process,
                id: HolderId(one.holder),
                number: one.number,
                last: Duration::from_nanos(one.last),
            };
            limiter.holders.entry(one.node).or_default().push(process);
        }
        limiter.count = limiter.holders.values().map(Vec::len).sum();
        Some(limiter)
    }
}

/// A time of the limiter's clock. Later ones than in the year 2554 are that one.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
