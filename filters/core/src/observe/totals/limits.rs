use std::sync::Arc;
use std::time::Duration;

use portcullis_filter_config::activity::LimitUse;

use crate::bucket::{Rate, TokenBucket};
use crate::fair::FairQueue;
use crate::limit::InFlight;

/// The limit of a flow control schema.
#[derive(Debug)]
pub(in crate::observe) struct Limit {
    pub(in crate::observe) schema: Box<str>,
    pub(in crate::observe) source: LimitSource,
}

/// The place where a limit's use is counted.
#[derive(Debug)]
pub(in crate::observe) enum LimitSource {
    InFlight { running: Arc<InFlight>, max: u32 },
    Bucket(Arc<TokenBucket>),
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
            let (used, limit_of, rate) = match &limit.source {
                LimitSource::InFlight { running, max } => (running.count(), *max, 0),
                LimitSource::Seats(queue) => (queue.taken(), queue.max(), 0),
                LimitSource::Bucket(bucket) => {
                    let Rate { qps, burst } = bucket.rate();
                    (bucket.used(uptime), burst, qps)
                }
            };
            LimitUse { schema: limit.schema.to_string(), used, limit: limit_of, rate, refused: *refused }
        };
        self.0.iter().map(activity).collect()
    }
}
