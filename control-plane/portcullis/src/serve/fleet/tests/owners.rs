use portcullis_api::status::{ConditionType, State};
use portcullis_filter_config::activity::{ClusterActivity, Talker, TopTalkers};
use portcullis_translate::object_word;

use super::super::Memory;
use super::super::cluster_view::cluster_view;
use super::super::inputs::Inputs;
use super::super::served_objects::ServedObjects;
use super::super::view::ClusterView;
use super::{Agent, Clock, activity, cluster, object, status, take};
use crate::serve::status::{ObjectStatus, StatusBody};

/// The object `a` with a UID, ready or not.
fn owned(uid: &str, is_ready: bool) -> ObjectStatus {
    let not_ready = [(ConditionType::Ready, State::False, "Bad", "")];
    let mut object = object("a", if is_ready { &[] } else { &not_ready });
    object.diagnosis.version.uid = Some(uid.to_owned());
    object
}

/// Counts of `a` and its client alice.
fn counts(count: u64) -> ClusterActivity {
    let alice = Talker { name: "alice".to_owned(), requests: count, ..Talker::default() };
    let top = Some(TopTalkers { users: vec![alice], ..TopTalkers::default() });
    ClusterActivity { top, ..cluster("a", &[("s", count, 0)]) }
}

fn view(memory: &Memory, status: &StatusBody, clock: Clock, seconds: u64) -> ClusterView {
    let served = ServedObjects::default();
    let inputs = Inputs { status, served: &served, activity: &memory.activity, now: clock.moment(seconds) };
    cluster_view(inputs, "a", &memory.histories, &memory.transitions).unwrap()
}

/// `kubectl replace --force`: the name is another object's between two looks.
#[test]
fn another_object_of_the_name_has_no_past() {
    let (clock, mut memory, mut agent) = (Clock::new(), Memory::default(), Agent::default());
    for seconds in (0..60).step_by(5) {
        take(&mut memory.activity, "n", agent.parts(&activity(1, vec![counts(seconds * 10)])), clock.at(seconds));
        memory.look(&status(vec![owned("1", seconds < 30)]), &ServedObjects::default(), clock.moment(seconds));
    }
    let first = status(vec![owned("1", false)]);
    let before = view(&memory, &first, clock, 55);
    assert_eq!((before.history.len(), before.transitions.len(), before.top.is_some()), (6, 1, true));
    assert_eq!(before.summary.numbers.requests_per_second, 10.0);

    let second = status(vec![owned("2", true)]);
    memory.look(&second, &ServedObjects::default(), clock.moment(56));
    let after = view(&memory, &second, clock, 56);
    assert_eq!((after.history.len(), after.transitions.len(), after.top.is_some()), (0, 0, false));
    assert_eq!(after.summary.numbers.requests_per_second, 0.0);

    // Its own counts begin with its own requests.
    for seconds in [60, 65] {
        take(&mut memory.activity, "n", agent.parts(&activity(1, vec![counts((seconds - 60) * 4)])), clock.at(seconds));
        memory.look(&second, &ServedObjects::default(), clock.moment(seconds));
    }
    assert_eq!(view(&memory, &second, clock, 65).summary.numbers.requests_per_second, 4.0);
}

/// A gateway that has not taken the new configuration yet reports for the former object.
#[test]
fn late_report_of_a_former_object_is_not_shown() {
    let (clock, mut memory, mut agent) = (Clock::new(), Memory::default(), Agent::default());
    let second = status(vec![owned("2", true)]);
    memory.look(&second, &ServedObjects::default(), clock.moment(0));
    for (seconds, uid, is_shown) in [(1, "1", false), (6, "1", false), (11, "2", true), (16, "1", false)] {
        let counts = ClusterActivity { object: object_word(uid), ..counts(seconds * 10) };
        take(&mut memory.activity, "n", agent.parts(&activity(1, vec![counts])), clock.at(seconds));
        let shown = view(&memory, &second, clock, seconds);
        assert_eq!(shown.top.is_some(), is_shown, "{seconds}");
    }
}

/// A page is read between the replacement and the next look, and a gateway reports for the former object.
#[test]
fn report_between_a_replacement_and_the_next_look_is_not_kept() {
    let (clock, mut memory, mut agent) = (Clock::new(), Memory::default(), Agent::default());
    let [first, second] = ["1", "2"].map(|uid| status(vec![owned(uid, true)]));
    memory.look(&first, &ServedObjects::default(), clock.moment(0));
    memory.follow_owners(&second);
    let late = ClusterActivity { object: object_word("1"), ..counts(10) };
    take(&mut memory.activity, "n", agent.parts(&activity(1, vec![late])), clock.at(1));
    memory.look(&second, &ServedObjects::default(), clock.moment(2));
    assert!(view(&memory, &second, clock, 2).top.is_none());
}

/// A control plane that starts hears gateways before its source is read.
#[test]
fn report_before_the_source_is_read_is_judged_afterwards() {
    let (clock, second) = (Clock::new(), status(vec![owned("2", true)]));
    for (seconds, uid, is_shown) in [(0, "1", false), (10, "2", true)] {
        let mut agent = Agent::default();
        let reported = ClusterActivity { object: object_word(uid), ..counts(seconds + 10) };
        let mut memory = Memory::default();
        take(&mut memory.activity, "n", agent.parts(&activity(1, vec![reported])), clock.at(seconds));
        memory.look(&second, &ServedObjects::default(), clock.moment(seconds + 1));
        assert_eq!(view(&memory, &second, clock, seconds + 1).top.is_some(), is_shown, "{uid}");
    }
}
