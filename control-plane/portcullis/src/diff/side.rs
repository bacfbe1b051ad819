use portcullis_filter_config::{
    AccessEntry, AccessLists, AccessScope, ClusterConfig, Policy, Rule, without_generation,
};
use serde::Serialize;

use super::region::Region;
use super::space::Space;

/// The treatment of a request by a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyEffect {
    pub(super) server_group: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) schema: Option<String>,
    /// The message of a policy that denies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) denied: Option<String>,
    pub(super) is_logged: bool,
}

impl PolicyEffect {
    pub(super) fn of(policy: &Policy) -> Self {
        let denied = policy.deny.as_ref().map(|denial| denial.message.clone());
        PolicyEffect {
            // A request that is denied goes nowhere.
            server_group: if denied.is_some() { String::new() } else { without_generation(&policy.group).to_owned() },
            schema: policy.flow_control_schema.clone().filter(|_| denied.is_none()),
            denied,
            is_logged: policy.log,
        }
    }
}

/// One configuration of a cluster, as rules in the order in which they are asked.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) rules: Vec<SideRule>,
    /// The regions of all rules, in their order.
    pub(super) regions: Vec<Region>,
    pub(super) lists: Vec<SideList>,
}

/// A rule of a policy.
#[derive(Debug)]
pub(super) struct SideRule {
    pub(super) policy: usize,
    pub(super) rule: usize,
    pub(super) effect: PolicyEffect,
    written: Rule,
    /// The place of its regions.
    pub(super) from: usize,
    pub(super) to: usize,
    /// The same rule on the other side, in the same order among those that both have.
    pub(super) twin: Option<usize>,
}

/// An access list.
#[derive(Debug)]
pub(super) struct SideList {
    pub(super) scope: AccessScope,
    pub(super) deny: Vec<SideEntry>,
    pub(super) allow: Vec<Region>,
    /// The requests that may be let in, as far as it is known before the user is.
    pub(super) allow_by_origin: Vec<Region>,
    pub(super) has_allow: bool,
}

/// An entry that denies.
#[derive(Debug)]
pub(super) struct SideEntry {
    pub(super) regions: Vec<Region>,
    /// Those that are denied to every user: they are before the user is known.
    pub(super) regions_of_all: Vec<Region>,
    pub(super) message: String,
    /// Its number as it is written.
    pub(super) number: usize,
    /// Its text.
    key: String,
    /// Whether the other side has it, in the same order among those that both have.
    pub(super) has_twin: bool,
}

impl Side {
    /// `knows_users`: otherwise rules that ask for users match nothing. `now` is in seconds since 1970.
    pub(super) fn new(space: &Space, config: &ClusterConfig, knows_users: bool, now: u64) -> Self {
        let (mut rules, mut regions) = (Vec::new(), Vec::new());
        for (number, policy) in config.policies.policies().iter().enumerate() {
            let effect = PolicyEffect::of(policy);
            for (index, rule) in policy.rules.iter().enumerate() {
                let from = regions.len();
                if knows_users || !rule.depends_on_user() {
                    regions.extend(space.rule(rule));
                }
                let (effect, written) = (effect.clone(), rule.clone());
                rules.push(SideRule {
                    policy: number,
                    rule: index,
                    effect,
                    written,
                    from,
                    to: regions.len(),
                    twin: None,
                });
            }
        }
        let lists = config.access.iter().map(|lists| list(space, lists, knows_users, now)).collect();
        Side { rules, regions, lists }
    }

    /// The regions of a rule.
    pub(super) fn regions_of(&self, rule: &SideRule) -> &[Region] {
        self.regions.get(rule.from..rule.to).unwrap_or_default()
    }
}

fn list(space: &Space, lists: &AccessLists, knows_users: bool, now: u64) -> SideList {
    let regions_of = |entry: &AccessEntry, knows_users: bool| {
        let is_over = is_over(entry, now);
        let mut entry = entry.clone();
        let had_rules = !entry.rules.is_empty();
        entry.rules.retain(|rule| knows_users || !rule.depends_on_user());
        let is_nothing = is_over || (had_rules && entry.rules.is_empty());
        if is_nothing { Vec::new() } else { space.entry(&entry) }
    };
    let regions = |entry: &AccessEntry| regions_of(entry, knows_users);
    // An entry that asks for the user may let in whatever comes from there.
    let by_origin = |entry: &AccessEntry| {
        let rules = if entry.depends_on_user() { Vec::new() } else { entry.rules.clone() };
        regions_of(&AccessEntry { rules, ..entry.clone() }, true)
    };
    let deny = lists.deny.iter().enumerate().map(|(number, entry)| SideEntry {
        regions: regions(entry),
        regions_of_all: regions_of(entry, false),
        message: entry.message.clone(),
        number,
        key: serde_json::to_string(&(&entry.rules, &entry.addresses, &entry.user_agents, &entry.message))
            .unwrap_or_default()
            + if is_over(entry, now) { "over" } else { "" },
        has_twin: false,
    });
    SideList {
        scope: lists.scope,
        deny: deny.collect(),
        allow: lists.allow.iter().flat_map(regions).collect(),
        allow_by_origin: lists.allow.iter().flat_map(by_origin).collect(),
        has_allow: !lists.allow.is_empty(),
    }
}

fn is_over(entry: &AccessEntry, now: u64) -> bool {
    entry.until_seconds.is_some_and(|until| now >= until)
}

/// Finds the entries that deny on both sides, in the same order.
pub(super) fn find_twin_entries(old: &mut Side, new: &mut Side) {
    for list in &mut old.lists {
        let Some(other) = new.lists.iter_mut().find(|other| other.scope == list.scope) else { continue };
        let mut places = std::collections::HashMap::new();
        for (at, entry) in other.deny.iter().enumerate() {
            places.entry(entry.key.clone()).or_insert(at);
        }
        let pairs = list.deny.iter().enumerate().filter_map(|(at, entry)| Some((at, places.remove(&entry.key)?)));
        for (one, two) in longest_ascent(&pairs.collect::<Vec<_>>()) {
            if let (Some(one), Some(two)) = (list.deny.get_mut(one), other.deny.get_mut(two)) {
                (one.has_twin, two.has_twin) = (true, true);
            }
        }
    }
}

/// Finds the rules that both sides have in the same order. A request that matches none of the others is decided by one of them on
/// both sides, and alike.
pub(super) fn find_twins(old: &mut Side, new: &mut Side) {
    let is_same = |one: &SideRule, two: &SideRule| one.effect == two.effect && one.written == two.written;
    let start = old.rules.iter().zip(&new.rules).take_while(|(one, two)| is_same(one, two)).count();
    let left = old.rules.len().min(new.rules.len()).saturating_sub(start);
    let ends = old.rules.iter().rev().zip(new.rules.iter().rev());
    let end = ends.take(left).take_while(|(one, two)| is_same(one, two)).count();
    let (old_end, new_end) = (old.rules.len() - end, new.rules.len() - end);
    let mut twins: Vec<(usize, usize)> = (0..start).map(|at| (at, at)).collect();
    twins.extend(between(old, new, start..old_end, start..new_end));
    twins.extend((0..end).map(|at| (old_end + at, new_end + at)));
    for (one, two) in twins {
        if let (Some(one_rule), Some(two_rule)) = (old.rules.get_mut(one), new.rules.get_mut(two)) {
            (one_rule.twin, two_rule.twin) = (Some(two), Some(one));
        }
    }
}

/// Twins among rules in the middle: as many as can be found in one order. Of equal rules the first one is taken.
fn between(old: &Side, new: &Side, olds: std::ops::Range<usize>, news: std::ops::Range<usize>) -> Vec<(usize, usize)> {
    let key = |rule: &SideRule| serde_json::to_string(&(&rule.effect, &rule.written)).unwrap_or_default();
    let mut places = std::collections::HashMap::new();
    for at in news {
        if let Some(rule) = new.rules.get(at) {
            places.entry(key(rule)).or_insert(at);
        }
    }
    let pairs: Vec<(usize, usize)> =
        olds.filter_map(|at| Some((at, places.remove(&key(old.rules.get(at)?))?))).collect();
    longest_ascent(&pairs)
}

/// The longest part of pairs, which ascend by their first, that ascends by their second.
fn longest_ascent(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // By length, the pair with the lowest second that ends a part so long; and the one before each.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    let second = |at: &usize| pairs.get(*at).map_or(0, |(_, second)| *second);
    for at in 0..pairs.len() {
        let length = ends.partition_point(|end| second(end) < second(&at));
        before.push(length.checked_sub(1).and_then(|shorter| ends.get(shorter)).copied());
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut part = Vec::new();
    let mut last = ends.last().copied();
    while let Some(at) = last {
        part.extend(pairs.get(at));
        last = before.get(at).copied().flatten();
    }
    part.reverse();
    part
}

#[cfg(test)]
mod tests {
    use super::longest_ascent;

    #[test]
    fn longest_ascent_is_found() {
        assert_eq!(longest_ascent(&[]), []);
        assert_eq!(longest_ascent(&[(0, 5), (1, 1), (2, 2), (3, 0), (4, 3)]), [(1, 1), (2, 2), (4, 3)]);
        assert_eq!(longest_ascent(&[(0, 2), (1, 1), (2, 0)]).len(), 1);
    }
}
