use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::status::{ConditionType, State};
use portcullis_filter_config::activity::{ClusterActivity, LimitUse, Talker, TopTalkers};
use portcullis_instances::{MemberHolder, MemberName, Ownership, Settlement};
use portcullis_translate::object_word;
use portcullis_xds::Membership;
use serde_json::json;

use super::super::super::report_origin::ReportOrigin;
use super::super::super::shadow_reports::ShadowReports;
use super::super::Memory;
use super::super::activity::GatewayActivity;
use super::super::cluster_view::cluster_view;
use super::super::inputs::Inputs;
use super::super::local_limits::SharedLimitFacts;
use super::super::process::ProcessActivity;
use super::super::served_objects::{ServedObjectCache, ServedObjects};
use super::super::view::ClusterView;
use super::{Agent, Clock, activity, cluster, object, status, take};
use crate::activity_report::ReportPart;
use crate::serve::object_status::ObjectStatus;
use crate::serve::status::StatusBody;

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

/// The object `a` with a limit of all gateways, and the instances that have it.
fn divided(holder: MemberHolder, next: Option<MemberHolder>) -> Arc<ServedObjects> {
    let schema = json!({"name": "few", "strategy": "globalAllocate", "maxRequestsInflight": {"max": 1},
        "globalMaxRequestsInflight": {"max": 9}});
    let document = json!({"apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a"},
        "spec": {"servers": [{"endpoint": "https://10.0.0.1:6443"}], "flowControl": {"flowControlSchemas": [schema]}}});
    let owners = [(MemberName::cluster("a"), Ownership { holder, next })].into();
    let served = ServedObjectCache::default().read("lab", &BTreeMap::from([("a".to_owned(), Arc::new(document))]));
    Arc::new(served.owned_by(Some(Arc::new(Settlement { owners, ..Settlement::default() }))))
}

/// Its gateways go on to report, and what they reported last about the cluster would stay for as long as they do.
#[test]
fn activity_of_a_former_owner_ends_with_the_hand_over() {
    let (clock, mut memory, shadows) = (Clock::new(), Memory::default(), ShadowReports::default());
    let [a, b] = ["a", "b"].map(|name| Membership::Instances([name.to_owned()].into()));
    let limited = LimitUse { schema: "few".to_owned(), shared: true, local: true, ..LimitUse::default() };
    let report = |memory: &mut Memory, seconds: u64| {
        for (name, membership) in [("a/n", &a), ("b/n", &b), ("local", &Membership::Local), ("free", &Membership::Free)]
        {
            let counts = ClusterActivity { limits: vec![limited.clone()], ..counts(seconds) };
            let parts = Agent::default().parts(&activity(1, vec![counts]));
            let part = ReportPart::read(parts[0].clone()).unwrap();
            let clusters = part.clusters().map(Result::unwrap).collect();
            memory.activity.take(ReportOrigin { name, membership }, &part, clusters, clock.at(seconds));
        }
    };
    let of = |name: &str| MemberHolder::Instance(name.to_owned());
    let shown = |memory: &Memory| {
        let known = memory.activity.gateways().filter(|(_, gateway)| gateway.cluster("a").is_some());
        known.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    memory.follow_instances(&divided(of("a"), Some(of("b"))), &shadows);
    report(&mut memory, 1);
    assert_eq!(shown(&memory), ["a/n", "b/n", "free", "local"], "what may be reported was judged before");
    memory.follow_instances(&divided(of("b"), None), &shadows);
    assert_eq!(shown(&memory), ["b/n", "local"]);
    let mut facts = SharedLimitFacts::default();
    let facts = facts.follow(&mut memory.activity, &divided(of("b"), None), clock.moment(2));
    assert_eq!(facts["a"].gateways, 2);
    memory.follow_instances(&divided(MemberHolder::Free, None), &shadows);
    assert_eq!(shown(&memory), ["local"]);
}

/// One that is deleted and made anew is at once another owner's, and may come back as fast.
#[test]
fn report_of_an_owner_between_two_looks_is_not_kept() {
    let (clock, mut memory, shadows) = (Clock::new(), Memory::default(), ShadowReports::default());
    let [a, b] = ["a", "b"].map(|name| Membership::Instances([name.to_owned()].into()));
    let of = |name: &str| divided(MemberHolder::Instance(name.to_owned()), None);
    let report = |memory: &mut Memory, served: &Arc<ServedObjects>, name: &str, membership: &Membership| {
        let parts = Agent::default().parts(&activity(1, vec![counts(5)]));
        let part = ReportPart::read(parts[0].clone()).unwrap();
        let clusters = part.clusters().map(Result::unwrap).collect();
        memory.take(ReportOrigin { name, membership }, (&part, clusters), (served, &shadows), clock.at(1));
        memory.activity.gateways().filter(|(_, gateway)| gateway.cluster("a").is_some()).count()
    };
    assert_eq!(report(&mut memory, &of("a"), "a/n", &a), 1);
    assert_eq!(report(&mut memory, &of("b"), "a/n", &a), 0);
    assert_eq!(report(&mut memory, &of("b"), "b/n", &b), 1);
    assert_eq!(report(&mut memory, &of("a"), "b/n", &b), 0);
}

/// Both owners have a part of it while it passes over.
#[test]
fn objects_pass_over_when_an_owner_has_them_no_more() {
    let [a, b] = ["a", "b"].map(|name| MemberHolder::Instance(name.to_owned()));
    let undivided = Arc::new(divided(a.clone(), None).as_ref().clone().owned_by(None));
    let states = [divided(a.clone(), None), divided(a, Some(b.clone())), divided(b, None), undivided];
    let passes = |from: usize, to: usize| states[to].passed_over_since(&states[from]).contains("a");
    let all: Vec<(usize, usize)> = (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).collect();
    let kept: Vec<(usize, usize)> = all.into_iter().filter(|(from, to)| !passes(*from, *to)).collect();
    assert_eq!(kept, [(0, 0), (0, 1), (1, 1), (2, 1), (2, 2), (3, 3)]);
    let gone = Arc::new(ServedObjects::default());
    assert_eq!(gone.passed_over_since(&states[0]), ["a"].into());
}

/// Another one's, or one that it had before, counts for it as little as for a stranger.
#[test]
fn envoy_of_a_gateway_reports_about_what_its_view_requests() {
    let of = |names: &[&str]| Membership::Bound(names.iter().map(|name| (*name).to_owned()).collect());
    let at = |gateway: &str, objects: &[&str]| {
        (gateway.to_owned(), Arc::new(objects.iter().map(|name| (*name).to_owned()).collect()))
    };
    let served = |views: [(String, Arc<BTreeSet<String>>); 2]| {
        divided(MemberHolder::Free, None).as_ref().clone().requested_at(Arc::new(views.into()))
    };
    let now = served([at("infra/edge", &["a"]), at("team/own", &["b"])]);
    let ended = served([at("infra/edge", &[]), at("team/own", &["b"])]);
    for (membership, expected) in [
        (of(&["infra/edge"]), true),
        (of(&["team/own"]), false),
        (of(&["infra/edge", "team/own"]), false),
        (of(&["infra/other"]), false),
        (of(&[]), false),
        (Membership::Free, true),
        (Membership::Local, true),
    ] {
        assert_eq!(now.may_report(&membership, "a"), expected, "{membership:?}");
        let is_bound = matches!(membership, Membership::Bound(_));
        assert_eq!(ended.may_report(&membership, "a"), !is_bound, "{membership:?}");
        assert!(!ServedObjects::default().may_report(&membership, "a") || !is_bound, "before objects are read");
    }
}

/// The cost is that of what is remembered, however many objects pass over at once.
#[test]
fn activity_of_many_objects_is_forgotten_by_their_names() {
    let (clock, mut memory) = (Clock::new(), GatewayActivity::default());
    let names: Vec<String> = (0..40).map(|number| format!("c{number}")).collect();
    let all = names.iter().map(|name| cluster(name, &[("s", 1, 0)])).collect();
    let parts = Agent::default().parts(&activity(1, all));
    take(&mut memory, "n", parts.clone(), clock.at(0));
    take(&mut memory, "other", parts, clock.at(0));
    let shown = |memory: &GatewayActivity| {
        let of_gateway =
            |gateway: &ProcessActivity| names.iter().filter(|name| gateway.cluster(name).is_some()).count();
        memory.gateways().map(|(_, gateway)| of_gateway(gateway)).sum::<usize>()
    };
    let before = memory.bytes();
    let asked = Cell::new(0);
    let is_kept = |_: &Membership, name: &str| {
        asked.set(asked.get() + 1);
        name == "c7"
    };
    memory.forget_clusters(&["c0", "unknown"].into(), is_kept);
    assert_eq!((shown(&memory), asked.get()), (78, 4));
    let many: Vec<String> = (1..1_000).map(|number| format!("c{number}")).collect();
    memory.forget_clusters(&many.iter().map(String::as_str).collect(), is_kept);
    assert_eq!((shown(&memory), asked.get()), (2, 4 + 78));
    assert!(memory.bytes() < before / 2, "{} of {before}", memory.bytes());
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
