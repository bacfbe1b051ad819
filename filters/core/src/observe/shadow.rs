//! The outcome of a shadow for a request, and its counts.

use super::counters::CountedKey;
use crate::limit::InFlightPermit;

/// The relation between what became of a request and what the shadow would have made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// The same servers and the same limit, or a refusal of the same kind.
    #[default]
    Same,
    /// Other servers, or another limit.
    OtherPolicy,
    /// 403 by the shadow alone.
    WouldRefuse,
    /// 403 or 429, and not by the shadow.
    WouldAllow,
    /// 429 by the shadow alone.
    WouldLimit,
}

impl Agreement {
    pub(crate) const ALL: [Agreement; 5] =
        [Agreement::Same, Agreement::OtherPolicy, Agreement::WouldRefuse, Agreement::WouldAllow, Agreement::WouldLimit];

    /// The label `agreement`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Agreement::Same => "same",
            Agreement::OtherPolicy => "other_policy",
            Agreement::WouldRefuse => "would_refuse",
            Agreement::WouldAllow => "would_allow",
            Agreement::WouldLimit => "would_limit",
        }
    }
}

/// The labels that a request counts under. Requests for which nothing would change count together, whatever their policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShadowKey {
    /// The number of the policy that decided from 1, or 0 for none; [`OTHERS`] for what has no room.
    pub(super) policy: u16,
    /// The same of the shadow's policy.
    pub(super) shadow_policy: u16,
    pub(crate) agreement: Agreement,
}

/// The number of all policies in what has no room.
const OTHERS: u16 = u16::MAX;

impl ShadowKey {
    /// By policies' numbers from 0, which an object has fewer of than there are numbers.
    pub(crate) fn new(policy: Option<usize>, shadow_policy: Option<usize>, agreement: Agreement) -> Self {
        let number = |policy: Option<usize>| {
            policy.map_or(0, |policy| u16::try_from(policy.saturating_add(1)).map_or(OTHERS, |number| number))
        };
        match agreement {
            Agreement::Same => ShadowKey::default(),
            _ => ShadowKey { policy: number(policy), shadow_policy: number(shadow_policy), agreement },
        }
    }

    /// The labels `policy`, `shadow_policy` and `agreement`; `others` in the place of policies without room.
    pub(super) fn labels(self, others: &str) -> [String; 3] {
        let number = |policy: u16| match policy {
            0 => "-".to_owned(),
            OTHERS => others.to_owned(),
            number => number.saturating_sub(1).to_string(),
        };
        [number(self.policy), number(self.shadow_policy), self.agreement.as_str().to_owned()]
    }
}

impl CountedKey for ShadowKey {
    fn key(self) -> u64 {
        let agreement = Agreement::ALL.iter().position(|one| *one == self.agreement).unwrap_or_default();
        u64::from(self.policy) << 32
            | u64::from(self.shadow_policy) << 16
            | u64::try_from(agreement).unwrap_or_default()
    }

    #[allow(clippy::cast_possible_truncation, reason = "takes apart what `key` has put together")]
    fn of_key(key: u64) -> Self {
        let agreement = Agreement::ALL.get(usize::from(key as u16)).copied().unwrap_or_default();
        ShadowKey { policy: (key >> 32) as u16, shadow_policy: (key >> 16) as u16, agreement }
    }

    fn rest(self) -> Self {
        ShadowKey { policy: OTHERS, shadow_policy: OTHERS, ..self }
    }
}

/// The shadow's outcome for a request.
#[derive(Debug)]
pub(crate) struct ShadowOutcome {
    pub(crate) key: ShadowKey,
    /// The request's place among those that would run, to be kept until it ends.
    pub(crate) permit: Option<InFlightPermit>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shadow_key_survives_its_number() {
        for agreement in Agreement::ALL {
            for (policy, shadow_policy) in [(0, 1), (u16::MAX, 20_000), (20_000, u16::MAX)] {
                let key = ShadowKey { policy, shadow_policy, agreement };
                assert_eq!(ShadowKey::of_key(key.key()), key);
                assert_eq!(key.rest().labels("(other)")[..2], ["(other)", "(other)"]);
            }
        }
        let key = ShadowKey::new(Some(0), None, Agreement::WouldRefuse);
        assert_eq!(key.labels("(other)"), ["0", "-", "would_refuse"]);
        assert_eq!(ShadowKey::new(Some(3), Some(4), Agreement::Same).labels("(other)"), ["-", "-", "same"]);
    }
}
