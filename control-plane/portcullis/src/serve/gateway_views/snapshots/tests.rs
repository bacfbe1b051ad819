use portcullis_attach::{BoundRoute, DoorPolicies, RouteKind, WeightedBackend};
use portcullis_attach::{HostPattern, HostTable, ListenerRole, ServedBackend};
use portcullis_translate::type_urls;

use super::super::ServiceIdentity;
use super::*;

fn edge() -> ObjectName {
    ObjectName::new("infra", "edge")
}

fn gateway(service: Option<&ServicePort>) -> ServedGateway {
    let backends = service.map(|ServicePort { service, port }| WeightedBackend {
        backend: ServedBackend::Service { name: service.clone(), port: *port },
        weight: 1,
    });
    let route = |backend: WeightedBackend| BoundRoute {
        kind: RouteKind::Tls,
        route: ObjectName::new("team", "route"),
        backends: vec![backend],
        refused_weight: 0,
    };
    let routes = backends.map(|backend| (HostPattern::parse("a.test").unwrap(), route(backend)));
    let table = HostTable { routes: routes.into_iter().collect(), ..HostTable::default() };
    let role = ListenerRole::Passthrough(table);
    let listener = ServedListener { name: "tls".to_owned(), port: 443, host: HostPattern::Any, role };
    ServedGateway {
        gateway: edge(),
        addresses: Vec::new(),
        settings: None,
        listeners: vec![listener],
        policies: DoorPolicies::default(),
    }
}

fn demand(gateways: Vec<ServedGateway>, service: Option<&ServicePort>) -> Option<Arc<GatewayDemand>> {
    let services = service.map(|port| (port.clone(), ServiceIdentity::default())).into_iter().collect();
    Some(Arc::new(GatewayDemand {
        served: Arc::new(gateways.into_iter().map(Arc::new).collect()),
        services,
        ..GatewayDemand::default()
    }))
}

fn follow(snapshots: &mut GatewaySnapshots) -> Vec<(String, usize)> {
    let views = snapshots.follow(
        (&Settings::default(), &GatewayDivision::default()),
        &BTreeMap::new(),
        &DiscoveredDocuments::default(),
        Instant::now(),
    );
    views.into_iter().map(|(name, view)| (name, view.names(type_urls::listener()).count())).collect()
}

#[test]
fn view_is_there_as_soon_as_the_gateway_is_judged() {
    let mut snapshots = GatewaySnapshots::default();
    let (name, claimed) = ("gateway/infra/edge".to_owned(), BTreeSet::from([edge()]));
    snapshots.take(None, claimed.clone());
    assert_eq!(follow(&mut snapshots), [], "its Envoys keep what they have");
    snapshots.take(demand(vec![gateway(None)], None), BTreeSet::new());
    assert_eq!(follow(&mut snapshots), [(name.clone(), 1)]);
    snapshots.take(demand(Vec::new(), None), claimed);
    assert_eq!(follow(&mut snapshots), [(name, 0)], "one that is gone has no listener");
    snapshots.take(demand(Vec::new(), None), BTreeSet::new());
    assert_eq!(follow(&mut snapshots), []);
}

#[test]
fn saved_view_gives_way_to_the_first_verdicts() {
    let port = ServicePort { service: ObjectName::new("team", "web"), port: 443 };
    let name = "gateway/infra/edge".to_owned();
    let listener = || (type_urls::listener(), "old".to_owned(), portcullis_xds::Resource::new(vec![1]));
    let saved = Snapshot::new([listener()]);
    let mut snapshots = GatewaySnapshots::resume([(name.as_str(), &saved), ("wasm", &saved)].into_iter());
    assert_eq!(follow(&mut snapshots), [(name.clone(), 1)]);
    snapshots.take(demand(vec![gateway(Some(&port))], Some(&port)), BTreeSet::new());
    let views = snapshots.follow(
        (&Settings::default(), &GatewayDivision::default()),
        &BTreeMap::new(),
        &DiscoveredDocuments::default(),
        Instant::now(),
    );
    let names: Vec<&str> = views[0].1.names(type_urls::listener()).collect();
    assert_eq!((views.len(), names), (1, vec!["-/-/-/gateway-0.0.0.0-443"]), "a grant may have ended meanwhile");
}

#[test]
fn view_without_a_past_waits_for_the_first_services() {
    let port = |name: &str| ServicePort { service: ObjectName::new("team", name), port: 443 };
    let (first, later) = (port("web"), port("later"));
    let (mut snapshots, mut discovered) = (GatewaySnapshots::default(), DiscoveredDocuments::default());
    snapshots.take(demand(vec![gateway(Some(&first))], Some(&first)), BTreeSet::new());
    assert_eq!(follow(&mut snapshots), [], "an Envoy may have servers of it");
    let wants = snapshots.wants(&Settings::default());
    assert_eq!(wants.keys().collect::<Vec<_>>(), ["team/web:443"]);
    discovered.answer(Arc::new(Answers::of_wants(&wants, 1)));
    let mut pools = || {
        let views = snapshots.follow(
            (&Settings::default(), &GatewayDivision::default()),
            &BTreeMap::new(),
            &discovered,
            Instant::now(),
        );
        views.first().map(|(_, view)| view.names(type_urls::cluster()).count())
    };
    assert_eq!((pools(), pools()), (Some(1), Some(1)));
    snapshots = GatewaySnapshots::default();
    snapshots.take(demand(vec![gateway(Some(&first))], Some(&first)), BTreeSet::new());
    assert_eq!(follow(&mut snapshots), []);
    snapshots.take(demand(vec![gateway(Some(&later))], Some(&later)), BTreeSet::new());
    assert_eq!(follow(&mut snapshots), [("gateway/infra/edge".to_owned(), 1)], "new routes hold nothing up");
}

#[test]
fn view_without_a_past_waits_for_a_time() {
    let port = ServicePort { service: ObjectName::new("team", "web"), port: 443 };
    let (mut snapshots, mut discovered) = (GatewaySnapshots::default(), DiscoveredDocuments::default());
    snapshots.take(demand(vec![gateway(Some(&port))], Some(&port)), BTreeSet::new());
    let failed = Answers::failed(&snapshots.wants(&Settings::default()));
    discovered.answer(Arc::new(failed));
    let start = Instant::now();
    let mut at = |now| {
        let views = snapshots
            .follow((&Settings::default(), &GatewayDivision::default()), &BTreeMap::new(), &discovered, now)
            .len();
        (views, snapshots.next_expiry())
    };
    let until = start + FIRST_SERVICES;
    assert_eq!(at(start), (0, Some(until)), "a failure is no answer");
    assert_eq!(at(start + FIRST_SERVICES / 2), (0, Some(until)));
    assert_eq!(at(until), (1, None));
    assert_eq!(at(until), (1, None));
}

/// Else the saved view, which its Envoys have acknowledged, would count for verdicts that they do not have.
#[test]
fn gateway_that_waits_for_services_is_not_served() {
    let port = ServicePort { service: ObjectName::new("team", "web"), port: 443 };
    let mut snapshots = GatewaySnapshots::default();
    let count = |snapshots: &GatewaySnapshots| snapshots.served().map(|served| served.len());
    assert_eq!(count(&snapshots), None);
    snapshots.take(demand(vec![gateway(Some(&port))], Some(&port)), BTreeSet::new());
    assert_eq!((follow(&mut snapshots), count(&snapshots)), (Vec::new(), Some(0)));
    snapshots.take(demand(vec![gateway(None)], None), BTreeSet::new());
    assert_eq!((follow(&mut snapshots).len(), count(&snapshots)), (1, Some(1)));
}

#[test]
fn equal_gateways_of_two_demands_are_one() {
    let before = demand(vec![gateway(None)], None).unwrap();
    let after = |gateways| demand(gateways, None).unwrap().as_ref().clone().after(Some(&before));
    assert!(Arc::ptr_eq(&after(vec![gateway(None)]).served[0], &before.served[0]));
    let other = ServedGateway { settings: Some("other".to_owned()), ..gateway(None) };
    assert_eq!(after(vec![other.clone()]).served[0].as_ref(), &other);
}

/// A time that is over and stays would have the views made again without end.
#[test]
fn routes_of_a_withheld_view_have_no_time_to_open() {
    let (mut snapshots, now) = (GatewaySnapshots::default(), Instant::now());
    snapshots.take(demand(vec![gateway(None)], None), BTreeSet::new());
    let ended = EndedRoutes::opening_at(now);
    snapshots.views.insert(edge(), GatewaySnapshot { ended, is_judged: true, ..GatewaySnapshot::default() });
    assert_eq!(snapshots.next_expiry(), Some(now));
    let mut follow = |division: &GatewayDivision| {
        let discovered = DiscoveredDocuments::default();
        let views = snapshots.follow((&Settings::default(), division), &BTreeMap::new(), &discovered, now);
        let listeners = views.first().map(|(_, view)| view.names(type_urls::listener()).count());
        (listeners, snapshots.next_expiry())
    };
    assert_eq!(follow(&GatewayDivision::without_settings(&edge(), "a")), (Some(0), None), "it stays as it is");
    assert_eq!(follow(&GatewayDivision::default()), (Some(1), None));
}
