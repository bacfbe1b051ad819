//! The limits of one cluster written down, so that another process goes on with them: see [`Limiter::write`].

use std::time::Duration;

use prost::Message;

use crate::holder::HolderId;
use crate::limiter::{Limiter, Process};
use crate::message::{FORMAT, LimiterState, ProcessState, nanoseconds};
use crate::owners::NodeOwners;
use crate::shares::Shares;

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
    /// of another format, or later than `now`: by a clock that was set back nothing would end for a long time. `owners` says whose the
    /// processes are, which is not written down.
    pub fn read(cluster: &str, state: &[u8], owners: &NodeOwners, now: Duration) -> Option<Self> {
        let state = LimiterState::decode(state).ok().filter(|state| state.format == FORMAT)?;
        let is_later = |time: u64| Duration::from_nanos(time) > now;
        if is_later(state.swept) || state.processes.iter().any(|one| is_later(one.last)) {
            return None;
        }
        let swept = Duration::from_nanos(state.swept);
        let mut limiter = Limiter::of_owners(owners.clone());
        (limiter.next, limiter.swept) = (state.next_holder, swept);
        for one in state.processes {
            let process = Process {
                process: one.process,
                id: HolderId(one.holder),
                number: one.number,
                last: Duration::from_nanos(one.last),
            };
            limiter.add(one.node, process);
        }
        let schemas = state.schemas.iter();
        let schemas = schemas.map(|(schema, shares)| (schema.clone(), Shares::read(shares, &limiter.guests, now)));
        let schemas = schemas.collect();
        limiter.clusters.insert(cluster.to_owned(), schemas);
        Some(limiter)
    }
}
