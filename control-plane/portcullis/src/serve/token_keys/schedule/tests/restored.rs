//! Keys of an earlier run of the control plane.

use super::*;

/// A key set with one key that can be used.
fn key_set(id: &str) -> String {
    json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": id, "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})
    .to_string()
}

/// A schedule of the next run, with the keys that this one has saved.
fn restarted(schedule: &KeySchedule, clock: (SystemTime, Instant)) -> KeySchedule {
    let mut next = KeySchedule::new(AGAIN);
    let saved = schedule.saved(Instant::now());
    next.restore(saved.iter().map(|one| SavedKeys::clone(one)).collect(), clock);
    next
}

/// Both kinds of sources of one object.
fn all_wanted(of: &Value, upstream: AskedUpstream) -> Vec<Wanted> {
    let servers = Wanted { upstream: Some(upstream), ..wanted("one", 1) };
    asked_issuer(of).chain([servers]).collect()
}

#[test]
fn keys_outlive_a_restart_and_end_when_they_would_have() {
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
    let (of, issuer) = (document("one"), KeySource::Issuer(ISSUER.to_owned()));
    let upstream = |server: &str| AskedUpstream::new("place", &[server, "10.0.0.9"]);
    schedule.follow(all_wanted(&of, upstream("10.0.0.1")).into_iter(), start);
    assert_eq!((schedule.edition(), schedule.saved(start).len()), (0, 0));
    for question in schedule.take_due(start) {
        let edition = schedule.edition();
        schedule.answered(&question, Ok(key_set("one")), clock(start, start));
        assert_ne!(schedule.edition(), edition);
    }
    let edition = schedule.edition();
    let again = start + AGAIN;
    for question in schedule.take_due(again) {
        schedule.answered(&question, Ok(key_set("one")), clock(start, again));
    }
    assert_eq!(schedule.edition(), edition, "the same keys up to the same time are not written again");

    let late = start + Duration::from_secs(3_600);
    let mut next = restarted(&schedule, clock(start, late));
    next.follow(all_wanted(&of, upstream("10.0.0.2")).into_iter(), late);
    next.forget_unwanted();
    assert!(!next.is_settled(), "the sources are asked all the same");
    for source in [&issuer, &KeySource::Servers] {
        let shown = shown_by(&next, &of, source, late);
        assert_eq!(shown, [json!(key_set("one")), json!(END), json!("not asked yet since the control plane started")]);
    }
    let facts = next.facts(late).facts("one", None).remove(0);
    assert_eq!(
        facts.keys.unwrap().read.seconds(),
        Some(BASE + 300),
        "when they were read, and not when they were restored"
    );
    let questions = next.take_due(late);
    assert_eq!(questions.iter().map(|question| question.failures).collect::<Vec<_>>(), [0, 0]);
    next.answered(&questions[0], Err(NoAnswer::Failed("no".to_owned())), clock(start, late));
    next.answered(&questions[1], Ok(key_set("two")), clock(start, late));
    assert!(next.is_settled());
    let end = start + Duration::from_secs(END - BASE);
    let before = end - Duration::from_secs(1);
    assert_eq!(shown(&next, before)[0], json!(key_set("one")));
    assert_eq!(shown_by(&next, &of, &issuer, before)[0], json!(key_set("two")));
    assert_eq!(shown(&next, end)[0], Value::Null);
    assert_eq!(next.saved(start).len(), 2);
    // Whatever the clock says: before they were read, and after their end.
    for seconds in [BASE - 1, END, END + KEPT] {
        let now = UNIX_EPOCH + Duration::from_secs(seconds);
        let mut other = restarted(&schedule, (now, start));
        other.follow(all_wanted(&of, upstream("10.0.0.1")).into_iter(), start);
        assert_eq!((shown(&other, start)[0].clone(), other.saved(start).len()), (Value::Null, 0), "{seconds}");
    }
}

#[test]
fn keys_of_an_earlier_run_are_of_no_other_issuer_or_upstream() {
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
    let (of, now) = (document("one"), clock(start, start));
    let upstream = |place: &str, server: &str| AskedUpstream::new(place, &[server]);
    schedule.follow(all_wanted(&of, upstream("place", "10.0.0.1")).into_iter(), start);
    for question in schedule.take_due(start) {
        schedule.answered(&question, Ok(key_set("one")), now);
    }
    let changes = [
        ("/spec/portcullis/tokens/issuers/1/jwks/url", "https://issuer.example.com/other"),
        ("/spec/portcullis/tokens/issuers/1/jwks/certificateAuthority", "another"),
        ("/metadata/uid", "another"),
        ("/metadata/name", "two"),
    ];
    for (path, value) in changes {
        let mut changed = of.clone();
        let (parent, member) = path.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[member] = json!(value);
        let mut next = restarted(&schedule, now);
        let name = changed["metadata"]["name"].as_str().unwrap().to_owned();
        let wanted: Vec<_> = asked_issuer(&changed).map(|one| Wanted { name: name.clone(), ..one }).collect();
        next.follow(wanted.into_iter(), start);
        let edition = next.edition();
        next.forget_unwanted();
        let issuer = KeySource::Issuer(ISSUER.to_owned());
        assert_eq!(shown_by(&next, &changed, &issuer, start)[0], Value::Null, "{path}");
        assert_eq!(next.saved(start).len(), 0, "{path}");
        assert!(next.edition() > 0 || edition > 0, "the file loses them, too: {path}");
        // They do not come back with the old edition of the object.
        next.follow(asked_issuer(&of), start);
        assert_eq!(shown_by(&next, &of, &issuer, start)[0], Value::Null, "{path}");
    }
    for other in [upstream("other", "10.0.0.1"), upstream("place", "10.0.0.2")] {
        let mut next = restarted(&schedule, now);
        next.follow(all_wanted(&of, other.clone()).into_iter(), start);
        assert_eq!(shown(&next, start)[0], Value::Null, "{other:?}");
    }
    // An object that is not accepted says nothing of its servers: they are compared when it is.
    let mut next = restarted(&schedule, now);
    next.follow([Wanted { upstream: None, ..wanted("one", 2) }].into_iter(), start);
    next.forget_unwanted();
    assert_eq!((shown(&next, start)[0].clone(), next.saved(start).len()), (Value::Null, 1));
    let accepted = Wanted { upstream: Some(upstream("place", "10.0.0.1")), ..wanted("one", 3) };
    next.follow([accepted].into_iter(), start);
    assert_eq!(shown(&next, start)[0], json!(key_set("one")));
}

/// A control plane that starts may see a source that is not there yet.
#[test]
fn keys_of_an_earlier_run_wait_for_their_objects() {
    let (mut schedule, start) = (KeySchedule::new(AGAIN), Instant::now());
    let (of, now) = (document("one"), clock(start, start));
    schedule.follow(asked_issuer(&of), start);
    let asked = question(&mut schedule, start);
    schedule.answered(&asked, Ok(key_set("one")), now);
    let mut next = restarted(&schedule, now);
    next.follow(std::iter::empty(), start);
    assert_eq!((next.saved(start).len(), next.edition()), (1, 0));
    next.follow(asked_issuer(&of), start);
    assert_eq!(shown_by(&next, &of, &KeySource::Issuer(ISSUER.to_owned()), start)[0], json!(key_set("one")));
    let edition = next.edition();
    next.follow(std::iter::empty(), start);
    assert!(next.edition() > edition && next.saved(start).is_empty(), "the object is gone");
}
