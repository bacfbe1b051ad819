//! The cost of many limits, for docs/performance.md.

use std::collections::BTreeMap;
use std::time::Duration;

use portcullis_filter_config::limits::PartUse;
use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};

use crate::Limiter;

const GATEWAYS: u64 = 50;
const ROUNDS: u64 = 5;

/// Nanoseconds that this thread has run.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Limits of that many objects, ten each.
fn limits(objects: usize) -> BTreeMap<String, BTreeMap<String, GlobalLimit>> {
    let limit = |number: usize| GlobalLimit {
        limit: match number % 2 {
            0 => FlowControlLimit::MaxRequestsInflight(500),
            _ => FlowControlLimit::TokenBucket { qps: 1_000, burst: 2_000 },
        },
        strategy: GlobalStrategy::Allocate,
    };
    let schemas = || (0..10).map(|number| (format!("schema-{number}"), limit(number))).collect();
    (0..objects)
        .map(|object| (format!("portcullis/-/cluster-{object:05}.example.com@0123456789abcdef"), schemas()))
        .collect()
}

#[test]
#[ignore = "prints figures: cargo test --profile module -p portcullis-limits -- --ignored --nocapture"]
fn cost_of_many_limits_is_printed() {
    for (objects, wanted) in [(100, 2), (300, 2), (1_000, 2), (1_000, 40)] {
        let limits = limits(objects);
        let mut limiter = Limiter::new();
        limiter.configure(&limits, Duration::ZERO);
        let mut spent = 0;
        for round in 0..ROUNDS {
            for gateway in 0..GATEWAYS {
                let now = Duration::from_secs(10 + round);
                let start = processor_time();
                let holder = limiter.holder(&format!("gateway-{gateway}"), 1, round + 1, now).unwrap();
                for (cluster, schemas) in &limits {
                    for (schema, limit) in schemas {
                        let is_rate = matches!(limit.limit, FlowControlLimit::TokenBucket { .. });
                        let used = PartUse { is_rate, wanted, ..PartUse::default() };
                        limiter.exchange(holder, cluster, schema, used, now).unwrap();
                    }
                }
                spent += processor_time() - start;
            }
        }
        let each = spent / ROUNDS / GATEWAYS / (objects as u64 * 10);
        eprintln!("{GATEWAYS} gateways, {} limits, each wants {wanted}: {each} ns a limit and report", objects * 10);
    }
}
