//! The reports of one filter configuration to its control planes: which are due, under way, or failed. Calls nothing: the time and
//! the ids of callouts are arguments.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_filter_config::ActivityReports;
use portcullis_filter_config::activity::Activity;

pub use crate::failure::CalloutAnswer;
use crate::failure::Failure;
use crate::{ActivityPage, request_body};

/// Time for a report: a control plane reads one part a second.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which a report that was not taken is followed by another one.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Most bytes of the clusters of a report; the last ones by name are left out.
const MAX_BYTES: usize = 8 << 20;

/// The uptime of the next report to each Envoy cluster, for all configurations of a process: each listener has one, and all report
/// the same process.
#[derive(Debug, Default)]
pub struct Turns(Mutex<BTreeMap<String, Duration>>);

/// The reports of one filter configuration. `Id` is that of a callout.
#[derive(Debug)]
pub struct Reporter<Id> {
    node: String,
    interval: Duration,
    clusters: Vec<String>,
    state: Mutex<State<Id>>,
}

#[derive(Debug)]
struct State<Id> {
    unsent: Option<Report>,
    /// The report whose callout is being started: Envoy may answer within the call.
    starting: Option<Sent>,
    sent: BTreeMap<Id, Sent>,
    /// The failure that was named last, by Envoy cluster.
    failures: BTreeMap<String, Failure>,
}

impl<Id> Default for State<Id> {
    fn default() -> Self {
        State { unsent: None, starting: None, sent: BTreeMap::new(), failures: BTreeMap::new() }
    }
}

#[derive(Debug)]
struct Report {
    body: Vec<u8>,
    parts: usize,
    left_out: usize,
    /// The Envoy clusters whose turn it is.
    clusters: Vec<String>,
}

/// A report under way.
#[derive(Clone, Debug)]
struct Sent {
    cluster: String,
    parts: usize,
    left_out: usize,
    at: Duration,
}

/// A report that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The uptime of the next one.
    pub next: Duration,
    /// A line for the log, if it failed, and not as the one before did.
    pub failure: Option<String>,
}

impl Turns {
    /// Every cluster's turn.
    pub const fn new() -> Self {
        Turns(Mutex::new(BTreeMap::new()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of the clusters whose turn it is, which no other configuration reports to meanwhile.
    fn claim(&self, clusters: &[String], now: Duration) -> Vec<String> {
        let mut next = self.lock();
        let is_due = |cluster: &&String| next.get(*cluster).is_none_or(|at| *at <= now);
        let due: Vec<String> = clusters.iter().filter(is_due).cloned().collect();
        next.retain(|_, at| *at > now);
        next.extend(due.iter().map(|cluster| (cluster.clone(), now.saturating_add(TIMEOUT))));
        due
    }

    fn set(&self, cluster: String, at: Duration) {
        self.lock().insert(cluster, at);
    }
}

impl<Id: Ord> Reporter<Id> {
    /// Reports of this node; nothing is due yet.
    pub fn new(config: &ActivityReports, node: String) -> Self {
        let interval = Duration::from_secs(config.interval_seconds.into());
        Reporter { node, interval, clusters: config.clusters.clone(), state: Mutex::default() }
    }

    /// Time between two reports.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    fn state(&self) -> MutexGuard<'_, State<Id>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a report if one is due. True if there is one to send.
    pub fn write(&self, turns: &Turns, now: Duration, activity: impl FnOnce() -> Activity) -> bool {
        let clusters = turns.claim(&self.clusters, now);
        if clusters.is_empty() {
            return false;
        }
        let (parts, left_out) = ActivityPage::default().succeeded_by(&activity()).parts_within(None, MAX_BYTES);
        let body = request_body(&self.node, &parts);
        self.state().unsent = Some(Report { body, parts: parts.len(), left_out, clusters });
        true
    }

    /// Sends the report that is written, if there is one: `callout` gets an Envoy cluster and the body, and gives the callout's id, or
    /// `None` where none was made. Returns those that have failed at once.
    pub fn send(&self, turns: &Turns, now: Duration, mut callout: impl FnMut(&str, &[u8]) -> Option<Id>) -> Vec<Ended> {
        let Some(Report { body, parts, left_out, clusters }) = self.state().unsent.take() else { return Vec::new() };
        let send = |cluster| {
            let sent = Sent { cluster, parts, left_out, at: now };
            self.state().starting = Some(sent.clone());
            let id = callout(&sent.cluster, &body);
            let mut state = self.state();
            // Otherwise the response has come already.
            let sent = state.starting.take()?;
            if let Some(id) = id {
                state.sent.insert(id, sent);
                return None;
            }
            drop(state);
            Some(self.end(turns, &sent, Some(Failure::Cluster), now))
        };
        clusters.into_iter().filter_map(send).collect()
    }

    /// Takes the response to a callout. `None` if the callout is none of these.
    pub fn answered(&self, turns: &Turns, id: &Id, answer: CalloutAnswer, now: Duration) -> Option<Ended> {
        let mut state = self.state();
        let sent = state.sent.remove(id).or_else(|| state.starting.take())?;
        drop(state);
        Some(self.end(turns, &sent, Failure::of(answer, sent.parts), now))
    }

    /// Gives up what is under way, because its responses do not come any more: another configuration may report at once.
    pub fn give_up(&self, turns: &Turns) {
        let state = std::mem::take(&mut *self.state());
        let unsent = state.unsent.into_iter().flat_map(|report| report.clusters);
        let sent = state.sent.into_values().chain(state.starting).map(|sent| sent.cluster);
        unsent.chain(sent).for_each(|cluster| turns.set(cluster, Duration::ZERO));
    }

    fn end(&self, turns: &Turns, sent: &Sent, failure: Option<Failure>, now: Duration) -> Ended {
        let failure = failure.or_else(|| (sent.left_out > 0).then_some(Failure::Size(sent.left_out)));
        let next = match failure {
            None | Some(Failure::Size(_)) => sent.at.saturating_add(self.interval).max(now),
            Some(Failure::Refused) => now.saturating_add(self.interval),
            Some(_) => now.saturating_add(RETRY_AFTER),
        };
        turns.set(sent.cluster.clone(), next);
        Ended { next, failure: self.news(&sent.cluster, failure) }
    }

    /// The line about a failure, once and not at every report.
    fn news(&self, cluster: &str, failure: Option<Failure>) -> Option<String> {
        let mut state = self.state();
        let Some(failure) = failure else {
            state.failures.remove(cluster);
            return None;
        };
        let before = state.failures.insert(cluster.to_owned(), failure.clone());
        (!before.is_some_and(|before| before.is_like(&failure)))
            .then(|| format!("the activity is not reported whole to {cluster:?}: {}", failure.reason(&self.node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ACKNOWLEDGEMENT_BYTES;

    const TAKEN: CalloutAnswer = CalloutAnswer { status: 200, grpc_status: None, bytes: ACKNOWLEDGEMENT_BYTES };

    fn reporter(clusters: &[&str]) -> Reporter<u32> {
        let clusters = clusters.iter().map(|name| (*name).to_owned()).collect();
        Reporter::new(&ActivityReports { clusters, node: "a".to_owned(), interval_seconds: 10 }, "a".to_owned())
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    /// A report at that uptime whose callout has the id 1.
    fn sent(reporter: &Reporter<u32>, turns: &Turns, now: Duration) -> bool {
        let is_written = reporter.write(turns, now, Activity::default);
        assert!(reporter.send(turns, now, |_, _| Some(1)).is_empty());
        is_written
    }

    #[test]
    fn configurations_of_a_process_take_turns() {
        let (turns, one, other) = (Turns::new(), reporter(&["plane"]), reporter(&["plane"]));
        assert!(sent(&one, &turns, seconds(0)));
        assert!(!sent(&other, &turns, seconds(5)), "one report is under way");
        assert_eq!(one.answered(&turns, &1, TAKEN, seconds(6)), Some(Ended { next: seconds(10), failure: None }));
        assert!(!sent(&other, &turns, seconds(9)));
        assert!(sent(&other, &turns, seconds(10)));
        other.give_up(&turns);
        assert!(sent(&one, &turns, seconds(11)), "the other one is gone with its callout");
        assert!(one.answered(&turns, &2, TAKEN, seconds(12)).is_none(), "a callout for a review");
        one.give_up(&turns);
        assert!(other.write(&turns, seconds(13), Activity::default));
        other.give_up(&turns);
        assert!(sent(&one, &turns, seconds(14)), "the other one went before it sent its report");
    }

    #[test]
    fn failure_is_named_once_and_followed_by_another_try() {
        let (turns, reporter) = (Turns::new(), reporter(&["plane"]));
        let refused = CalloutAnswer { bytes: 0, ..TAKEN };
        for (answer, now, next, is_named) in [
            (CalloutAnswer { status: 503, ..TAKEN }, 0, 2, true),
            (CalloutAnswer { status: 503, ..TAKEN }, 2, 4, false),
            (CalloutAnswer { grpc_status: Some(7), ..TAKEN }, 4, 6, true),
            (refused, 6, 16, true),
            (TAKEN, 16, 26, false),
            (refused, 26, 36, true),
        ] {
            assert!(sent(&reporter, &turns, seconds(now)), "{now}");
            let ended = reporter.answered(&turns, &1, answer, seconds(now)).unwrap();
            assert_eq!((ended.next, ended.failure.is_some()), (seconds(next), is_named), "{now}: {:?}", ended.failure);
        }
    }

    /// More clusters than a report has room for: those that fit are sent, and the log has a line about the others once.
    #[test]
    fn report_that_is_too_long_is_sent_as_far_as_it_fits() {
        use portcullis_filter_config::activity::ClusterActivity;
        let (turns, reporter) = (Turns::new(), reporter(&["plane"]));
        let one = |number: usize| ClusterActivity {
            cluster: format!("{number:06}{}", "x".repeat(240)),
            object: "o".repeat(240),
            running: 1,
            ..ClusterActivity::default()
        };
        // Names alone are 10 MB.
        let all = Activity { clusters: (0..20_000).map(one).collect(), ..Activity::default() };
        for (now, is_told) in [(0, true), (10, false)] {
            let mut length = 0;
            assert!(reporter.write(&turns, seconds(now), || all.clone()));
            let callout = |_: &str, body: &[u8]| {
                length = body.len();
                Some(1)
            };
            assert!(reporter.send(&turns, seconds(now), callout).is_empty());
            assert!((7 << 20..9 << 20).contains(&length), "{length}");
            let parts = reporter.state().sent.values().map(|sent| sent.parts).sum::<usize>();
            let answer = CalloutAnswer { bytes: parts * ACKNOWLEDGEMENT_BYTES, ..TAKEN };
            let ended = reporter.answered(&turns, &1, answer, seconds(now)).unwrap();
            assert_eq!((ended.next, ended.failure.is_some()), (seconds(now + 10), is_told), "{:?}", ended.failure);
            assert!(!is_told || ended.failure.unwrap().contains("clusters, the last ones by name"));
        }
    }

    /// A configuration that goes while its report is written gives the turn back, before and after.
    #[test]
    fn configuration_may_go_while_its_report_is_written() {
        let (turns, one, other) = (Turns::new(), reporter(&["plane"]), reporter(&["plane"]));
        let gone = || {
            one.give_up(&turns);
            Activity::default()
        };
        assert!(one.write(&turns, seconds(0), gone));
        one.give_up(&turns);
        assert!(sent(&other, &turns, seconds(1)));
    }

    #[test]
    fn callout_that_is_not_made_or_answered_at_once_ends() {
        let (turns, reporter) = (Turns::new(), reporter(&["plane"]));
        assert!(reporter.write(&turns, seconds(0), Activity::default));
        let ended = reporter.send(&turns, seconds(0), |_, _| None);
        assert_eq!(ended.iter().map(|one| one.next).collect::<Vec<_>>(), [seconds(2)]);
        assert!(reporter.write(&turns, seconds(2), Activity::default));
        let at_once = |_: &str, body: &[u8]| {
            assert!(!body.is_empty());
            assert!(reporter.answered(&turns, &9, TAKEN, seconds(2)).is_some(), "within the call");
            Some(9)
        };
        assert!(reporter.send(&turns, seconds(2), at_once).is_empty());
        assert!(reporter.answered(&turns, &9, TAKEN, seconds(3)).is_none(), "it has ended");
    }
}
