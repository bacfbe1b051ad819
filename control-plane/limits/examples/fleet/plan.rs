//! The limits of the fleet.

use std::collections::BTreeMap;

use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};

/// The name under which the cluster counts, as long as those of a large fleet.
pub(crate) const CLUSTER: &str = "portcullis/-/cluster-00001.example.com@0123456789abcdef";
/// Requests per second, most tokens, and requests in flight: for each gateway on average.
const QPS: u32 = 10;
const BURST: u32 = 20;
const SEATS: u32 = 4;

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) limit: FlowControlLimit,
    pub(crate) strategy: GlobalStrategy,
}

impl Plan {
    /// The limit of that name: `rate` and `seats` are allocated, `counted-rate` and `counted-seats` counted.
    pub(crate) fn of(name: &str, gateways: u32) -> Option<Plan> {
        let rate = FlowControlLimit::TokenBucket { qps: QPS * gateways, burst: BURST * gateways };
        let seats = FlowControlLimit::MaxRequestsInflight(SEATS * gateways);
        let (name, limit, strategy) = match name {
            "rate" => ("rate", rate, GlobalStrategy::Allocate),
            "seats" => ("seats", seats, GlobalStrategy::Allocate),
            "counted-rate" => ("counted-rate", rate, GlobalStrategy::Count),
            "counted-seats" => ("counted-seats", seats, GlobalStrategy::Count),
            _ => return None,
        };
        Some(Plan { name, limit, strategy })
    }

    /// Requests in flight, or requests per second.
    pub(crate) fn total(&self) -> u32 {
        match self.limit {
            FlowControlLimit::MaxRequestsInflight(max) => max,
            FlowControlLimit::TokenBucket { qps, .. } => qps,
        }
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.strategy == GlobalStrategy::Count
    }

    pub(crate) fn burst(&self) -> Option<u32> {
        match self.limit {
            FlowControlLimit::MaxRequestsInflight(_) => None,
            FlowControlLimit::TokenBucket { burst, .. } => Some(burst),
        }
    }
}

/// The same as a limiter takes them.
pub(crate) fn limits(plans: &[Plan]) -> BTreeMap<String, BTreeMap<String, GlobalLimit>> {
    let limit = |plan: &Plan| GlobalLimit { limit: plan.limit, strategy: plan.strategy };
    let schemas = plans.iter().map(|plan| (plan.name.to_owned(), limit(plan))).collect();
    BTreeMap::from([(CLUSTER.to_owned(), schemas)])
}
