use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::status::LimitFacts;
use portcullis_filter_config::activity::{ClusterActivity, LimitUse};
use serde_json::json;

use super::super::GatewayActivity;
use super::super::local_limits::SharedLimitFacts;
use super::super::served_objects::{ServedObjectCache, ServedObjects};
use super::{Agent, Clock, activity, cluster, take};

/// The object `a` with limits of all gateways, and `b` without.
fn served() -> ServedObjects {
    let of_all = |name: &str| {
        json!({"name": name, "strategy": "globalAllocate", "maxRequestsInflight": {"max": 1},
            "globalMaxRequestsInflight": {"max": 9}})
    };
    let own = json!({"name": "own", "maxRequestsInflight": {"max": 1}});
    let document = |name: &str, schemas| {
        json!({"apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": name},
            "spec": {"servers": [{"endpoint": "https://10.0.0.1:6443"}], "flowControl": {"flowControlSchemas": schemas}}})
    };
    let documents = [("a", json!([of_all("few"), of_all("many"), own.clone()])), ("b", json!([own]))];
    let documents = documents.map(|(name, schemas)| (name.to_owned(), Arc::new(document(name, schemas))));
    ServedObjectCache::default().read("lab", &BTreeMap::from(documents))
}

/// The limits of `a` in a report: their schemas, whether gateways share them, and whether the own limit holds.
fn limits(limits: &[(&str, bool, bool)]) -> ClusterActivity {
    let limit = |(schema, shared, local): &(&str, bool, bool)| LimitUse {
        schema: (*schema).to_owned(),
        shared: *shared,
        local: *local,
        ..LimitUse::default()
    };
    ClusterActivity { limits: limits.iter().map(limit).collect(), ..cluster("a", &[("s", 1, 0)]) }
}

/// A memory of activity, with the facts that follow it.
#[derive(Default)]
struct Followed {
    memory: GatewayActivity,
    facts: SharedLimitFacts,
}

impl Followed {
    fn facts(&mut self, clock: Clock, seconds: u64) -> LimitFacts {
        let (served, now) = (served(), clock.moment(seconds));
        let facts = Arc::clone(self.facts.follow(&mut self.memory, &served, now));
        assert_eq!(facts.keys().collect::<Vec<_>>(), ["a"], "the other one shares no limit");
        let anew = &mut SharedLimitFacts::default();
        assert_eq!(&facts, anew.follow(&mut self.memory, &served, now), "they follow what is reported");
        facts["a"].clone()
    }
}

#[test]
fn gateway_that_goes_by_a_local_limit_for_a_while_is_named() {
    let (clock, mut followed) = (Clock::new(), Followed::default());
    let mut agents: Vec<Agent> = (0..3).map(|_| Agent::default()).collect();
    let mut report = |followed: &mut Followed, of_each: [&[(&str, bool, bool)]; 3], seconds: u64| {
        for ((agent, node), one) in agents.iter_mut().zip(["x", "y", "z"]).zip(of_each) {
            take(&mut followed.memory, node, agent.parts(&activity(1, vec![limits(one)])), clock.at(seconds));
        }
    };
    assert_eq!(followed.facts(clock, 0), LimitFacts::default());
    let whole: &[_] = &[("few", true, false), ("many", true, false), ("own", false, false)];
    let alone: &[_] = &[("few", true, false), ("many", true, true), ("own", false, false)];
    // The last one has an edition in which both limits are its own.
    let older: &[_] = &[("few", false, false), ("many", false, false)];
    report(&mut followed, [whole, alone, older], 1);
    let two = LimitFacts { gateways: 2, ..LimitFacts::default() };
    assert_eq!(followed.facts(clock, 10), two, "it may have just started");
    let one_alone = LimitFacts {
        local: 1,
        local_names: vec!["y".to_owned()],
        schemas: 1,
        schema_names: vec!["many".to_owned()],
        ..two.clone()
    };
    // A report without a change of it says that it is still so.
    report(&mut followed, [whole, alone, older], 28);
    assert_eq!(followed.facts(clock, 30), two, "it may have no room in a report for a turn");
    assert_eq!(followed.facts(clock, 31), one_alone);
    report(&mut followed, [whole, whole, older], 32);
    assert_eq!(followed.facts(clock, 32), two);
    report(&mut followed, [whole, alone, older], 33);
    report(&mut followed, [whole, alone, older], 60);
    assert_eq!(followed.facts(clock, 62), two, "the time begins anew");
    assert_eq!(followed.facts(clock, 63), one_alone);
    assert_eq!(followed.facts(clock, 120), LimitFacts::default(), "reports that are too old");
}

#[test]
fn limit_that_the_object_has_no_more_is_not_named() {
    let clock = Clock::new();
    let both = [("few", true, false), ("gone", true, true)];
    for (reported, gateways) in [(&both[..], 1), (&both[1..], 0)] {
        let (mut followed, mut agent) = (Followed::default(), Agent::default());
        for seconds in [0, 20] {
            take(&mut followed.memory, "x", agent.parts(&activity(1, vec![limits(reported)])), clock.at(seconds));
        }
        let expected = LimitFacts { gateways, ..LimitFacts::default() };
        assert_eq!(followed.facts(clock, 35), expected, "{reported:?}");
    }
}

#[test]
fn gateways_and_schemas_are_named_up_to_a_bound() {
    let (clock, mut followed) = (Clock::new(), Followed::default());
    for number in 0..40 {
        let local: &[_] = &[("few", true, true), ("many", true, true)];
        let parts = Agent::default().parts(&activity(1, vec![limits(local)]));
        take(&mut followed.memory, &format!("n{number:02}"), parts, clock.at(0));
    }
    let facts = followed.facts(clock, 30);
    assert_eq!((facts.gateways, facts.local, facts.schemas), (40, 40, 2));
    assert_eq!(facts.local_names, ["n00", "n01", "n02", "n03", "n04"]);
}
