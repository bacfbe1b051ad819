//! Denials of routes, which other routes to the same cluster do not have.

use super::*;

#[test]
fn denials_of_a_variant_end_streams_of_its_routes_alone() {
    let streams = Arc::new(StreamRegistry::default());
    let (own, variant) = (edition(1), Arc::new(Edition::new(2, 0, 0).of_variant("team/a")));
    judge(&streams, &denying(&[]), 1);
    let _before = begin_at(&streams, &own, "a.test", "/exec");
    let _other = begin_at(&streams, &own, "b.test", "/exec");
    // The route had no policy until now.
    assert!(judge(&streams, &of_variant("team/a", "a.test", &["/exec"]), 2).is_some());
    assert_eq!(ended(&streams), ["/exec"], "not that of the other route");
    let _kept = [begin_at(&streams, &variant, "10.0.0.1", "/log"), begin_at(&streams, &own, "b.test", "/log")];
    judge(&streams, &of_variant("team/a", "a.test", &["/log"]), 3);
    assert_eq!(ended(&streams), ["/log"]);
    let late = begin_at(&streams, &variant, "a.test", "/log");
    assert_eq!((late.1.is_some(), ended(&streams)), (true, vec!["/log"]), "it began under the edition before");
    let late = ["a.test", "b.test"].map(|host| begin_at(&streams, &own, host, "/log"));
    let are_due = late.each_ref().map(|(_, due)| due.is_some());
    assert_eq!((are_due, ended(&streams)), ([true, false], vec!["/log"]), "they began when the route had no policy");
    // Denials of the cluster itself hold for each route.
    let _kept = begin_at(&streams, &variant, "a.test", "/x");
    judge(&streams, &denying(&["/x"]), 4);
    assert_eq!(ended(&streams), ["/x"]);
    let late = begin_at(&streams, &variant, "a.test", "/x");
    assert_eq!((late.1.is_some(), ended(&streams)), (true, vec!["/x"]));
}

/// Another listener's route has the same name, or the policy is gone: both variants are in use, or the former one was.
#[test]
fn variant_denies_no_request_that_came_later_by_another() {
    let streams = Arc::new(StreamRegistry::default());
    let own = edition(1);
    judge(&streams, &denying(&[]), 1);
    judge(&streams, &of_variant("team/a", "a.test", &["/exec"]), 2);
    let table = [(1, true), (2, true), (3, false)];
    for (received, is_denied) in table {
        let (_kept, due) = begin_of(&streams, &own, ("a.test", "/exec"), received);
        assert_eq!((due.is_some(), ended(&streams).len()), (is_denied, usize::from(is_denied)), "{received}");
    }
    // The same denials in another edition have been in use for as long.
    judge_load(&streams, &of_variant("team/a", "a.test", &["/exec"]), (4, 4), 9);
    let (_kept, due) = begin_of(&streams, &own, ("a.test", "/exec"), 3);
    assert_eq!((due, ended(&streams)), (None, vec![]));
}

/// Each listener loads a variant with host names of its own.
#[test]
fn late_stream_is_judged_for_the_names_of_each_listener() {
    let streams = Arc::new(StreamRegistry::default());
    let own = edition(1);
    judge(&streams, &denying(&[]), 1);
    let load = |listener: &'static str, host: &'static str, is_gone| -> Arc<dyn StreamJudge> {
        // With other names a load has another digest.
        let variant = Paths { variant: "team/a", listener, host, digest: host, ..Paths::new(&["/exec"]) };
        Arc::new(Paths { is_gone, ..variant })
    };
    let are_denied = || {
        ["a.test", "b.test", "c.test"].map(|host| {
            let (_kept, due) = begin_at(&streams, &own, host, "/exec");
            assert_eq!(due.is_some(), ended(&streams).len() == 1);
            due.is_some()
        })
    };
    for (listener, host) in [("x", "a.test"), ("y", "b.test"), ("x", "a.test"), ("y", "b.test")] {
        judge(&streams, &load(listener, host, false), 2);
    }
    assert_eq!(are_denied(), [true, true, false]);
    judge(&streams, &load("x", "c.test", false), 3);
    assert_eq!(are_denied(), [false, true, true], "the other listener has those of before until it has its own");
    judge(&streams, &load("y", "b.test", true), 3);
    judge(&streams, &load("x", "c.test", false), 3);
    assert_eq!(are_denied(), [false, false, true], "one that is gone denies nothing");
}

/// A proxy loads all variants anew at an edit of one.
#[test]
fn denials_are_the_same_only_while_they_are_in_use() {
    let streams = Arc::new(StreamRegistry::default());
    let own = edition(1);
    judge(&streams, &denying(&[]), 1);
    let load = |variant: &'static str, is_gone| -> Arc<dyn StreamJudge> {
        Arc::new(Paths { variant, host: "a.test", is_gone, ..Paths::new(&["/exec"]) })
    };
    let _kept = begin_at(&streams, &own, "a.test", "/exec");
    assert!(judge(&streams, &load("team/a", false), 2).is_some());
    assert_eq!(judge(&streams, &load("team/a", true), 2), None);
    assert_eq!(ended(&streams), ["/exec"]);
    let _kept = begin_at(&streams, &own, "a.test", "/log");
    assert!(judge(&streams, &load("team/a", false), 3).is_some(), "the route had no policy in between");
}

/// Judges that could not judge a stream judge no more of those that came later than at its registration.
#[test]
fn stream_that_came_later_by_another_variant_is_never_judged() {
    let streams = Arc::new(StreamRegistry::default());
    let own = edition(1);
    judge(&streams, &denying(&[]), 1);
    let variant = Paths { variant: "team/a", host: "a.test", ..Paths::new(&["/exec"]) };
    judge(&streams, &(Arc::new(variant) as Arc<dyn StreamJudge>), 2);
    let _later = begin_of(&streams, &own, ("a.test", "/exec"), 3);
    streams.lock().judged.judges.values_mut().flat_map(|one| &mut one.loads).for_each(|load| load.has_missed = true);
    let again = of_variant("team/a", "a.test", &["/exec"]);
    assert_eq!(judge_load(&streams, &again, (2, 2), 9), None);
    assert_eq!(ended(&streams), [""; 0]);
}

/// A proxy loads all variants anew at an edit of one: each would look at all streams.
#[test]
fn known_denials_look_at_streams_since_their_last_load() {
    let streams = Arc::new(StreamRegistry::default());
    judge(&streams, &denying(&[]), 1);
    let begin = |load: u64, host| begin_of(&streams, &edition(load), (host, "/exec"), 9).0;
    let _early: Vec<_> = (0..100).map(|_| begin(1, "b.test")).collect();
    let asked_at = |load| {
        let again = Paths { variant: "team/a", host: "a.test", is_owner: true, ..Paths::new(&["/exec"]) };
        let again = Arc::new(again);
        judge(&streams, &(Arc::clone(&again) as Arc<dyn StreamJudge>), load);
        again.asked.load(Ordering::Relaxed)
    };
    assert_eq!([2, 4, 6].map(asked_at), [0; 3]);
    let _between = [begin(7, "b.test"), begin(7, "a.test")];
    let _later = begin(9, "a.test");
    assert_eq!((asked_at(8), ended(&streams)), (2, vec!["/exec"]), "the route had no policy in between");
    assert_eq!((asked_at(10), ended(&streams)), (1, vec!["/exec"]));
    assert_eq!((asked_at(12), ended(&streams)), (0, vec![]));
}

#[test]
fn judges_of_variants_that_are_gone_are_forgotten() {
    let streams = StreamRegistry::<&'static str>::default();
    for number in 0..100 {
        let variant: &'static str = Box::leak(format!("team/{number}").into_boxed_str());
        let gone: Arc<dyn StreamJudge> = Arc::new(Paths { is_gone: true, variant, ..Paths::new(&[]) });
        judge(&streams, &gone, number);
    }
    assert_eq!(streams.lock().judged.judges.len(), 1);
}

/// Each watch looks through all variants while there are later loads than its own, and a Gateway may have many listeners.
#[test]
fn later_loads_of_other_listeners_are_none() {
    let mut judged = Judged::default();
    let load = |judged: &mut Judged, listener: &'static str, load: u64| {
        let judge: Arc<dyn StreamJudge> = Arc::new(Paths { listener, ..Paths::new(&[]) });
        let variant = Paths { listener, is_gone: load > 9, ..Paths::new(&[]) };
        let of_route: Arc<dyn StreamJudge> = Arc::new(Paths { variant: "team/a", ..variant });
        judged.replace(&of_route, 1, load, Duration::from_secs(load));
        judged.replace(&judge, 1, load, Duration::from_secs(load));
    };
    load(&mut judged, "x", 3);
    load(&mut judged, "y", 9);
    let newest =
        |judged: &Judged, listener| judged.newest_at(listener).map(|newest| (newest.load, newest.since.as_secs()));
    assert_eq!(
        ["x", "y", "", "z"].map(|listener| newest(&judged, listener)),
        [Some((3, 3)), Some((9, 9)), Some((9, 9)), None]
    );
    load(&mut judged, "", 5);
    assert_eq!(["x", "y", "z"].map(|listener| newest(&judged, listener)), [Some((5, 5)), Some((9, 9)), Some((5, 5))]);
    let known = |judged: &Judged| judged.newest.len();
    assert_eq!(known(&judged), 3);
    for (number, listener) in (10..).zip(["a", "b", "c", "d", "e", "f"]) {
        load(&mut judged, listener, number);
    }
    assert!(known(&judged) <= 5, "those of listeners that are gone are forgotten");
}
