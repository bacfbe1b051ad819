//! A cluster's configuration read as strictly, and as leniently, as a request may meet it of whose user a part is not known.
//!
//! The unknown part is a group, or a user, of a name that no rule has. A rule that wants a group may want an unknown one, and a
//! rule that excludes groups may exclude it. Read one way every such rule matches, read the other way none does, and the truth
//! is between: what both readings decide alike is decided whatever the user is.

use portcullis_filter_config::{AccessLists, ClusterConfig, Policy, Rule, RuleList};

/// The group in place of those that are not known, and the user.
pub(super) const UNKNOWN: &str = "portcullis.dev: unknown to the log";

/// Refuses what may be refused, and chooses the first policy that may match.
pub(super) fn strict(config: &ClusterConfig) -> ClusterConfig {
    let mut strict = read(config, Leniency::Possible, Leniency::Certain);
    if let Some(protected) = &mut strict.protected {
        // Refused is stricter than let go without the group. A group that is dropped would open no policy.
        protected.drop_groups = false;
        if !protected.groups.is_empty() {
            protected.groups.push(UNKNOWN.to_owned());
        }
        if !protected.users.is_empty() {
            protected.users.push(UNKNOWN.to_owned());
        }
    }
    strict.policies = policies(config, Leniency::Possible);
    strict
}

/// Refuses what is certainly refused, and chooses the first policy that certainly matches.
pub(super) fn lenient(config: &ClusterConfig) -> ClusterConfig {
    let mut lenient = read(config, Leniency::Certain, Leniency::Possible);
    lenient.policies = policies(config, Leniency::Certain);
    lenient
}

/// Whether a rule matches where it may, or only where it must.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leniency {
    Possible,
    Certain,
}

fn read(config: &ClusterConfig, deny: Leniency, allow: Leniency) -> ClusterConfig {
    let mut config = config.clone();
    for AccessLists { deny: denies, allow: allows, .. } in &mut config.access {
        for (entries, reading) in [(denies, deny), (allows, allow)] {
            for rule in entries.iter_mut().flat_map(|entry| &mut entry.rules) {
                widen(rule, reading);
            }
        }
    }
    config
}

fn policies(config: &ClusterConfig, reading: Leniency) -> portcullis_filter_config::Dispatch {
    let mut policies: Vec<Policy> = config.policies.policies().into_owned();
    for rule in policies.iter_mut().flat_map(|policy| &mut policy.rules) {
        widen(rule, reading);
    }
    policies.into()
}

fn widen(rule: &mut Rule, reading: Leniency) {
    // The unknown user may be one of the service accounts, whatever the list of users says.
    let has_accounts = !rule.service_accounts.is_empty();
    add(&mut rule.users, reading, has_accounts);
    add(&mut rule.user_groups, reading, false);
}

/// Lets a list that wants something want the unknown, too; or lets a list that excludes something exclude it. `has_others`:
/// whether something beside the list may be wanted.
fn add(entries: &mut Vec<String>, reading: Leniency, has_others: bool) {
    let added = match (RuleList::read(entries), reading) {
        (None, Leniency::Possible) if has_others => UNKNOWN.to_owned(),
        (Some(RuleList::AnyOf(wanted)), Leniency::Possible) if has_others || wanted.clone().next().is_some() => {
            UNKNOWN.to_owned()
        }
        (Some(RuleList::NoneOf(_)), Leniency::Certain) => format!("-{UNKNOWN}"),
        _ => return,
    };
    entries.push(added);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_gets_the_unknown_where_it_may_decide() {
        let table: [(&[&str], bool, bool); 6] = [
            (&[], false, false),
            (&["*", "a"], false, false),
            (&["a"], true, false),
            (&["a", "-b"], true, false),
            (&["-b"], false, true),
            (&["-b", "-*"], false, false),
        ];
        for (entries, possible, certain) in table {
            for (reading, expected) in [(Leniency::Possible, possible), (Leniency::Certain, certain)] {
                let mut list: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
                add(&mut list, reading, false);
                assert_eq!(list.len() > entries.len(), expected, "{entries:?}");
            }
        }
    }
}
