//! Gateways that are divided among instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_attach::{
    BoundRoute, DoorPolicies, HostPattern, HostTable, ListenerRole, ObjectName, RouteKind, ServedBackend,
    ServedGateway, ServedListener, WeightedBackend,
};
use portcullis_xds::{Snapshot, View};
use serde_json::{Value, json};

use super::instances::{HAND_OVER, World, of_team};
use crate::serve::gateway_views::GatewayDemand;
use crate::serve::instance_views::GatewayMember;

fn edge() -> ObjectName {
    ObjectName::new("infra", "edge")
}

/// An instance that selects Gateways and clusters of its team.
fn of_both(name: &str, settings: Option<&str>) -> Value {
    let mut instance = of_team(name, "1");
    instance["spec"]["gatewaysSelector"] = json!({"matchLabels": {"team": name}});
    instance["spec"]["settings"] = json!(settings);
    instance
}

/// A Gateway of a team that passes connections on to two clusters.
fn demand(team: &str) -> Option<Arc<GatewayDemand>> {
    let clusters = [0, 1].map(|number| format!("c{number}.example.com"));
    let route = |cluster: &String| {
        let backend = WeightedBackend { backend: ServedBackend::Cluster(cluster.clone()), weight: 1 };
        let route = ObjectName::new("infra", "route");
        let bound = BoundRoute { kind: RouteKind::Tls, route, backends: vec![backend], refused_weight: 0 };
        (HostPattern::parse(cluster).unwrap(), bound)
    };
    let table = HostTable { routes: clusters.iter().map(route).collect(), ..HostTable::default() };
    let role = ListenerRole::Passthrough(table);
    let listener = ServedListener { name: "tls".to_owned(), port: 443, host: HostPattern::Any, role };
    let served = ServedGateway {
        gateway: edge(),
        addresses: Vec::new(),
        settings: None,
        listeners: vec![listener],
        policies: DoorPolicies::default(),
    };
    let labels = BTreeMap::from([("team".to_owned(), team.to_owned())]);
    Some(Arc::new(GatewayDemand {
        served: Arc::new(vec![Arc::new(served)]),
        passed_clusters: clusters.into(),
        gateways: Some([(edge(), GatewayMember { uid: None, labels })].into()),
        ..GatewayDemand::default()
    }))
}

/// The clusters that the Gateway's Envoys reach, and the names of their listeners.
fn reached(snapshot: &Snapshot) -> (Vec<u8>, Vec<String>) {
    let view = snapshot.view(&View(Some("gateway/infra/edge".to_owned()))).unwrap();
    let names = |kind: &str| -> Vec<String> {
        let of_kind = view.resources().filter(|(url, _, _)| url.ends_with(kind));
        of_kind.map(|(_, name, _)| name.to_owned()).collect()
    };
    let clusters = names(".Cluster");
    let has = |number: &u8| clusters.iter().any(|name| name.contains(&format!("c{number}.example.com")));
    ((0..2).filter(has).collect(), names(".Listener"))
}

#[test]
fn gateway_reaches_clusters_of_its_instance_at_every_moment() {
    let mut world = World::new(&[(0, "a"), (1, "b")], &[of_both("a", None), of_both("b", None)]);
    let at = |world: &mut World, team: &str| {
        world.reconciler.serve_gateways(demand(team), BTreeSet::new());
        reached(&world.snapshot()).0
    };
    assert_eq!(at(&mut world, "none"), [0; 0]);
    let mut world = World::new(&[(0, "a"), (1, "b")], &[of_both("a", None), of_both("b", None)]);
    assert_eq!(at(&mut world, "a"), [0]);
    // The Gateway passes over: until then it has what it had, and what it is to have.
    assert_eq!(at(&mut world, "b"), [0, 1]);
    world.now += HAND_OVER;
    assert_eq!(at(&mut world, "b"), [1]);
    // Its cluster passes over, and the Gateway with it, in whichever order.
    world.clusters.insert(1, "a");
    assert_eq!(at(&mut world, "b"), [1]);
    world.now += HAND_OVER / 2;
    assert_eq!(at(&mut world, "a"), [0, 1]);
    world.now += HAND_OVER / 2;
    assert_eq!(at(&mut world, "a"), [0, 1], "the cluster waits for the Gateway");
    world.now += HAND_OVER;
    assert_eq!(at(&mut world, "a"), [0, 1]);
    let instances = world.reconcile().instances;
    assert_eq!(instances.by_name["a"].verdict.counts.gateways, 1);
    assert_eq!(instances.by_name["b"].verdict.counts.clusters, 0);
}

#[test]
fn gateway_is_served_by_the_settings_of_its_instance() {
    let own = |address: &str| {
        let spec = json!({"listener": {"address": address}});
        json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "own"}, "spec": spec})
    };
    let mut world = World::new(&[(0, "a")], &[of_both("a", Some("own"))]);
    world.settings.1 = vec![own("192.0.2.1")];
    world.reconciler.serve_gateways(demand("a"), BTreeSet::new());
    let expected = |address: &str| (vec![0], vec![format!("-/-/-/gateway-{address}-443")]);
    assert_eq!(reached(&world.snapshot()), expected("192.0.2.1"));
    world.settings.1 = vec![own("192.0.2.2")];
    assert_eq!(reached(&world.snapshot()), expected("192.0.2.2"));
    // Settings that are gone leave those of before.
    world.settings.1.clear();
    assert_eq!(reached(&world.snapshot()), expected("192.0.2.2"));
    world.instances = vec![of_both("a", None)];
    assert_eq!(reached(&world.snapshot()), expected("0.0.0.0"));
}
