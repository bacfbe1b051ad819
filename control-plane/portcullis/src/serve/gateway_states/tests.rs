use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::status::GatewayProgress;
use portcullis_translate::type_urls;
use portcullis_xds::{AckState, AckStates, Endpoints, HealthRegistry, Registry, Resource, Snapshot, View};

use super::super::endpoint_reports::{EndpointHealth, EndpointReports};
use super::GatewayStates;

const OWNER: &str = "prod.example.com";
const SERVED: &str = "hash-of-what-is-served";

fn answers<const N: usize>(all: [(&str, &str, AckState); N]) -> AckStates {
    all.into_iter().map(|(owner, hash, answer)| ((owner.to_owned(), hash.to_owned()), answer)).collect()
}

fn refused() -> GatewayProgress {
    GatewayProgress::Refused { message: "the replica that it follows shows why at /status".to_owned() }
}

/// How a gateway is listed that is not connected, after its agent's last words this long ago; `None` if it is not.
fn listed(found: Option<AckStates>, age: Duration) -> Option<GatewayProgress> {
    let (registry, health, endpoints) = (Registry::default(), HealthRegistry::default(), EndpointHealth::new());
    let at = Instant::now().checked_sub(age).unwrap();
    health.record("envoy-0", BTreeMap::new(), at);
    if let Some(found) = found {
        health.answered("envoy-0", found);
    }
    let (snapshot, reports, frozen) = (Snapshot::default(), health.reports(Instant::now()), BTreeMap::new());
    let states = GatewayStates::new((&registry, &[]), &frozen, &reports, (Some(&snapshot), &endpoints));
    let gateways = states.gateways(OWNER, SERVED);
    assert!(gateways.iter().all(|gateway| gateway.name == "envoy-0" && gateway.health.is_none()), "{gateways:?}");
    let key = (OWNER.to_owned(), SERVED.to_owned());
    let progress = states.elsewhere("envoy-0", &key);
    assert_eq!(states.elsewhere("envoy-1", &key), GatewayProgress::Elsewhere, "of others nothing is known");
    let listed = gateways.into_iter().next().map(|gateway| gateway.progress);
    assert_eq!(listed.clone().unwrap_or(GatewayProgress::Elsewhere), progress, "what is not listed is not judged");
    listed
}

#[test]
fn gateway_elsewhere_counts_for_the_served_version_only() {
    use AckState::{Acknowledged, Refused};
    let rows = [
        ("acknowledged", Some(answers([(OWNER, SERVED, Acknowledged)])), Some(GatewayProgress::Acknowledged)),
        ("refused", Some(answers([(OWNER, SERVED, Refused)])), Some(refused())),
        ("the version before", Some(answers([(OWNER, "older", Acknowledged)])), Some(GatewayProgress::Pending)),
        ("refused the version before", Some(answers([(OWNER, "older", Refused)])), Some(GatewayProgress::Pending)),
        (
            "the version before, and this one",
            Some(answers([(OWNER, "older", Refused), (OWNER, SERVED, Acknowledged)])),
            Some(GatewayProgress::Acknowledged),
        ),
        (
            "another object",
            Some(answers([("other.example.com", SERVED, Acknowledged)])),
            Some(GatewayProgress::Pending),
        ),
        ("no object", Some(answers([])), None),
        ("an agent that says nothing", None, None),
    ];
    for (case, found, expected) in rows {
        assert_eq!(listed(found, Duration::ZERO), expected, "{case}");
    }
    let old = HealthRegistry::MAX_AGE + Duration::from_secs(1);
    assert_eq!(listed(Some(answers([(OWNER, SERVED, Acknowledged)])), old), None, "words of long ago");
}

/// Its agent reports for as long as it runs, and the last report about the cluster would be as good as new for a while.
#[test]
fn report_of_a_former_owner_ends_with_the_hand_over() {
    let pool = "lab/-/prod.example.com/all.h2";
    let health = HealthRegistry::default();
    let view = |name: &str| format!("instance/{name}");
    let seen = || BTreeMap::from([(pool.to_owned(), Endpoints { healthy: 0, total: 1, unhealthy: Vec::new() })]);
    for (node, views) in
        [("local", None), ("free", Some(vec![View(None)])), ("a/one", Some(vec![View(Some(view("a")))]))]
    {
        health.record_within(node, seen(), views, Instant::now());
    }
    health.record_within("b/one", seen(), Some(vec![View(Some(view("b")))]), Instant::now());
    let served = |owners: &[&str]| {
        let of = |name: &str| {
            let resource = Resource::new(vec![1]).owned_by(OWNER);
            let one = (type_urls::cluster(), format!("{pool}@1"), resource);
            Snapshot::new(owners.contains(&name).then_some(one))
        };
        of("").with_views(["a", "b"].map(|name| (view(name), of(name))))
    };
    let (mut known, reports) = (EndpointReports::default(), health.reports(Instant::now()));
    let mut nodes = |snapshot: Snapshot| {
        known.follow(&reports, Some(&Arc::new(snapshot)));
        let nodes = known.endpoints().get(pool);
        nodes.map(|nodes| nodes.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    assert_eq!(nodes(served(&["a"])), ["a/one", "local"]);
    assert_eq!(nodes(served(&["a", "b"])), ["a/one", "b/one", "local"], "both owners, while it passes over");
    assert_eq!(nodes(served(&["b"])), ["b/one", "local"]);
    assert_eq!(nodes(served(&[""])), ["free", "local"]);
    assert_eq!(nodes(Snapshot::default()).len(), 4, "without instances all are of one owner");
    let snapshot = Arc::new(served(&["b"]));
    let (registry, frozen) = (Registry::default(), BTreeMap::new());
    known.follow(&reports, Some(&snapshot));
    let states = GatewayStates::new((&registry, &[]), &frozen, &reports, (Some(&*snapshot), &**known.endpoints()));
    let gateways: Vec<_> = states.gateways(OWNER, SERVED).iter().map(|one| one.name.to_owned()).collect();
    assert_eq!(gateways, ["b/one", "local"], "the former owner's is no gateway of it any more");
}

#[test]
fn gateway_elsewhere_counts_for_objects_of_its_own_instance() {
    let of_owner = || {
        let resource = Resource::new(vec![1]).owned_by(OWNER);
        Snapshot::new([(type_urls::cluster().to_owned(), "lab/-/prod.example.com/all.h2@1".to_owned(), resource)])
    };
    let view = |name: &str| View(Some(format!("instance/{name}")));
    let (registry, health, endpoints) = (Registry::default(), HealthRegistry::default(), EndpointHealth::new());
    for (node, views) in [
        ("local", None),
        ("free", Some(vec![View(None)])),
        ("of-a", Some(vec![view("a")])),
        ("of-b", Some(vec![view("b")])),
    ] {
        health.record_within(node, BTreeMap::new(), views, Instant::now());
        health.answered(node, answers([(OWNER, SERVED, AckState::Acknowledged)]));
    }
    let views = |of_a: Snapshot| [("a", of_a), ("b", Snapshot::default())];
    let served = |free: Snapshot, of_a: Snapshot| {
        free.with_views(views(of_a).map(|(name, view)| (format!("instance/{name}"), view)))
    };
    for (snapshot, expected) in [
        (served(Snapshot::default(), of_owner()), &["of-a"][..]),
        (served(of_owner(), Snapshot::default()), &["free", "local"]),
        (served(of_owner(), of_owner()), &["free", "local", "of-a"]),
        (served(Snapshot::default(), Snapshot::default()), &["free", "local"]),
    ] {
        let (reports, frozen) = (health.reports(Instant::now()), BTreeMap::new());
        let states = GatewayStates::new((&registry, &[]), &frozen, &reports, (Some(&snapshot), &endpoints));
        let names: Vec<_> = states.gateways(OWNER, SERVED).iter().map(|gateway| gateway.name.to_owned()).collect();
        assert_eq!(names, expected);
    }
}
