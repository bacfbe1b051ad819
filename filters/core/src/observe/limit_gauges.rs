use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::catalog::{IN_FLIGHT_LIMIT, Metric, QUEUED_REQUESTS, REQUESTS_IN_FLIGHT, REQUESTS_PER_SECOND_LIMIT};
use super::series_ledger::SeriesLedger;
use crate::fair::FairQueue;
use crate::flow_limit::FlowLimit;

/// The limit of one flow control schema, as gauges show it.
#[derive(Debug)]
pub(super) struct SchemaLimit {
    schema: Box<str>,
    value: LimitedValue,
    /// Whether its gauges have series, once they were asked for.
    has_room: OnceLock<bool>,
}

#[derive(Debug)]
enum LimitedValue {
    Limit(FlowLimit),
    Seats(Arc<FairQueue>),
}

impl SchemaLimit {
    /// A limit of requests in flight or per second.
    pub(super) fn of_limit(schema: &str, limit: FlowLimit) -> Self {
        SchemaLimit { schema: schema.into(), value: LimitedValue::Limit(limit), has_room: OnceLock::new() }
    }

    /// A fair queue.
    pub(super) fn of_seats(schema: &str, queue: Arc<FairQueue>) -> Self {
        SchemaLimit { schema: schema.into(), value: LimitedValue::Seats(queue), has_room: OnceLock::new() }
    }

    fn values(&self) -> impl Iterator<Item = (Metric, u64)> {
        let values = match &self.value {
            LimitedValue::Limit(limit) => {
                let (running, max) = limit.seats().unzip();
                [
                    running.map(|running| (REQUESTS_IN_FLIGHT, running)),
                    max.map(|max| (IN_FLIGHT_LIMIT, max)),
                    limit.rate().map(|rate| (REQUESTS_PER_SECOND_LIMIT, rate)),
                ]
            }
            LimitedValue::Seats(queue) => [
                Some((REQUESTS_IN_FLIGHT, queue.taken())),
                Some((IN_FLIGHT_LIMIT, queue.max())),
                Some((QUEUED_REQUESTS, queue.waiting())),
            ],
        };
        values.into_iter().flatten().map(|(metric, value)| (metric, u64::from(value)))
    }

    fn has_room(&self, ledger: &SeriesLedger) -> bool {
        *self.has_room.get_or_init(|| {
            let labels = [&*self.schema];
            let made: Vec<_> = self.values().map(|(metric, _)| ledger.combination(metric.name, &labels, 1)).collect();
            ledger.admit(&made, true)
        })
    }
}

/// The gauges of all limits of a cluster. `each` gets the metric, the schema's label and the value; schemas that have no room are one,
/// with their sums, under the label `rest`.
pub(super) fn gauges(
    limits: &[SchemaLimit],
    ledger: &SeriesLedger,
    rest: &str,
    mut each: impl FnMut(Metric, &str, u64),
) {
    let mut sums: BTreeMap<&str, (Metric, u64)> = BTreeMap::new();
    for limit in limits {
        let has_room = limit.has_room(ledger);
        for (metric, value) in limit.values() {
            if has_room {
                each(metric, &limit.schema, value);
            } else {
                let (_, sum) = sums.entry(metric.name).or_insert((metric, 0));
                *sum = sum.saturating_add(value);
            }
        }
    }
    sums.into_values().for_each(|(metric, sum)| each(metric, rest, sum));
}
