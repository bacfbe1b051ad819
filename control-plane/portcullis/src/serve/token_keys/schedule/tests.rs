use std::time::UNIX_EPOCH;

use portcullis_api::shown_keys_of;
use portcullis_sources::ObjectSet;
use serde_json::json;

use super::super::held::{KEPT, STEP};
use super::super::keyed_documents::KeyedDocuments;
use super::*;

mod restored;

fn document(name: &str) -> Value {
    // No object can bring keys.
    let keys = json!({"keys": "forged", "validUntil": 1, "error": "forged"});
    let forged = json!({"shownKeys": {"servers": keys, "issuers": {ISSUER: keys, "a": keys}}});
    let issuers = json!([{"url": "a", "jwks": {"fromServers": true}}, {"url": ISSUER, "jwks": {"url": KEYS}}]);
    json!({"metadata": {"name": name}, "spec": {"portcullis": {"tokens": {"issuers": issuers}}}, "status": forged})
}

const AGAIN: Duration = Duration::from_secs(300);
const ISSUER: &str = "https://issuer.example.com";
const KEYS: &str = "https://issuer.example.com/keys";

/// Ten seconds after a step of the keys' end.
const BASE: u64 = 60 * STEP + 10;
const END: u64 = 64 * STEP;

fn clock(start: Instant, now: Instant) -> (SystemTime, Instant) {
    (UNIX_EPOCH + Duration::from_secs(BASE) + (now - start), now)
}

fn wanted(name: &str, asked: u64) -> Wanted {
    let upstream = Some(AskedUpstream::new(&asked.to_string(), &["10.0.0.1"]));
    let (name, source, document) = (name.to_owned(), KeySource::Servers, Arc::default());
    Wanted { name, uid: String::new(), document, source, asked: json!(asked), upstream, has_written: false }
}

/// The keys, their end, and the error.
fn shown(schedule: &KeySchedule, now: Instant) -> [Value; 3] {
    shown_by(schedule, &document("one"), &KeySource::Servers, now)
}

fn shown_by(schedule: &KeySchedule, document: &Value, source: &KeySource, now: Instant) -> [Value; 3] {
    let set = ObjectSet { clusters: vec![Arc::new(document.clone())], ..ObjectSet::default() };
    let set = KeyedDocuments::default().put(&Arc::new(set), |document| schedule.found(document, now));
    let ShownKeys { keys, error } = shown_keys_of(set.clusters[0].get("status"), source);
    let (keys, until) = keys.unzip();
    [json!(keys), json!(until), json!(error)]
}

/// The question to a cluster's servers that is due.
fn question(schedule: &mut KeySchedule, now: Instant) -> KeyQuestion {
    let mut due = schedule.take_due(now);
    assert_eq!(due.len(), 1);
    due.remove(0)
}

#[test]
fn last_answer_of_servers_holds_for_a_day() {
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
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
    schedule.answered(&second, Err(NoAnswer::Failed("no".to_owned())), clock(start, at(302)));
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
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
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
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
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
    schedule.answered(&again, Err(NoAnswer::Failed("no".to_owned())), clock(start, start));
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
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
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
    schedule.answered(&former, Err(NoAnswer::Failed("former".to_owned())), clock(start, start));
    assert_eq!(shown(&schedule, start), [json!("present"), json!(END), Value::Null]);
}

#[test]
fn cluster_is_asked_once_at_a_time_however_long_that_takes() {
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
    schedule.follow([wanted("one", 1)].into_iter(), start);
    let first = question(&mut schedule, start);
    let late = start + Duration::from_secs(3600);
    assert_eq!((schedule.take_due(late), schedule.next(late)), (vec![], None));
    schedule.answered(&first, Err(NoAnswer::Failed("no".to_owned())), clock(start, late));
    // A time that is over is not forgotten.
    assert_eq!(schedule.next(late + AGAIN), Some(late + RETRY));
    assert_eq!(question(&mut schedule, late + AGAIN).failures, 1);
}

/// The issuer of an object, as the object asks for it.
fn asked_issuer(document: &Value) -> impl Iterator<Item = Wanted> {
    asked_at_urls(document).into_iter().map(|UrlSource { issuer, asked, has_written }| Wanted {
        source: KeySource::Issuer(issuer),
        asked,
        upstream: None,
        has_written,
        ..wanted("one", 1)
    })
}

#[test]
fn keys_of_an_issuer_are_of_no_other_url_ca_or_object() {
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
    let (of, issuer) = (document("one"), KeySource::Issuer(ISSUER.to_owned()));
    schedule.follow(asked_issuer(&of), start);
    assert_eq!(shown_by(&schedule, &of, &issuer, start)[0], Value::Null);
    let asked = question(&mut schedule, start);
    schedule.answered(&asked, Ok("keys".to_owned()), clock(start, start));
    assert_eq!(shown_by(&schedule, &of, &issuer, start), [json!("keys"), json!(END), Value::Null]);
    assert_eq!(shown(&schedule, start)[0], Value::Null, "nor of the servers");

    let changes = [
        ("/spec/portcullis/tokens/issuers/1/url", "https://other.example.com"),
        ("/spec/portcullis/tokens/issuers/1/jwks/url", "https://issuer.example.com/other"),
        ("/spec/portcullis/tokens/issuers/1/jwks/certificateAuthority", "another"),
        ("/metadata/uid", "another"),
    ];
    for (path, value) in changes {
        let mut changed = of.clone();
        let (parent, member) = path.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[member] = json!(value);
        // Before the schedule follows the document, and after it.
        let source = KeySource::Issuer(asked_at_urls(&changed)[0].issuer.clone());
        assert_eq!(shown_by(&schedule, &changed, &source, start)[0], Value::Null, "{path}");
        schedule.follow(asked_issuer(&changed), start);
        assert_eq!(shown_by(&schedule, &changed, &source, start)[0], Value::Null, "{path}");
        assert_eq!(shown_by(&schedule, &of, &issuer, start)[0], Value::Null, "{path}");
        let anew = question(&mut schedule, start);
        schedule.answered(&anew, Ok("other".to_owned()), clock(start, start));
        schedule.follow(asked_issuer(&of), start);
        let again = question(&mut schedule, start);
        schedule.answered(&again, Ok("keys".to_owned()), clock(start, start));
    }
}

#[test]
fn issuer_without_an_answer_keeps_its_keys_and_is_asked_less() {
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
    let (of, issuer) = (document("one"), KeySource::Issuer(ISSUER.to_owned()));
    schedule.follow(asked_issuer(&of), start);
    let first = question(&mut schedule, start);
    schedule.answered(&first, Ok("keys".to_owned()), clock(start, start));
    let mut now = start + AGAIN;
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let failed = question(&mut schedule, now);
        schedule.answered(&failed, Err(NoAnswer::Failed("no".to_owned())), clock(start, now));
        assert_eq!(shown_by(&schedule, &of, &issuer, now), [json!("keys"), json!(END), json!("no")]);
        // The end of the keys is a time as well, much later.
        let due = schedule.next(now).unwrap();
        pauses.push((due - now).as_secs());
        now = due;
    }
    assert_eq!(pauses, [15, 30, 60, 120, 240, 300, 300]);
    let facts = schedule.facts(now).facts("one", None);
    let (since, why) = facts[0].failed.clone().unwrap();
    assert_eq!((since.seconds(), why.text()), (Some(BASE + AGAIN.as_secs()), "no"), "since the first failure");
    assert_eq!(facts[0].keys.as_ref().unwrap().read.seconds(), Some(BASE));
    let end = start + Duration::from_secs(END - BASE);
    assert_eq!(shown_by(&schedule, &of, &issuer, end)[0], Value::Null);
    assert_eq!(schedule.facts(end).facts("one", None)[0].keys, None);
}

/// Written keys hold while others are not known, and the object's status says so, also after an edit that asks nothing anew.
#[test]
fn facts_say_whether_an_object_has_keys_itself() {
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
    let has_written = |schedule: &KeySchedule| schedule.facts(start).facts("one", None)[0].has_written;
    let mut of = document("one");
    schedule.follow(asked_issuer(&of), start);
    assert!(!has_written(&schedule));
    let key = json!({"kty": "EC", "crv": "P-256", "kid": "a", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"});
    for (keys, expected) in [(json!([key]), true), (json!([]), false)] {
        of["spec"]["portcullis"]["tokens"]["issuers"][1]["jwks"]["inline"] = json!({"keys": keys}).to_string().into();
        schedule.follow(asked_issuer(&of), start);
        assert_eq!(has_written(&schedule), expected, "{keys}");
    }
}

/// Nothing is known of a source that was not asked.
#[test]
fn issuer_of_a_refused_object_is_asked_after_a_change() {
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
    let of = document("one");
    schedule.follow(asked_issuer(&of), start);
    let first = question(&mut schedule, start);
    schedule.answered(&first, Err(NoAnswer::Refused), clock(start, start));
    assert_eq!(schedule.take_due(start), vec![]);
    assert!(schedule.is_settled(), "no configuration waits for it");
    let facts = |schedule: &KeySchedule| schedule.facts(start).facts("one", None).remove(0);
    let why = |schedule: &KeySchedule| facts(schedule).failed.map(|(_, why)| why);
    assert_eq!(why(&schedule), Some(NoAnswer::Refused));
    let changed = Arc::new(of.clone());
    let follow = |schedule: &mut KeySchedule| {
        let wanted = asked_issuer(&of).map(|one| Wanted { document: Arc::clone(&changed), ..one });
        schedule.follow(wanted, start);
    };
    follow(&mut schedule);
    let second = question(&mut schedule, start);
    assert_eq!(second.failures, 0, "it keeps its place among those that answer");
    schedule.answered(&second, Err(NoAnswer::Refused), clock(start, start));
    follow(&mut schedule);
    assert_eq!(schedule.take_due(start), vec![], "only another object has changed");
    schedule.judge_anew(start);
    let third = question(&mut schedule, start);
    let later = start + Duration::from_secs(5);
    schedule.answered(&third, Err(NoAnswer::Failed("no".to_owned())), clock(start, later));
    let failed = facts(&schedule);
    let (since, why) = failed.failed.unwrap();
    assert_eq!((since.seconds(), why), (Some(BASE + 5), NoAnswer::Failed("no".to_owned())), "since it was asked");
    // A refused edit in between takes nothing off the time for which the issuer has been away.
    schedule.judge_anew(later);
    for (answer, after) in [(NoAnswer::Refused, 6), (NoAnswer::Failed("no".to_owned()), 7)] {
        let now = start + Duration::from_secs(after);
        let due = schedule.next(later).map_or(now, |due| due.max(now));
        let again = question(&mut schedule, due);
        schedule.answered(&again, Err(answer), clock(start, now));
        schedule.judge_anew(now);
    }
    assert_eq!(facts(&schedule).failed.unwrap().0.seconds(), Some(BASE + 5));
}
