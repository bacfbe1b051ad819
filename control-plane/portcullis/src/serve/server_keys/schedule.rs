use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portcullis_api::{ServerKeys, put_server_keys};
use portcullis_sources::ObjectSet;
use serde_json::Value;

use super::super::discovery::AskedUpstream;

/// Time between two questions to a cluster's servers: a kube-apiserver signs with a new key only after it has shown it for long.
const AGAIN: Duration = Duration::from_secs(300);
/// The same after a failure.
const RETRY: Duration = Duration::from_secs(15);
/// Seconds for which the last answer holds at most, and the step in which its end moves: each is another configuration.
const KEPT: u64 = 24 * 3600;
const STEP: u64 = 6 * 3600;

const ISSUERS: &str = "/spec/portcullis/tokens/issuers";

/// A cluster that wants the keys of its servers.
pub(super) struct Wanted {
    pub(super) name: String,
    /// All parts of the object that a question depends on.
    pub(super) asked: Value,
    /// The upstream; `None` if it is not known, or the parts are those of the last time.
    pub(super) upstream: Option<AskedUpstream>,
}

/// A question to a cluster's servers. No two have the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyQuestion {
    pub(super) cluster: String,
    number: u64,
    /// Questions without an answer before this one.
    pub(super) failures: usize,
}

/// The keys of each cluster as far as they are known, and the time of the next question to its servers.
#[derive(Default)]
pub(super) struct KeySchedule {
    clusters: BTreeMap<String, KnownKeys>,
    questions: u64,
}

struct KnownKeys {
    asked: Value,
    upstream: Option<AskedUpstream>,
    keys: Option<HeldKeys>,
    /// Why the last question had no answer.
    error: Option<String>,
    /// Questions without an answer since the last one that had one.
    failures: usize,
    /// The number of the question that is under way.
    question: Option<u64>,
    /// `None` while a question is under way.
    due: Option<Instant>,
}

/// Keys, and the time up to which they hold.
struct HeldKeys {
    keys: String,
    /// The upstream that has shown them.
    upstream: Option<AskedUpstream>,
    end: Instant,
    /// The same for the filter, in seconds since 1970.
    valid_until: u64,
}

impl HeldKeys {
    fn new(keys: String, upstream: Option<AskedUpstream>, (time, now): (SystemTime, Instant)) -> Self {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let end = seconds.saturating_add(KEPT);
        let valid_until = end.saturating_sub(end.checked_rem(STEP).unwrap_or(0));
        let left = Duration::from_secs(valid_until.saturating_sub(seconds));
        HeldKeys { keys, upstream, end: now.checked_add(left).unwrap_or(now), valid_until }
    }
}

impl KeySchedule {
    /// Takes over the clusters that want keys. The keys of others are forgotten, and questions to others are not open any more.
    pub(super) fn follow(&mut self, wanted: impl Iterator<Item = Wanted>, now: Instant) {
        let mut names = BTreeSet::new();
        for Wanted { name, asked, upstream } in wanted {
            names.insert(name.clone());
            match self.clusters.get_mut(&name) {
                Some(known) if known.asked == asked => known.upstream = upstream.or(known.upstream.take()),
                // It is not accepted, and asks nothing as it is: a half of a renewal is no other upstream.
                Some(known) if upstream.is_none() && known.keys.is_some() => {}
                // A renewed credential, or a server more or less: the keys are those of the same upstream.
                Some(known) if known.has_keys_of(upstream.as_ref()) => {
                    (known.asked, known.upstream, known.question, known.due) = (asked, upstream, None, Some(now));
                }
                Some(_) | None => drop(self.clusters.insert(name, KnownKeys::new(asked, upstream, now))),
            }
        }
        self.clusters.retain(|name, _| names.contains(name));
    }

    /// Whether these are the parts of this cluster that its questions depend on, and their upstream is known.
    pub(super) fn asks(&self, name: &str, asked: &Value) -> bool {
        self.clusters.get(name).is_some_and(|known| known.asked == *asked && known.upstream.is_some())
    }

    /// Questions that are to be asked now, at most one for each cluster until it is answered.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<KeyQuestion> {
        let mut questions = Vec::new();
        for (name, known) in &mut self.clusters {
            if known.due.is_some_and(|due| due <= now) {
                self.questions = self.questions.wrapping_add(1);
                (known.due, known.question) = (None, Some(self.questions));
                let number = self.questions;
                questions.push(KeyQuestion { cluster: name.clone(), number, failures: known.failures });
            }
        }
        questions
    }

    /// The next time after `now` at which something is to be done, if all that was due by then is.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let ends = |known: &KnownKeys| {
            let end = known.keys.as_ref().map(|held| held.end);
            end.filter(|end| *end > now)
        };
        self.clusters.values().flat_map(|known| [known.due, ends(known)]).flatten().min()
    }

    /// Whether an answer to a question is still wanted: its cluster has the same servers, CA, credential and UID.
    pub(super) fn is_open(&self, question: &KeyQuestion) -> bool {
        self.clusters.get(&question.cluster).is_some_and(|known| known.question == Some(question.number))
    }

    /// Whether each cluster's servers have been asked, and were answered or not.
    pub(super) fn is_settled(&self) -> bool {
        self.clusters.values().all(|known| known.keys.is_some() || known.error.is_some())
    }

    /// Takes an answer, if its question is open: former servers' keys are never taken for those of the present ones.
    pub(super) fn answered(
        &mut self,
        question: &KeyQuestion,
        keys: Result<String, String>,
        clock: (SystemTime, Instant),
    ) {
        if !self.is_open(question) {
            return;
        }
        let Some(known) = self.clusters.get_mut(&question.cluster) else { return };
        let again = match keys {
            Ok(keys) => {
                let held = HeldKeys::new(keys, known.upstream.clone(), clock);
                (known.keys, known.error, known.failures) = (Some(held), None, 0);
                AGAIN
            }
            Err(error) => {
                (known.error, known.failures) = (Some(error), known.failures.saturating_add(1));
                RETRY
            }
        };
        (known.question, known.due) = (None, clock.1.checked_add(again));
    }

    /// The set with the keys that are known. None is of an object.
    pub(super) fn put_into(&self, set: &Arc<ObjectSet>, now: Instant) -> Arc<ObjectSet> {
        if !set.clusters.iter().any(|document| asks_servers(document)) {
            return Arc::clone(set);
        }
        let mut changed = ObjectSet::clone(set);
        for document in changed.clusters.iter_mut().filter(|document| asks_servers(document)) {
            let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let found = self.clusters.get(name).map(|known| known.found(now)).unwrap_or_default();
            put_server_keys(Arc::make_mut(document), &found);
        }
        Arc::new(changed)
    }
}

impl KnownKeys {
    fn new(asked: Value, upstream: Option<AskedUpstream>, now: Instant) -> Self {
        Self { asked, upstream, keys: None, error: None, failures: 0, question: None, due: Some(now) }
    }

    /// Whether the upstream is that which has shown the keys, whatever was written in between.
    fn has_keys_of(&self, upstream: Option<&AskedUpstream>) -> bool {
        let shown_by = self.keys.as_ref().and_then(|held| held.upstream.as_ref());
        shown_by.zip(upstream).is_some_and(|(before, now)| before.is_same(now))
    }

    fn found(&self, now: Instant) -> ServerKeys {
        let held = self.keys.as_ref().filter(|held| now < held.end);
        ServerKeys { keys: held.map(|held| (held.keys.clone(), held.valid_until)), error: self.error.clone() }
    }
}

/// Whether an object has an issuer whose keys its servers have.
pub(super) fn asks_servers(document: &Value) -> bool {
    let issuers = document.pointer(ISSUERS).and_then(Value::as_array).into_iter().flatten();
    issuers.filter_map(|issuer| issuer.get("jwks")).any(is_from_servers)
}

fn is_from_servers(jwks: &Value) -> bool {
    jwks.get("fromServers") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(name: &str) -> Value {
        // No object may bring keys.
        let forged = json!({"serverKeys": {"keys": "forged", "validUntil": 1, "error": "forged"}});
        let issuers = json!([{"url": "a", "jwks": {"fromServers": true}}]);
        json!({"metadata": {"name": name}, "spec": {"portcullis": {"tokens": {"issuers": issuers}}}, "status": forged})
    }

    /// Ten seconds after a step of the keys' end.
    const BASE: u64 = 60 * STEP + 10;
    const END: u64 = 64 * STEP;

    fn clock(start: Instant, now: Instant) -> (SystemTime, Instant) {
        (UNIX_EPOCH + Duration::from_secs(BASE) + (now - start), now)
    }

    fn wanted(name: &str, asked: u64) -> Wanted {
        let upstream = Some(AskedUpstream::new(&asked.to_string(), &["10.0.0.1"]));
        Wanted { name: name.to_owned(), asked: json!(asked), upstream }
    }

    /// The keys, their end, and the error.
    fn shown(schedule: &KeySchedule, now: Instant) -> [Value; 3] {
        let set = ObjectSet { clusters: vec![Arc::new(document("one"))], ..ObjectSet::default() };
        let set = schedule.put_into(&Arc::new(set), now);
        let at = |path: &str| set.clusters[0].pointer(path).cloned().unwrap_or_default();
        let status = |member: &str| at(&format!("/status/serverKeys/{member}"));
        [status("keys"), status("validUntil"), status("error")]
    }

    /// The question to a cluster's servers that is due.
    fn question(schedule: &mut KeySchedule, now: Instant) -> KeyQuestion {
        let mut due = schedule.take_due(now);
        assert_eq!(due.len(), 1);
        due.remove(0)
    }

    #[test]
    fn last_answer_of_servers_holds_for_a_day() {
        let (mut schedule, start) = (KeySchedule::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(asks_servers(&document("one")));
        schedule.follow([wanted("one", 1)].into_iter(), start);
        assert_eq!(shown(&schedule, start), [Value::Null, Value::Null, Value::Null]);
        let first = question(&mut schedule, start);
        assert_eq!((first.cluster.as_str(), schedule.is_settled()), ("one", false));
        schedule.answered(&first, Ok("keys".to_owned()), clock(start, at(1)));
        assert_eq!(shown(&schedule, at(1)), [json!("keys"), json!(END), Value::Null]);
        assert_eq!(
            (schedule.next(at(1)), schedule.take_due(at(300)), schedule.is_settled()),
            (Some(at(301)), vec![], true)
        );

        let second = question(&mut schedule, at(301));
        schedule.answered(&second, Err("no".to_owned()), clock(start, at(302)));
        assert_eq!(shown(&schedule, at(302)), [json!("keys"), json!(END), json!("no")]);
        assert_eq!(schedule.next(at(302)), Some(at(317)));
        let end = END - BASE;
        assert_eq!(shown(&schedule, at(end - 1))[0], json!("keys"));
        assert_eq!(shown(&schedule, at(end))[0], Value::Null);
        let third = question(&mut schedule, at(end));
        assert_eq!(third.failures, 1);
        schedule.answered(&third, Ok("other".to_owned()), clock(start, at(end)));
        assert_eq!(shown(&schedule, at(end)), [json!("other"), json!(END + KEPT), Value::Null]);
    }

    #[test]
    fn other_servers_are_asked_anew_and_unwanted_keys_forgotten() {
        let (mut schedule, start) = (KeySchedule::default(), Instant::now());
        schedule.follow([wanted("one", 1), wanted("two", 1)].into_iter(), start);
        let questions = schedule.take_due(start);
        assert_eq!(questions.iter().map(|question| question.cluster.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        schedule.answered(&questions[0], Ok("keys".to_owned()), clock(start, start));
        schedule.follow([wanted("one", 1)].into_iter(), start);
        assert_eq!((schedule.take_due(start), &shown(&schedule, start)[0]), (vec![], &json!("keys")));
        schedule.follow([wanted("one", 2)].into_iter(), start);
        let anew = question(&mut schedule, start);
        assert_eq!(shown(&schedule, start)[0], Value::Null);
        schedule.follow(std::iter::empty(), start);
        schedule.answered(&anew, Ok("late".to_owned()), clock(start, start));
        assert_eq!((schedule.next(start), &shown(&schedule, start)[0]), (None, &Value::Null));
    }

    #[test]
    fn keys_stay_while_the_upstream_is_the_same() {
        let (mut schedule, start) = (KeySchedule::default(), Instant::now());
        let of = |asked: u64, place: &str, servers: &[&str]| {
            let upstream = AskedUpstream::new(place, servers);
            [Wanted { upstream: Some(upstream), ..wanted("one", asked) }].into_iter()
        };
        schedule.follow(of(1, "a", &["10.0.0.1", "10.0.0.2"]), start);
        let first = question(&mut schedule, start);
        schedule.answered(&first, Ok("keys".to_owned()), clock(start, start));
        schedule.follow(of(2, "a", &["10.0.0.2", "10.0.0.3"]), start);
        assert_eq!(shown(&schedule, start)[0], json!("keys"), "one server is the same");
        let again = question(&mut schedule, start);
        assert!(schedule.is_open(&again), "it is asked anew");
        schedule.answered(&again, Err("no".to_owned()), clock(start, start));
        assert_eq!(shown(&schedule, start)[0], json!("keys"), "whatever the present servers say");
        schedule.follow(of(3, "a", &["10.0.0.3"]), start);
        assert_eq!(shown(&schedule, start)[0], Value::Null, "no server is the same as one that has shown them");
        let third = question(&mut schedule, start);
        schedule.answered(&third, Ok("keys".to_owned()), clock(start, start));
        schedule.follow([Wanted { upstream: None, ..wanted("one", 4) }].into_iter(), start);
        assert_eq!(shown(&schedule, start)[0], json!("keys"), "the object is not accepted");
        schedule.follow(of(5, "a", &["10.0.0.4"]), start);
        assert_eq!(shown(&schedule, start)[0], Value::Null, "no server is the same");
        let question = question(&mut schedule, start);
        schedule.answered(&question, Ok("keys".to_owned()), clock(start, start));
        schedule.follow(of(6, "b", &["10.0.0.4"]), start);
        assert_eq!(shown(&schedule, start)[0], Value::Null, "another CA, name, account or object");
    }

    #[test]
    fn late_answer_of_former_servers_is_dropped() {
        let (mut schedule, start) = (KeySchedule::default(), Instant::now());
        schedule.follow([wanted("one", 1)].into_iter(), start);
        let former = question(&mut schedule, start);
        schedule.follow([wanted("one", 2)].into_iter(), start);
        schedule.answered(&former, Ok("former".to_owned()), clock(start, start));
        assert_eq!(shown(&schedule, start)[0], Value::Null, "before the present servers are asked");
        let present = question(&mut schedule, start);
        assert_eq!((schedule.is_open(&former), schedule.is_open(&present)), (false, true));
        schedule.answered(&former, Ok("former".to_owned()), clock(start, start));
        assert_eq!(shown(&schedule, start)[0], Value::Null, "while they are asked");
        schedule.answered(&present, Ok("present".to_owned()), clock(start, start));
        schedule.answered(&former, Err("former".to_owned()), clock(start, start));
        assert_eq!(shown(&schedule, start), [json!("present"), json!(END), Value::Null]);
    }

    #[test]
    fn cluster_is_asked_once_at_a_time_however_long_that_takes() {
        let (mut schedule, start) = (KeySchedule::default(), Instant::now());
        schedule.follow([wanted("one", 1)].into_iter(), start);
        let first = question(&mut schedule, start);
        let late = start + Duration::from_secs(3600);
        assert_eq!((schedule.take_due(late), schedule.next(late)), (vec![], None));
        schedule.answered(&first, Err("no".to_owned()), clock(start, late));
        // A time that is over is not forgotten.
        assert_eq!(schedule.next(late + AGAIN), Some(late + RETRY));
        assert_eq!(question(&mut schedule, late + AGAIN).failures, 1);
    }
}
