use portcullis_api::{MergeStrategy, PolicyRole};

/// The levels of targets that a request passes, the widest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetLevel {
    /// A Gateway.
    Gateway,
    /// A listener of it.
    Listener,
    /// An `HTTPRoute`.
    Route,
    /// An `UpstreamCluster`.
    Cluster,
}

/// A policy that has a part at one of the targets that a request passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyCandidate {
    /// The level of its target.
    pub level: TargetLevel,
    /// Its part there.
    pub role: PolicyRole,
    /// Its place among others.
    pub strategy: MergeStrategy,
}

/// The candidate that has a part for requests that pass all their targets, by its index. `has_own`: whether the `UpstreamCluster` has
/// such fields itself.
///
/// Overrides of the widest target come first, then the cluster's own fields, then defaults of the narrowest target. GEP-713 walks
/// from target to target, where defaults in between would take the force of overrides above them; here overrides hold for all
/// that is below.
pub fn deciding(candidates: &[PolicyCandidate], role: PolicyRole, has_own: bool) -> Option<usize> {
    let is_possible = |(_, one): &(usize, &PolicyCandidate)| {
        one.role == role
            && match (one.strategy, role) {
                (MergeStrategy::Overrides, _) => true,
                (MergeStrategy::Defaults, PolicyRole::Decides) => !has_own,
                (MergeStrategy::Defaults, PolicyRole::Tightens) => false,
            }
    };
    let depth = |level: TargetLevel| match level {
        TargetLevel::Gateway => 0_i8,
        TargetLevel::Listener => 1,
        TargetLevel::Route => 2,
        TargetLevel::Cluster => 3,
    };
    let rank = |one: &PolicyCandidate| match one.strategy {
        MergeStrategy::Overrides => (0, depth(one.level)),
        MergeStrategy::Defaults => (1, -depth(one.level)),
    };
    candidates.iter().enumerate().filter(is_possible).min_by_key(|(_, one)| rank(one)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_hold_from_above_and_defaults_from_below() {
        use MergeStrategy::{Defaults, Overrides};
        use TargetLevel::{Cluster, Gateway, Listener, Route};
        for (levels, has_own, expected) in [
            (vec![(Gateway, Overrides), (Route, Defaults), (Cluster, Defaults)], false, Some(0)),
            (vec![(Gateway, Overrides), (Route, Overrides), (Cluster, Overrides)], true, Some(0)),
            (vec![(Gateway, Defaults), (Listener, Overrides), (Cluster, Overrides)], true, Some(1)),
            (vec![(Gateway, Defaults), (Listener, Defaults), (Route, Defaults)], false, Some(2)),
            (vec![(Gateway, Defaults), (Cluster, Defaults)], false, Some(1)),
            (vec![(Gateway, Defaults), (Cluster, Defaults)], true, None),
            (vec![], false, None),
        ] {
            let candidate = |(level, strategy)| PolicyCandidate { level, role: PolicyRole::Decides, strategy };
            let candidates: Vec<_> = levels.into_iter().map(candidate).collect();
            assert_eq!(deciding(&candidates, PolicyRole::Decides, has_own), expected, "{candidates:?}");
            assert_eq!(deciding(&candidates, PolicyRole::Tightens, has_own), None);
        }
        let tightens = |strategy| PolicyCandidate { level: Route, role: PolicyRole::Tightens, strategy };
        assert_eq!(deciding(&[tightens(Defaults), tightens(Overrides)], PolicyRole::Tightens, false), Some(1));
    }
}
