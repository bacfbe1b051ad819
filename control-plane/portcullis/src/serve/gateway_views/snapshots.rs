use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::Settings;
use portcullis_attach::{ObjectName, RouteClosures, ServedGateway, ServedListener};
use portcullis_translate::{GatewayInput, GatewaySecrets, RefusedClusters, ResourceGroup, ServicePort, ServiceServers};
use portcullis_xds::Snapshot;
use serde_json::Value;

use super::super::discovery::{Answers, DiscoveredDocuments, Want, Wants};
use super::super::group_change::KnownGroups;
use super::super::instance_views::{GatewayDivision, GatewayMember};
use super::super::xds_resources::{Retained, XdsResources};
use super::divided_gateways::{DividedGateways, DividedGroups};
use super::ended_routes::EndedRoutes;
use super::{ClosedListeners, GatewayDemand, GatewayRefusals, gateway_of_view, gateway_view};

/// How long Gateways without a past wait for the Services of the first verdicts: as long as objects do at a start.
const FIRST_SERVICES: Duration = Duration::from_secs(28);

/// Translates Gateways into the snapshots of their Envoys.
#[derive(Default)]
pub(in super::super) struct GatewaySnapshots {
    translator: DividedGateways,
    demand: Option<Arc<GatewayDemand>>,
    claimed: BTreeSet<ObjectName>,
    views: BTreeMap<ObjectName, GatewaySnapshot>,
    refused: Arc<RefusedClusters>,
    closed: Arc<ClosedListeners>,
    closures: Arc<RouteClosures>,
    /// The sources of Services' servers, and the demand that they are of, with whether servers may be at loopback.
    wants: (Option<(Arc<GatewayDemand>, bool)>, Wants),
    followed: Option<FollowedInputs>,
    /// Services of the first verdicts that have not answered since.
    awaited: Option<BTreeSet<ServicePort>>,
    /// When they are not waited for any more, since the first verdicts.
    awaited_until: Option<Instant>,
}

/// Everything that the views are made of. As long as it is the same, they are.
#[derive(PartialEq)]
struct FollowedInputs {
    demand: Arc<GatewayDemand>,
    answers: Arc<Answers>,
    claimed: BTreeSet<ObjectName>,
    settings: Settings,
    division: GatewayDivision,
    /// The documents of the demand's `passed_clusters` and `requested_clusters`.
    clusters: Vec<Option<Arc<Value>>>,
    /// Whether Services may still be waited for.
    may_wait: bool,
}

/// The snapshot of one Gateway's Envoys.
#[derive(Default)]
struct GatewaySnapshot {
    groups: KnownGroups,
    resources: XdsResources,
    ended: EndedRoutes,
    /// Whether it is of verdicts, and not of the time before this program started.
    is_judged: bool,
}

impl GatewaySnapshots {
    /// Goes on from views that were served before this program started.
    pub(in super::super) fn resume<'a>(views: impl Iterator<Item = (&'a str, &'a Snapshot)>) -> Self {
        let one = |(name, view): (&str, &Snapshot)| {
            let resources = XdsResources::resume(view.clone());
            Some((gateway_of_view(name)?, GatewaySnapshot { resources, ..GatewaySnapshot::default() }))
        };
        Self { views: views.filter_map(one).collect(), ..Self::default() }
    }

    /// Takes a newer demand, and the Gateways that Envoys belong to.
    pub(in super::super) fn take(&mut self, demand: Option<Arc<GatewayDemand>>, claimed: BTreeSet<ObjectName>) {
        self.demand = demand;
        self.claimed = claimed;
    }

    /// All Gateways of the newest demand, by which instances select.
    pub(in super::super) fn members(&self) -> &BTreeMap<ObjectName, GatewayMember> {
        static NONE: BTreeMap<ObjectName, GatewayMember> = BTreeMap::new();
        self.demand.as_ref().map_or(&NONE, |demand| &demand.gateways)
    }

    /// The Gateways of the newest demand whose views are of verdicts; none before the first demand.
    pub(in super::super) fn served(&self) -> Option<Arc<Vec<Arc<ServedGateway>>>> {
        let served = &self.demand.as_ref()?.served;
        let is_judged = |one: &&Arc<ServedGateway>| self.views.get(&one.gateway).is_some_and(|view| view.is_judged);
        if served.iter().all(|one| is_judged(&one)) {
            return Some(Arc::clone(served));
        }
        Some(Arc::new(served.iter().filter(is_judged).cloned().collect()))
    }

    /// Everything that is refused and closed, as of the last snapshots.
    pub(in super::super) fn refusals(&self) -> GatewayRefusals {
        let (clusters, listeners) = (Arc::clone(&self.refused), Arc::clone(&self.closed));
        GatewayRefusals { clusters, listeners, routes: Arc::clone(&self.closures) }
    }

    /// The sources of Services' servers.
    pub(in super::super) fn wants(&mut self, settings: &Settings) -> Wants {
        let Some(demand) = &self.demand else { return Wants::new() };
        let allow_loopback = settings.allow_loopback_upstreams;
        let is_of = |(of, allowed): &(Arc<GatewayDemand>, bool)| Arc::ptr_eq(of, demand) && *allowed == allow_loopback;
        if !self.wants.0.as_ref().is_some_and(is_of) {
            let want = |(port, identity): (&ServicePort, &super::ServiceIdentity)| {
                let want = Want::of_service(port, &identity.uid, &identity.port_name, settings);
                (want.name().to_owned(), Arc::new(want))
            };
            let wants = demand.services.iter().map(want).collect();
            self.wants = (Some((Arc::clone(demand), allow_loopback)), wants);
        }
        self.wants.1.clone()
    }

    /// The views of all Gateways that are served, or that Envoys belong to. One that is not served has no listener. Before the
    /// first verdicts they are what they were before this program started, and others are not there: their Envoys keep what they have.
    pub(in super::super) fn follow(
        &mut self,
        (settings, division): (&Settings, &GatewayDivision),
        clusters: &BTreeMap<String, Arc<Value>>,
        discovered: &DiscoveredDocuments,
        now: Instant,
    ) -> Vec<(String, Snapshot)> {
        let Some(demand) = self.demand.clone() else { return self.named() };
        let may_wait = now < *self.awaited_until.get_or_insert(now + FIRST_SERVICES);
        let inputs = FollowedInputs {
            answers: discovered.answers(),
            claimed: self.claimed.clone(),
            settings: settings.clone(),
            division: division.clone(),
            clusters: demand.clusters().map(|name| clusters.get(name).cloned()).collect(),
            demand: Arc::clone(&demand),
            may_wait,
        };
        if self.followed.as_ref() == Some(&inputs) && self.next_opening().is_none_or(|opening| now < opening) {
            return self.named();
        }
        self.followed = Some(inputs);
        let wants = self.wants(settings);
        let (mut services, mut unasked) = (BTreeMap::new(), BTreeSet::new());
        for (port, identity) in &demand.services {
            let answer = wants.get(&Want::name_of_service(port)).and_then(|want| discovered.answer_of(want));
            if answer.is_none() {
                unasked.insert(port.clone());
            }
            let servers = answer.unwrap_or_default();
            services.insert(port.clone(), ServiceServers { uid: identity.uid.clone(), servers });
        }
        // Only those of the first verdicts, for a time: with new routes a tenant could have Envoys wait for ever, and a Service whose
        // EndpointSlices cannot be listed would hold up those of others.
        let awaited = match self.awaited.take() {
            _ if !may_wait => BTreeSet::new(),
            None => unasked,
            Some(awaited) => awaited.intersection(&unasked).cloned().collect(),
        };
        let gateways = demand.served.as_slice();
        let (serving, client_authorities) = (demand.certificates.clone(), demand.client_authorities.clone());
        let secrets = GatewaySecrets { serving, client_authorities };
        let (services, upstreams) = (&services, &demand.upstreams);
        let input = GatewayInput { settings, gateways, clusters, upstreams, services, secrets: &secrets };
        let DividedGroups { groups, refused, closures } = self.translator.translate(&demand, &input, division);
        self.closed = Arc::new(closed_listeners(gateways, &secrets));
        if *self.closures != closures {
            self.closures = Arc::new(closures);
        }
        if *self.refused != refused {
            self.refused = Arc::new(refused);
        }
        // Of one whose instance lacks its settings the view stays.
        let withheld: BTreeSet<ObjectName> =
            gateways.iter().map(|one| &one.gateway).filter(|one| !division.is_served(one)).cloned().collect();
        let wanted: BTreeSet<ObjectName> = groups.keys().chain(&self.claimed).chain(&withheld).cloned().collect();
        // One that is gone keeps its view, without resources, as long as there were Envoys of it.
        self.views.retain(|gateway, _| wanted.contains(gateway));
        for gateway in wanted {
            self.views.entry(gateway).or_default();
        }
        let is_awaited =
            |(service, port): (&ObjectName, u16)| awaited.contains(&ServicePort { service: service.clone(), port });
        let waiting: BTreeSet<&ObjectName> =
            gateways.iter().filter(|one| one.services().any(is_awaited)).map(|one| &one.gateway).collect();
        for (gateway, view) in self.views.iter_mut().filter(|(gateway, _)| !withheld.contains(*gateway)) {
            view.follow(groups.get(gateway), waiting.contains(gateway), now);
        }
        self.awaited = Some(awaited);
        self.named()
    }

    /// When the views change though nothing else does; none as soon as no Service is waited for and all routes are open.
    pub(in super::super) fn next_expiry(&self) -> Option<Instant> {
        let is_waiting = self.awaited.as_ref().is_some_and(|awaited| !awaited.is_empty());
        self.awaited_until.filter(|_| is_waiting).into_iter().chain(self.next_opening()).min()
    }

    fn next_opening(&self) -> Option<Instant> {
        self.views.values().filter_map(|view| view.ended.next_expiry()).min()
    }

    fn named(&self) -> Vec<(String, Snapshot)> {
        let is_known =
            |view: &GatewaySnapshot| view.is_judged || view.resources.snapshot().resources().next().is_some();
        let views = self.views.iter().filter(|(_, view)| is_known(view));
        let named = |(gateway, view): (&ObjectName, &GatewaySnapshot)| {
            Some((gateway_view(gateway).0?, view.resources.snapshot().clone()))
        };
        views.filter_map(named).collect()
    }
}

fn closed_listeners(gateways: &[Arc<ServedGateway>], secrets: &GatewaySecrets) -> ClosedListeners {
    let closed = |listener: &ServedListener| Some((listener.name.clone(), secrets.closed_because(listener)?));
    let of = |gateway: &Arc<ServedGateway>| {
        let closed: BTreeMap<_, _> = gateway.listeners.iter().filter_map(closed).collect();
        (!closed.is_empty()).then(|| (gateway.gateway.clone(), closed))
    };
    gateways.iter().filter_map(of).collect()
}

impl GatewaySnapshot {
    /// Takes the newest resources: a grant that has ended ends at once. Without a view of before, Envoys may have one of a control
    /// plane whose memory is lost, and pools without servers would take its place: then Services are asked first. With one there are
    /// the servers of before, too.
    fn follow(&mut self, group: Option<&ResourceGroup>, waits_for_services: bool, now: Instant) {
        let has_past = self.resources.snapshot().resources().next().is_some();
        if !self.is_judged && !has_past && waits_for_services {
            return;
        }
        self.is_judged = true;
        let groups: Vec<ResourceGroup> = self.ended.follow(self.resources.snapshot(), group, now).into_iter().collect();
        let change = self.groups.follow(&groups);
        let tombstones = self.ended.tombstones();
        self.resources.follow(&groups, &change, Retained { tombstones: &tombstones, retired: &[] });
    }
}

#[cfg(test)]
mod tests {
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
}
