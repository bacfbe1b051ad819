//! The comparison of two configurations of a cluster, for one kind of request.
//!
//! A request that is judged differently is decided on one side by a rule that the other side does not have: the rules that both
//! have are in one order. Each such rule is paired with each that may decide the same request on the other side, and a request is
//! looked for that is in both and in none that comes before them.

use std::collections::HashSet;

use super::atoms::AtomSet;
use super::example::ExampleRequest;
use super::natural::natural;
use super::region::{Axis, Region};
use super::search::{SearchResult, Steps, find};
use super::side::{Side, SideRule};
use super::space::Space;
use super::verdict::{Decider, Difference, Uncompared};

/// The parts of a comparison.
pub(super) struct Comparison<'c> {
    pub(super) space: &'c Space,
    pub(super) old: &'c Side,
    pub(super) new: &'c Side,
    /// The requests that there are.
    pub(super) classes: &'c [Region],
    pub(super) everything: &'c Region,
    pub(super) usual: &'c [AtomSet; Axis::COUNT],
    pub(super) knows_users: bool,
}

/// The results of a comparison.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) differences: Vec<Difference>,
    pub(super) uncompared: Vec<Uncompared>,
    /// Requests that are judged beside lists and policies, by something that differs: not compared.
    pub(super) beside: Vec<&'static str>,
}

impl Findings {
    /// Between a side that judges requests and one that passes connections on.
    pub(super) fn of_transport() -> Self {
        let beside = vec!["all requests: one side passes connections on, and judges none"];
        Self { beside, ..Self::default() }
    }
}

/// A part of a side that decides requests: those in its regions that nothing before it takes.
struct RuleCandidate<'c> {
    regions: Vec<&'c Region>,
    before: Vec<&'c Region>,
    /// One of each of these lets the request in.
    lets_in: Vec<&'c [Region]>,
    decider: Decider,
    /// Whether the other side does not have it.
    is_changed: bool,
}

/// A rule of a side, or the end of its rules.
#[derive(Clone, Copy)]
struct RulePlace<'c> {
    index: usize,
    rule: Option<&'c SideRule>,
}

impl<'c> Comparison<'c> {
    /// Compares the access lists.
    pub(super) fn lists(&self, findings: &mut Findings, steps: &mut Steps) {
        let (old, new) = (self.list_candidates(self.old), self.list_candidates(self.new));
        for one in &old {
            let others =
                new.iter().filter(|two| (one.is_changed || two.is_changed) && !one.decider.is_like(&two.decider));
            for two in others {
                let is_found = |found: &Difference| found.then == one.decider && found.now == two.decider;
                if !findings.differences.iter().any(is_found) {
                    self.look(one, two, findings, steps);
                }
            }
        }
    }

    /// Compares the policies, for requests that the lists of both sides let in.
    pub(super) fn policies(&self, findings: &mut Findings, steps: &mut Steps) {
        let mut done: HashSet<(Option<usize>, Option<usize>)> = HashSet::new();
        let mut compare = |one: RulePlace<'c>, two: RulePlace<'c>| {
            let pair = (one.policy(), two.policy());
            if one.excludes(two)
                || one.decider().is_like(&two.decider())
                || done.contains(&pair)
                || !self.meet(one, two)
            {
                return;
            }
            let candidates = [(self.old, one), (self.new, two)].map(|(side, place)| self.candidate(side, place));
            let [one, two] = &candidates;
            if self.look(one, two, findings, steps) {
                done.insert(pair);
            }
        };
        let changed = |places: &[RulePlace<'c>]| {
            places
                .iter()
                .copied()
                .filter(|place| place.rule.is_some_and(|rule| rule.twin.is_none()))
                .collect::<Vec<_>>()
        };
        let (old, new) = (RulePlace::all(self.old), RulePlace::all(self.new));
        for one in changed(&old) {
            new.iter().for_each(|two| compare(one, *two));
        }
        for two in changed(&new) {
            let unchanged = old.iter().filter(|place| place.rule.is_none_or(|rule| rule.twin.is_some()));
            unchanged.for_each(|one| compare(*one, two));
        }
    }

    /// Whether two rules have requests in common. Most have none.
    fn meet(&self, one: RulePlace<'c>, two: RulePlace<'c>) -> bool {
        let (Some(one), Some(two)) = (one.rule, two.rule) else { return true };
        let (ones, twos) = (self.old.regions_of(one), self.new.regions_of(two));
        ones.iter().any(|one| twos.iter().any(|two| one.intersects(two)))
    }

    fn candidate(&self, side: &'c Side, place: RulePlace<'c>) -> RuleCandidate<'c> {
        let from = place.rule.map_or(side.regions.len(), |rule| rule.from);
        let deny = side.lists.iter().flat_map(|list| list.deny.iter().flat_map(|entry| &entry.regions));
        RuleCandidate {
            regions: place.rule.map_or_else(|| vec![self.everything], |rule| side.regions_of(rule).iter().collect()),
            before: deny.chain(side.regions.iter().take(from)).collect(),
            lets_in: side.lists.iter().filter(|list| list.has_allow).map(|list| list.allow.as_slice()).collect(),
            decider: place.decider(),
            is_changed: true,
        }
    }

    /// The entries of all lists: first as far as they are asked before the user is known, and then once more.
    fn list_candidates(&self, side: &'c Side) -> Vec<RuleCandidate<'c>> {
        let (mut candidates, mut before, mut lets_in) = (Vec::new(), Vec::new(), Vec::new());
        for (list, is_first) in
            [true, false].into_iter().flat_map(|first| side.lists.iter().map(move |list| (list, first)))
        {
            for entry in &list.deny {
                let regions = if is_first { &entry.regions_of_all } else { &entry.regions };
                let (number, message) = (entry.number, entry.message.clone());
                candidates.push(RuleCandidate {
                    regions: regions.iter().collect(),
                    before: before.clone(),
                    lets_in: lets_in.clone(),
                    decider: Decider::Denied { scope: list.scope, entry: number, message },
                    is_changed: !entry.has_twin,
                });
                before.extend(regions);
            }
            if list.has_allow {
                let allow = if is_first { &list.allow_by_origin } else { &list.allow };
                candidates.push(RuleCandidate {
                    regions: vec![self.everything],
                    before: before.iter().copied().chain(allow).collect(),
                    lets_in: lets_in.clone(),
                    decider: Decider::NotLetIn { scope: list.scope },
                    is_changed: true,
                });
                lets_in.push(allow.as_slice());
            }
        }
        let regions = vec![self.everything];
        candidates.push(RuleCandidate { regions, before, lets_in, decider: Decider::LetIn, is_changed: true });
        candidates
    }

    /// Looks for a request that both decide. Whether nothing is left to look for: one was found, or the steps came to an end.
    fn look(
        &self,
        one: &RuleCandidate<'c>,
        two: &RuleCandidate<'c>,
        findings: &mut Findings,
        steps: &mut Steps,
    ) -> bool {
        let lets_in: Vec<&[Region]> = one.lets_in.iter().chain(&two.lets_in).copied().collect();
        let mut is_undecided = false;
        for (first, second) in
            one.regions.iter().flat_map(|first| two.regions.iter().map(move |second| (first, second)))
        {
            let Some(both) = first.intersection(second) else { continue };
            if !steps.take(one.before.len().saturating_add(two.before.len())) {
                is_undecided = true;
                break;
            }
            let before = one.before.iter().chain(&two.before).copied();
            let others: Vec<&Region> = before.filter(|other| other.intersects(&both)).collect();
            for region in self.classes.iter().filter_map(|class| class.intersection(&both)) {
                match find(&region, &others, &lets_in, self.usual, steps) {
                    SearchResult::Nothing => {}
                    SearchResult::Undecided => is_undecided = true,
                    SearchResult::Region(found) => {
                        let point = natural(self.space, &region, &found, &others, &lets_in);
                        if let Some(example) = ExampleRequest::of(self.space, &point, self.knows_users) {
                            let (then, now) = (one.decider.clone(), two.decider.clone());
                            findings.differences.push(Difference { then, now, example });
                            return true;
                        }
                        is_undecided = true;
                    }
                }
            }
        }
        if is_undecided {
            findings.uncompared.push(Uncompared { then: one.decider.clone(), now: two.decider.clone() });
        }
        is_undecided
    }
}

impl<'c> RulePlace<'c> {
    /// All rules of a side, and their end.
    fn all(side: &'c Side) -> Vec<Self> {
        let rules = side.rules.iter().enumerate().map(|(index, rule)| RulePlace { index, rule: Some(rule) });
        rules.chain([RulePlace { index: side.rules.len(), rule: None }]).collect()
    }

    fn policy(self) -> Option<usize> {
        self.rule.map(|rule| rule.policy)
    }

    fn twin(self) -> Option<usize> {
        self.rule.and_then(|rule| rule.twin)
    }

    /// Whether no request is decided by both: the other side has one of the two before the other.
    fn excludes(self, new: Self) -> bool {
        new.twin().is_some_and(|twin| twin < self.index) || self.twin().is_some_and(|twin| twin < new.index)
    }

    fn decider(self) -> Decider {
        self.rule.map_or(Decider::NoPolicy, |rule| Decider::Policy {
            policy: rule.policy,
            rule: rule.rule,
            effect: rule.effect.clone(),
        })
    }
}
