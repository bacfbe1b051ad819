use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::status::GatewayProgress;
use portcullis_translate::type_urls;
use portcullis_xds::{AckState, AckStates, HealthRegistry, Registry, Resource, Snapshot, View};

use super::{EndpointHealth, GatewayStates};

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
    let (registry, health, reports) = (Registry::default(), HealthRegistry::default(), EndpointHealth::new());
    let at = Instant::now().checked_sub(age).unwrap();
    health.record("envoy-0", BTreeMap::new(), at);
    if let Some(found) = found {
        health.answered("envoy-0", found);
    }
    let states = GatewayStates::new(&registry, &health, Some(Arc::new(Snapshot::default())), &reports);
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

#[test]
fn gateway_elsewhere_counts_for_objects_of_its_own_instance() {
    let of_owner = || {
        let resource = Resource::new(vec![1]).owned_by(OWNER);
        Snapshot::new([(type_urls::cluster().to_owned(), "lab/-/prod.example.com/all.h2@1".to_owned(), resource)])
    };
    let view = |name: &str| View(Some(format!("instance/{name}")));
    let (registry, health, reports) = (Registry::default(), HealthRegistry::default(), EndpointHealth::new());
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
        let states = GatewayStates::new(&registry, &health, Some(Arc::new(snapshot)), &reports);
        let names: Vec<_> = states.gateways(OWNER, SERVED).iter().map(|gateway| gateway.name.to_owned()).collect();
        assert_eq!(names, expected);
    }
}
