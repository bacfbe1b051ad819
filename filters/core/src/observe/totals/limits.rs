use std::sync::Arc;
use std::time::Duration;

use portcullis_filter_config::activity::LimitUse;

use crate::fair::FairQueue;
use crate::flow_limit::{FlowLimit, LimitLevel};

/// The limit of a flow control schema.
#[derive(Debug)]
pub(in crate::observe) struct Limit {
    pub(in crate::observe) schema: Box<str>,
    pub(in crate::observe) source: LimitSource,
}

/// The place where a limit's use is counted.
#[derive(Debug)]
pub(in crate::observe) enum LimitSource {
    Limit(FlowLimit),
    Seats(Arc<FairQueue>),
}

/// The limits of the newest configuration, with what they refused since the start of the process.
#[derive(Debug, Default)]
pub(super) struct LimitTotals(Vec<(Limit, u64)>);

impl LimitTotals {
    /// Takes new limits; a schema keeps its count whatever its limit is now.
    pub(super) fn replace(&mut self, limits: Vec<Limit>) {
        let before = std::mem::take(&mut self.0);
        let refused = |schema: &str| before.iter().find(|(limit, _)| &*limit.schema == schema).map(|(_, count)| *count);
        self.0 = limits
            .into_iter()
            .map(|limit| {
                let refused = refused(&limit.schema).unwrap_or_default();
                (limit, refused)
            })
            .collect();
    }

    pub(super) fn refused(&mut self, schema: &str, count: u64) {
        if let Some((_, refused)) = self.0.iter_mut().find(|(limit, _)| &*limit.schema == schema) {
            *refused = refused.saturating_add(count);
        }
    }

    pub(super) fn activity(&self, uptime: Duration) -> Vec<LimitUse> {
        let activity = |(limit, refused): &(Limit, u64)| {
            let level = match &limit.source {
                LimitSource::Limit(limit) => limit.level(uptime),
                LimitSource::Seats(queue) => {
                    let (used, limit) = (queue.taken(), queue.max());
                    LimitLevel { used, limit, rate: 0, is_local: false, is_shared: false }
                }
            };
            let LimitLevel { used, limit: most, rate, is_local: local, is_shared: shared } = level;
            LimitUse { schema: limit.schema.to_string(), used, limit: most, rate, refused: *refused, local, shared }
        };
        self.0.iter().map(activity).collect()
    }
}
