//! A gateway that counts, the real limiter, and answers that are lost: by the millisecond.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::bucket::Rate;
use portcullis_core::global_limit::{FallbackRate, GlobalLimits, RatePart};
use portcullis_filter_config::{FlowControlLimit, GlobalStrategy};

use super::rules::limits;
use crate::Limiter;

const QPS: u32 = 200;
const FALLBACK: FallbackRate = FallbackRate { local: Rate { qps: 20, burst: 20 }, global_qps: QPS };
/// Requests come that often, half as many again as may pass.
const STEP: u64 = 10;
const REQUESTS: usize = 3;
/// Time from a report to its answer, and to the next report if there is none.
const ANSWERED_AFTER: u64 = 20;
const PATIENCE: u64 = 1_500;

struct Gateway {
    limits: GlobalLimits,
    rate: Arc<RatePart>,
    limiter: Limiter,
    now: u64,
    next: u64,
}

impl Gateway {
    /// A gateway whose rate is in use for five seconds.
    fn in_use() -> Self {
        let mut limiter = Limiter::new();
        let limit = FlowControlLimit::TokenBucket { qps: QPS, burst: 2 * QPS };
        limiter.configure(&limits(limit, GlobalStrategy::Count), Duration::ZERO);
        let parts = GlobalLimits::default();
        let rate = parts.rate("c", "s");
        let mut gateway = Gateway { limits: parts, rate, limiter, now: 0, next: 0 };
        gateway.pass(5_000, |_| true);
        gateway
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.now)
    }

    /// Requests that are admitted in that time; an answer to a report at the milliseconds of which `is_answered` is false is lost.
    fn pass(&mut self, milliseconds: u64, is_answered: impl Fn(u64) -> bool) -> usize {
        let mut admitted = 0;
        for _ in 0..milliseconds / STEP {
            self.now += STEP;
            if self.now >= self.next {
                self.next = self.now + PATIENCE;
                let report = self.limits.report(self.uptime());
                if is_answered(self.now) {
                    let holder = self.limiter.holder("a", 1, report.number, self.uptime()).unwrap();
                    let answer = self.limiter.exchange(holder, "c", "s", report.parts[0].1, self.uptime()).unwrap();
                    self.limits.apply(report.number, [answer.part], self.uptime());
                    self.next = self.now + ANSWERED_AFTER + u64::try_from(answer.next.as_millis()).unwrap();
                }
            }
            admitted += (0..REQUESTS).filter(|_| self.rate.take(FALLBACK, self.uptime())).count();
        }
        admitted
    }
}

#[test]
fn rate_outlives_one_answer_that_is_lost() {
    let mut gateway = Gateway::in_use();
    let before = gateway.pass(1_000, |_| true);
    assert!((190..=210).contains(&before), "{before}");
    let lost = gateway.now + 500;
    let halves: Vec<usize> = (0..10).map(|_| gateway.pass(500, |at| !(lost..lost + 150).contains(&at))).collect();
    // One of these waits for the overdue tokens; after the answer the limiter issues what it has left.
    let least = [90, 15, 90, 90, 90, 90, 90, 90, 90, 90];
    assert!(halves.iter().zip(least).all(|(half, least)| *half >= least), "{halves:?}");
}

#[test]
fn rate_without_a_limiter_is_what_was_in_use() {
    let mut gateway = Gateway::in_use();
    gateway.pass(1_000, |_| false);
    for second in 0..20 {
        let admitted = gateway.pass(1_000, |_| false);
        assert!((190..=210).contains(&admitted), "{admitted} in second {second}");
    }
    // The limiter's own tokens are used up in four seconds, and nothing but the limit of all gateways holds.
    gateway.pass(6_000, |_| true);
    let admitted = gateway.pass(5_000, |_| true);
    assert!((980..=1_010).contains(&admitted), "{admitted}");
}
