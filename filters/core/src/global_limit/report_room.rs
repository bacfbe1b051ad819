//! The room of a report where a process has more parts than fit.

use std::collections::HashMap;
use std::time::Duration;

use portcullis_filter_config::limits::{MAX_SCHEMAS, MAX_USE_BYTES, bytes_in_report};

use super::PartName;

/// The room that parts without use have at least, whatever the others need.
const ROOM_OF_OTHERS: usize = MAX_USE_BYTES / 8;
/// The most room of parts with requests in flight: others that are in use have their turn as well.
const ROOM_OF_RUNNING: usize = MAX_USE_BYTES / 4 * 3;
/// The time after which other parts have their turn: several leases, so that a part is worth something.
const TURN: Duration = Duration::from_secs(15);
/// The time for which a part counts as used after it was.
const IN_USE_FOR: Duration = Duration::from_secs(15);

/// The need that a process has of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartNeed {
    /// No request since the last report.
    Idle,
    /// Requests since the last report, and none in flight.
    Used,
    /// Requests in flight, which hold the part until they end.
    Running,
}

impl PartNeed {
    /// The need of a part that has requests in flight, or had requests since the last report.
    pub(crate) fn of(is_running: bool, is_used: bool) -> Self {
        match (is_running, is_used) {
            (true, _) => Self::Running,
            (false, true) => Self::Used,
            (false, false) => Self::Idle,
        }
    }
}

/// A choice of parts: those in use, of them first those with requests in flight, and others in turn. A part that is left out has no
/// lease until it is reported again.
#[derive(Debug, Default)]
pub(crate) struct ReportRoom {
    /// Uptime at which each part was last in use, while there are too many parts. Those that were not for a while are forgotten.
    used: HashMap<PartName, Duration>,
    turn_ends: Duration,
    running: Queue,
    in_use: Queue,
    others: Queue,
}

/// The turns of parts, by name.
#[derive(Debug, Default)]
struct Queue {
    /// The first one in this turn; `None` for the first of all.
    first: Option<PartName>,
    /// The first one that had no room in it.
    next: Option<PartName>,
}

/// A report that is filled.
struct Filled<'a> {
    names: Vec<&'a PartName>,
    /// The position of its cluster among all, by part, and the parts of each cluster that are in the report.
    clusters: Vec<usize>,
    counts: Vec<usize>,
    bytes: usize,
    chosen: Vec<bool>,
}

impl ReportRoom {
    /// Chooses parts for a report at that uptime, out of all in the order of their names, each with its need since the last report
    /// that had it. Returns for each whether it is in this one; `None` if there is room for all.
    pub(crate) fn choose(&mut self, parts: &[(&PartName, PartNeed)], uptime: Duration) -> Option<Vec<bool>> {
        if has_room_for(parts) {
            *self = Self::default();
            return None;
        }
        if uptime >= self.turn_ends {
            self.turn_ends = uptime.saturating_add(TURN);
            let queues = [&mut self.running, &mut self.in_use, &mut self.others];
            queues.into_iter().for_each(|queue| queue.first = queue.next.take());
        }
        self.remember(parts, uptime);
        let (running, rest): (Vec<usize>, Vec<usize>) = (0..parts.len())
            .partition(|position| parts.get(*position).is_some_and(|(_, need)| *need == PartNeed::Running));
        let (in_use, others): (Vec<usize>, Vec<usize>) = rest
            .into_iter()
            .partition(|position| parts.get(*position).is_some_and(|(name, _)| self.used.contains_key(*name)));
        let mut filled = Filled::new(parts);
        self.running.fill(&mut filled, &running, ROOM_OF_RUNNING);
        self.in_use.fill(&mut filled, &in_use, MAX_USE_BYTES.saturating_sub(ROOM_OF_OTHERS));
        self.others.fill(&mut filled, &others, MAX_USE_BYTES);
        Some(filled.chosen)
    }

    fn remember(&mut self, parts: &[(&PartName, PartNeed)], uptime: Duration) {
        for (name, _) in parts.iter().filter(|(_, need)| *need != PartNeed::Idle) {
            match self.used.get_mut(*name) {
                Some(used) => *used = uptime,
                None => drop(self.used.insert((*name).clone(), uptime)),
            }
        }
        self.used.retain(|_, used| uptime < used.saturating_add(IN_USE_FOR));
    }
}

/// Whether all parts fit into one report.
fn has_room_for(parts: &[(&PartName, PartNeed)]) -> bool {
    // With a row for each, as most reports are short.
    let rows =
        parts.iter().map(|(name, _)| bytes_in_report(&name.cluster).saturating_add(bytes_in_report(&name.schema)));
    if rows.sum::<usize>() <= MAX_USE_BYTES {
        return true;
    }
    let mut all = Filled::new(parts);
    (0..parts.len()).all(|position| all.add(position, MAX_USE_BYTES))
}

impl Queue {
    /// Adds parts from the first one on, until one would make the report longer than that.
    fn fill(&mut self, filled: &mut Filled<'_>, positions: &[usize], most: usize) {
        let is_before = |position: &usize| filled.names.get(*position).copied() < self.first.as_ref();
        let (before, from) = positions.split_at(positions.partition_point(is_before));
        let refused = from.iter().chain(before).find(|position| !filled.add(**position, most));
        self.next = refused.and_then(|position| filled.names.get(*position)).map(|name| (*name).clone());
    }
}

impl<'a> Filled<'a> {
    fn new(parts: &[(&'a PartName, PartNeed)]) -> Self {
        let names: Vec<&PartName> = parts.iter().map(|(name, _)| *name).collect();
        let (mut clusters, mut count, mut last) = (Vec::with_capacity(names.len()), 0_usize, None);
        for name in &names {
            count = count.saturating_add(usize::from(last != Some(&name.cluster)));
            last = Some(&name.cluster);
            clusters.push(count.saturating_sub(1));
        }
        let chosen = vec![false; names.len()];
        Filled { names, clusters, counts: vec![0; count], bytes: 0, chosen }
    }

    /// Adds a part, unless the report would be longer than that.
    fn add(&mut self, position: usize, most: usize) -> bool {
        let (Some(name), Some(cluster)) = (self.names.get(position), self.clusters.get(position)) else { return false };
        let (Some(count), Some(chosen)) = (self.counts.get_mut(*cluster), self.chosen.get_mut(position)) else {
            return false;
        };
        let row = if count.is_multiple_of(MAX_SCHEMAS) { bytes_in_report(&name.cluster) } else { 0 };
        let bytes = self.bytes.saturating_add(row).saturating_add(bytes_in_report(&name.schema));
        if bytes > most {
            return false;
        }
        (self.bytes, *count, *chosen) = (bytes, count.saturating_add(1), true);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn names(clusters: usize, schemas: usize) -> Vec<PartName> {
        let of_cluster = |cluster| {
            (0..schemas).map(move |schema| PartName {
                cluster: format!("portcullis/-/cluster-{cluster:05}.example.com@0123456789abcdef"),
                schema: format!("schema-{schema:05}"),
            })
        };
        (0..clusters).flat_map(of_cluster).collect()
    }

    fn chosen(room: &mut ReportRoom, names: &[PartName], used: impl Fn(usize) -> bool, uptime: Duration) -> Vec<usize> {
        chosen_by_need(room, names, |at| PartNeed::of(false, used(at)), uptime)
    }

    fn chosen_by_need(
        room: &mut ReportRoom,
        names: &[PartName],
        need: impl Fn(usize) -> PartNeed,
        uptime: Duration,
    ) -> Vec<usize> {
        let parts: Vec<_> = names.iter().enumerate().map(|(at, name)| (name, need(at))).collect();
        let all = vec![true; names.len()];
        let chosen = room.choose(&parts, uptime).unwrap_or(all);
        (0..names.len()).filter(|at| chosen[*at]).collect()
    }

    #[test]
    fn report_with_room_for_all_has_all() {
        for (clusters, schemas) in [(0, 0), (1, 1), (1, 17_000), (5_000, 1)] {
            let names = names(clusters, schemas);
            let mut room = ReportRoom::default();
            assert_eq!(chosen(&mut room, &names, |_| false, SECOND).len(), names.len(), "{clusters} of {schemas}");
            assert!(room.used.is_empty(), "nothing is remembered");
        }
    }

    #[test]
    fn parts_in_use_are_in_each_report_and_others_in_turn() {
        let names = names(3_000, 10);
        let mut room = ReportRoom::default();
        // One of a hundred, all over the names.
        let is_used = |at: usize| at % 100 == 99;
        let mut seen = vec![false; names.len()];
        for second in 0..5 * 15 {
            let chosen = chosen(&mut room, &names, is_used, SECOND * second);
            assert!((99..names.len()).step_by(100).all(|at| chosen.binary_search(&at).is_ok()), "at {second} s");
            chosen.into_iter().for_each(|at| seen[at] = true);
        }
        assert!(seen.iter().all(|seen| *seen), "{:?} was never reported", seen.iter().position(|seen| !seen));
        assert_eq!(room.used.len(), 300);
    }

    #[test]
    fn parts_have_turns_where_all_are_in_use() {
        let names = names(30_000, 1);
        let mut room = ReportRoom::default();
        let first = chosen(&mut room, &names, |_| true, SECOND);
        assert_eq!(chosen(&mut room, &names, |_| true, SECOND * 15), first, "several leases long");
        let mut seen = vec![false; names.len()];
        for turn in 0..7 {
            for at in chosen(&mut room, &names, |at| at < 29_999, SECOND * 16 * (1 + turn)) {
                seen[at] = true;
            }
        }
        assert!(seen.iter().all(|seen| *seen), "{:?} was never reported", seen.iter().position(|seen| !seen));
    }

    #[test]
    fn parts_with_requests_in_flight_are_in_each_report() {
        let names = names(30_000, 1);
        let mut room = ReportRoom::default();
        let is_running = |at: usize| at % 100 == 99;
        let mut seen = vec![false; names.len()];
        for turn in 0..7 {
            let need = |at| PartNeed::of(is_running(at), true);
            let chosen = chosen_by_need(&mut room, &names, need, SECOND * 16 * (1 + turn));
            assert!((99..names.len()).step_by(100).all(|at| chosen.binary_search(&at).is_ok()), "turn {turn}");
            chosen.into_iter().for_each(|at| seen[at] = true);
        }
        assert!(seen.iter().all(|seen| *seen), "{:?} was never reported", seen.iter().position(|seen| !seen));
        let all = |_| PartNeed::Running;
        let first = chosen_by_need(&mut room, &names, all, SECOND * 200);
        assert!((4_000..5_000).contains(&first.len()), "{} have room", first.len());
    }

    #[test]
    fn part_counts_as_used_for_a_while() {
        let names = names(30_000, 1);
        let mut room = ReportRoom::default();
        let last = names.len() - 1;
        let has = |room: &mut ReportRoom, is_used: bool, seconds: u32| {
            chosen(room, &names, |at| is_used && at == last, SECOND * seconds).contains(&last)
        };
        assert!(!has(&mut room, false, 1));
        assert!(has(&mut room, true, 2));
        assert!(has(&mut room, false, 16));
        assert!(!has(&mut room, false, 17));
        assert!(room.used.is_empty());
    }
}
