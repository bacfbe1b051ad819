use portcullis_filter_config::activity::{MAX_POLICIES, OTHER, PolicyActivity};

use super::super::Outcome;

/// The number of all policies that have no room of their own.
const REST: u32 = u32::MAX;

/// Decisions by policy and outcome. Policies keep the room that they have: the counts of a policy that moved to the others and
/// back would not grow only.
#[derive(Debug, Default)]
pub(super) struct PolicyTotals {
    /// In order, so that they are found.
    counts: Vec<(Decided, u64)>,
    /// Policies with room of their own.
    policies: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Decided {
    /// From 1; 0 for none.
    policy: u32,
    /// [`Outcome::code`]
    outcome: u8,
}

impl PolicyTotals {
    pub(super) fn add(&mut self, policy: u32, outcome: Outcome, count: u64) {
        let decided = Decided { policy: self.with_room(policy), outcome: outcome.code() };
        match self.counts.binary_search_by_key(&decided, |(known, _)| *known) {
            Ok(at) => {
                if let Some((_, total)) = self.counts.get_mut(at) {
                    *total = total.saturating_add(count);
                }
            }
            Err(at) => self.counts.insert(at, (decided, count)),
        }
    }

    fn with_room(&mut self, policy: u32) -> u32 {
        let at = self.counts.partition_point(|(known, _)| known.policy < policy);
        if policy == 0 || self.counts.get(at).is_some_and(|(known, _)| known.policy == policy) {
            return policy;
        }
        if self.policies >= MAX_POLICIES {
            return REST;
        }
        self.policies = self.policies.saturating_add(1);
        policy
    }

    /// All of them, by number.
    pub(super) fn activity(&self) -> Vec<PolicyActivity> {
        let of_one = self.counts.chunk_by(|(one, _), (next, _)| one.policy == next.policy);
        of_one.filter_map(|counts| Some(activity(counts.first()?.0.policy, counts))).collect()
    }
}

fn activity(policy: u32, counts: &[(Decided, u64)]) -> PolicyActivity {
    let policy = match policy.checked_sub(1) {
        None => "-".to_owned(),
        Some(_) if policy == REST => OTHER.to_owned(),
        Some(number) => number.to_string(),
    };
    let mut activity = PolicyActivity { policy, ..PolicyActivity::default() };
    for (decided, count) in counts {
        let outcome = Outcome::of_code(decided.outcome);
        let reason = outcome.reason();
        if outcome == Outcome::Forwarded {
            activity.forwarded = *count;
        } else if let Some((_, total)) = activity.refused.iter_mut().find(|(known, _)| known == reason) {
            *total = total.saturating_add(*count);
        } else {
            activity.refused.push((reason.to_owned(), *count));
        }
    }
    activity
}
