//! Entries of access lists that end: `until` of an entry makes today's answer another one tomorrow.

use portcullis_api::status::Timestamp;
use portcullis_filter_config::{AccessEntry, AccessScope, ClusterConfig};
use serde_json::{Value, json};

/// An entry that is in force and ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ending {
    /// In seconds since 1970.
    until: u64,
    side: &'static str,
    scope: &'static str,
    list: &'static str,
    number: usize,
}

impl Ending {
    /// The entry and its end, in words.
    pub(super) fn text(&self) -> String {
        let Ending { until, side, scope, list, number } = self;
        format!("{}: entry {number} of the {scope}'s {list} list ({side} objects)", Timestamp::from_seconds(*until))
    }

    pub(super) fn json(&self) -> Value {
        let until = Timestamp::from_seconds(self.until);
        json!({"until": until, "objects": self.side, "scope": self.scope, "list": self.list, "entry": self.number})
    }
}

/// The entries of both configurations that end after `now`, seconds since 1970, the next ones first.
pub(super) fn endings(old: &ClusterConfig, new: &ClusterConfig, now: u64) -> Vec<Ending> {
    let mut found: Vec<Ending> = of_side("old", old).chain(of_side("new", new)).filter(|one| one.until > now).collect();
    found.sort();
    found
}

fn of_side(side: &'static str, config: &ClusterConfig) -> impl Iterator<Item = Ending> {
    config.access.iter().flat_map(move |lists| {
        let of = |list, entries| of_list(side, lists.scope, list, entries);
        of("deny", &lists.deny).chain(of("allow", &lists.allow))
    })
}

fn of_list(
    side: &'static str,
    scope: AccessScope,
    list: &'static str,
    entries: &[AccessEntry],
) -> impl Iterator<Item = Ending> {
    let until = entries.iter().enumerate().filter_map(|(number, entry)| Some((number, entry.until_seconds?)));
    until.map(move |(number, until)| Ending { until, side, scope: scope.as_str(), list, number })
}
