use std::collections::BTreeMap;
use std::time::Duration;

use portcullis_filter_config::limits::{LimitPart, PartUse};
use portcullis_filter_config::{FlowControlLimit, GlobalStrategy};

use super::rules::limits;
use crate::guests::EXCESS;
use crate::owners::{MAX_GUESTS, MAX_HOLDERS_OF_GUEST};
use crate::{HolderRefusal, Limiter, NodeOwners};

pub(super) fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Nodes with a `/` in their names are a guest's, which is named before it.
pub(super) fn owners() -> NodeOwners {
    NodeOwners::new(|node| node.split_once('/').map(|(guest, _)| guest.to_owned()))
}

/// A limiter that has learnt what there is to learn, at 10 s.
pub(super) fn limiter(limit: FlowControlLimit, strategy: GlobalStrategy) -> Limiter {
    let mut limiter = Limiter::of_owners(owners());
    limiter.configure(&limits(limit, strategy), at(0.0));
    limiter
}

/// The processes of a limit, one of each node, that report their parts as they are.
pub(super) struct Nodes {
    pub(super) limiter: Limiter,
    pub(super) parts: BTreeMap<String, Option<LimitPart>>,
    number: u64,
}

impl Nodes {
    pub(super) fn new(limit: FlowControlLimit, strategy: GlobalStrategy) -> Self {
        Self { limiter: limiter(limit, strategy), parts: BTreeMap::new(), number: 0 }
    }

    /// The answer to a report of any use.
    pub(super) fn report(&mut self, node: &str, used: PartUse, now: Duration) -> Option<LimitPart> {
        self.number += 1;
        let holder = self.limiter.holder(node, 1, self.number, now).unwrap();
        let part = self.limiter.exchange(holder, "c", "s", used, now).unwrap().part;
        self.parts.insert(node.to_owned(), part);
        part
    }

    /// The quota of a process that has the part of its last answer, with so much of it in use and wanted.
    pub(super) fn wants(&mut self, node: &str, wanted: u32, now: f64) -> Option<u32> {
        let part = self.parts.get(node).copied().flatten();
        let held = part.map_or(0, |part| part.quota);
        let used = PartUse { is_rate: false, is_leased: part.is_some(), held, used: held.min(wanted), wanted };
        self.report(node, used, at(now)).map(|part| part.quota)
    }

    /// Units of all leases whose nodes begin so.
    pub(super) fn sum(&self, prefix: &str) -> u32 {
        let of_prefix = self.parts.iter().filter(|(node, _)| node.starts_with(prefix));
        of_prefix.filter_map(|(_, part)| Some((*part)?.quota)).sum()
    }
}

const MAX: FlowControlLimit = FlowControlLimit::MaxRequestsInflight(100);

#[test]
fn guests_have_half_beside_the_fleet_in_equal_parts() {
    let mut nodes = Nodes::new(MAX, GlobalStrategy::Allocate);
    let wanted = [("fleet-0", 500), ("a/0", 500), ("a/1", 500), ("b/0", 500), ("c/0", 4)];
    for second in 10..20 {
        for (node, wanted) in wanted {
            nodes.wants(node, wanted, f64::from(second));
        }
    }
    let parts: Vec<_> = wanted.iter().map(|(node, _)| nodes.parts[*node].map(|part| part.quota)).collect();
    // A guest that wants four has one more to begin with, and the fleet the rest of its part.
    assert_eq!(parts, [61, 9, 8, 17, 5].map(Some));
}

#[test]
fn guest_gets_back_from_the_fleet_its_part() {
    let mut nodes = Nodes::new(MAX, GlobalStrategy::Allocate);
    nodes.wants("fleet-0", 100, 10.0);
    assert_eq!(nodes.wants("fleet-0", 100, 11.0), Some(100), "alone it has all");
    assert_eq!(nodes.wants("a/0", 80, 11.1), None, "the local limit, before it has a part");
    assert_eq!(nodes.wants("fleet-0", 100, 12.0), Some(50));
    assert_eq!(nodes.wants("a/0", 80, 12.1), None, "the fleet may not have read it yet");
    nodes.wants("fleet-0", 50, 13.0);
    assert_eq!(nodes.wants("a/0", 80, 13.1), Some(50));
    nodes.wants("a/0", 0, 14.2);
    assert_eq!(nodes.wants("fleet-0", 100, 14.3), Some(50), "it has not given back yet");
    assert_eq!(nodes.wants("a/0", 0, 15.0), Some(1), "a small part to begin with");
    nodes.wants("a/0", 0, 15.3);
    assert_eq!(nodes.wants("fleet-0", 100, 15.4), Some(99), "and all of the rest is in use");
}

#[test]
fn idle_guest_takes_nothing_of_a_small_limit() {
    for (strategy, max) in
        [GlobalStrategy::Allocate, GlobalStrategy::Count].into_iter().flat_map(|one| [(one, 1), (one, 2)])
    {
        let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(max), strategy);
        for second in 10..60 {
            nodes.wants("a/0", 0, f64::from(second));
            nodes.wants("fleet-0", 10, f64::from(second) + 0.1);
            assert!(second < 14 || nodes.sum("fleet") == max, "{strategy:?} {max}: {:?}", nodes.parts);
        }
        // One that asks has its turns.
        let mut turns = 0;
        for second in 60..120 {
            nodes.wants("a/0", 10, f64::from(second));
            nodes.wants("fleet-0", 10, f64::from(second) + 0.1);
            assert!(nodes.sum("") <= max);
            turns += nodes.sum("a/");
        }
        assert!((20..=60).contains(&turns), "{strategy:?} {max}: {turns} of 60 seconds");
    }
}

#[test]
fn guests_have_all_without_the_fleet_after_a_minute() {
    let mut nodes = Nodes::new(MAX, GlobalStrategy::Allocate);
    nodes.wants("fleet-0", 0, 10.0);
    for second in 10..75 {
        for node in ["a/0", "b/0"] {
            let quota = nodes.wants(node, 80, f64::from(second) + 0.5);
            assert!(second >= 70 || quota.unwrap_or_default() <= 25, "{node} has {quota:?} at {second} s");
        }
    }
    assert_eq!((nodes.sum("a/"), nodes.sum("b/")), (50, 50));
}

#[test]
fn guest_is_believed_no_more_than_it_was_granted() {
    for strategy in [GlobalStrategy::Allocate, GlobalStrategy::Count] {
        let mut nodes = Nodes::new(MAX, strategy);
        let lie = |held, used| PartUse { is_rate: false, is_leased: true, held, used, wanted: u32::MAX };
        for second in 10..20 {
            nodes.report("a/0", lie(u32::MAX, u32::MAX), at(f64::from(second)));
            nodes.wants("fleet-0", 100, f64::from(second) + 0.1);
        }
        assert_eq!((nodes.sum("a/"), nodes.sum("fleet")), (50, 50), "{strategy:?}");
    }
}

#[test]
fn guest_that_lies_while_a_limiter_learns_has_its_part() {
    let mut nodes = Nodes::new(MAX, GlobalStrategy::Allocate);
    let lie = PartUse { is_rate: false, is_leased: true, held: 1_000, used: 1_000, wanted: 1_000 };
    for node in ["a/0", "a/1", "a/2"] {
        nodes.report(node, lie, at(1.0));
    }
    assert_eq!(nodes.sum("a/"), 50, "the fleet is taken to be there");
    let honest = PartUse { is_rate: false, is_leased: true, held: 25, used: 25, wanted: 25 };
    assert_eq!(nodes.report("b/0", honest, at(1.1)).map(|part| part.quota), Some(25), "it keeps its part");
    // Former answers to it may be leased until then.
    for tenth in 40..110 {
        nodes.report("a/0", lie, at(f64::from(tenth) / 10.0));
        nodes.wants("fleet-0", 100, f64::from(tenth) / 10.0);
        nodes.wants("b/0", 25, f64::from(tenth) / 10.0);
    }
    assert_eq!((nodes.sum("fleet"), nodes.sum("b/")), (50, 25), "of both at once");
}

#[test]
fn guest_keeps_units_of_one_that_joins_for_ten_minutes() {
    let mut nodes = Nodes::new(MAX, GlobalStrategy::Allocate);
    let lie = PartUse { is_rate: false, is_leased: true, held: 100, used: 100, wanted: 100 };
    let mut second = 70.0;
    for _ in 0..4 {
        nodes.report("a/0", lie, at(second));
        second += 1.0;
    }
    assert_eq!(nodes.sum("a/"), 100, "there is no fleet");
    let begin = second;
    let end = begin + EXCESS.as_secs_f64();
    while second < end + 5.0 {
        nodes.report("a/0", lie, at(second));
        nodes.wants("b/0", 100, second + 0.1);
        let joined = nodes.sum("b/");
        assert!(second > end - 1.0 || joined == 0, "requests of before run still, {joined} at {second}");
        assert!(second < end + 2.0 || joined == 50, "the guest that joined starves, {joined} at {second}");
        second += 1.0;
    }
}

#[test]
fn tokens_for_a_guest_are_of_both_buckets() {
    let limit = FlowControlLimit::TokenBucket { qps: 100, burst: 200 };
    let mut nodes = Nodes::new(limit, GlobalStrategy::Count);
    let greedy = PartUse { is_rate: true, is_leased: false, held: 0, used: 0, wanted: 10_000 };
    let (mut tokens, mut all) = (BTreeMap::<&str, u32>::new(), 0);
    for tenth in 100..400 {
        for node in ["fleet-0", "a/0", "a/1", "b/0"] {
            let part = nodes.report(node, greedy, at(f64::from(tenth) / 10.0)).unwrap();
            all += part.tokens;
            if tenth >= 200 {
                *tokens.entry(node.split('/').next().unwrap()).or_default() += part.tokens;
            }
        }
        assert!(all <= 200 + 10 * (tenth - 99), "{all} until {tenth}");
    }
    for (owner, least, most) in [("fleet-0", 960, 1_040), ("a", 480, 520), ("b", 480, 520)] {
        assert!((least..=most).contains(&tokens[owner]), "{owner}: {tokens:?} in 20 s");
    }
}

#[test]
fn fleet_uses_tokens_that_guests_leave() {
    let limit = FlowControlLimit::TokenBucket { qps: 100, burst: 200 };
    let mut nodes = Nodes::new(limit, GlobalStrategy::Count);
    let mut tokens = 0;
    for tenth in 100..400 {
        let idle = PartUse { is_rate: true, is_leased: false, held: 0, used: 100, wanted: 0 };
        nodes.report("a/0", idle, at(f64::from(tenth) / 10.0));
        let greedy = PartUse { used: 0, wanted: 10_000, ..idle };
        let part = nodes.report("fleet-0", greedy, at(f64::from(tenth) / 10.0)).unwrap();
        tokens += if tenth >= 200 { part.tokens } else { 0 };
    }
    assert!((1_990..=2_010).contains(&tokens), "{tokens} in 20 s");
}

#[test]
fn guests_beyond_their_number_have_no_part() {
    let mut limiter = limiter(MAX, GlobalStrategy::Allocate);
    let mut admitted = |node: String, process| limiter.holder(&node, process, 1, at(10.0)).is_ok();
    let of_one = (0..200).filter(|node| admitted(format!("a/{node}"), 1)).count();
    assert_eq!(of_one, MAX_HOLDERS_OF_GUEST);
    let guests = (0..200).filter(|guest| admitted(format!("g{guest}/0"), 1)).count();
    assert_eq!(guests, MAX_GUESTS - 1);
    let fleet = (0..5_000).filter(|node| admitted(format!("fleet-{node}"), 1)).count();
    assert_eq!(fleet, 4_096, "they take no place of the fleet's");
    assert_eq!(limiter.holder("late/0", 1, 1, at(10.0)), Err(HolderRefusal::TooMany));
    assert!(limiter.holder("late/0", 1, 1, at(15.0)).is_ok(), "those before are gone");
}
