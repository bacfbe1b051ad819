use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Edition, NodeProcess};

/// Most reports that are remembered one by one.
const MAX_LEFT_OUT: usize = 10_000;

/// Reports that had no room, by edition, until the same process has one that has.
#[derive(Debug, Default)]
pub(super) struct LeftOutReports {
    by_edition: BTreeMap<Edition, LeftOutProcesses>,
    count: usize,
}

#[derive(Debug, Default)]
struct LeftOutProcesses {
    /// Hashes of nodes and processes.
    processes: BTreeSet<u64>,
    /// Whether there were more than are remembered; it stays so.
    more: bool,
}

impl LeftOutReports {
    /// Whether a report about an edition is missing.
    pub(super) fn has(&self, edition: &Edition) -> bool {
        self.by_edition.contains_key(edition)
    }

    /// Notes that a report had no room.
    pub(super) fn insert(&mut self, edition: Edition, process: &NodeProcess) {
        let left_out = self.by_edition.entry(edition).or_default();
        if self.count >= MAX_LEFT_OUT {
            left_out.more |= !left_out.processes.contains(&hash(process));
        } else if left_out.processes.insert(hash(process)) {
            self.count += 1;
        }
    }

    /// Notes that a report of a process has room: it has all that the ones before it had.
    pub(super) fn remove(&mut self, edition: &Edition, process: &NodeProcess) {
        let Some(left_out) = self.by_edition.get_mut(edition) else { return };
        if left_out.processes.remove(&hash(process)) {
            self.count = self.count.saturating_sub(1);
        }
        if left_out.processes.is_empty() && !left_out.more {
            self.by_edition.remove(edition);
        }
    }

    /// Keeps those of some editions.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Edition) -> bool) {
        self.by_edition.retain(|edition, _| is_kept(edition));
        self.count = self.by_edition.values().map(|one| one.processes.len()).sum();
    }
}

fn hash(process: &NodeProcess) -> u64 {
    let mut hasher = DefaultHasher::new();
    process.hash(&mut hasher);
    hasher.finish()
}
