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
use super::cluster_route_namespaces::KnownNamespaces;
use super::divided_gateways::{DividedGateways, DividedGroups};
use super::ended_routes::EndedRoutes;
use super::requested_objects::{KnownRequests, RequestedObjects};
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
    requests: KnownRequests,
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
    namespaces: KnownNamespaces,
    /// Whether it is of verdicts, and not of the time before this program started.
    is_judged: bool,
    /// Whether it stays as it is: nothing of it has its time meanwhile.
    is_withheld: bool,
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

    /// All Gateways of the newest demand, by which instances select; `None` while it is not known which there are.
    pub(in super::super) fn members(&self) -> Option<&BTreeMap<ObjectName, GatewayMember>> {
        self.demand.as_ref()?.gateways.as_ref()
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

    /// The objects to which the views send requests, as of the last snapshots.
    pub(in super::super) fn requested(&mut self) -> Arc<RequestedObjects> {
        self.requests.follow(self.views.iter().map(|(gateway, view)| (gateway, view.resources.snapshot())))
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
        let served: BTreeMap<&ObjectName, &Arc<ServedGateway>> =
            gateways.iter().map(|one| (&one.gateway, one)).collect();
        for (gateway, view) in &mut self.views {
            view.is_withheld = withheld.contains(gateway);
            if view.is_withheld {
                continue;
            }
            let served = groups.get(gateway).zip(served.get(gateway).copied());
            view.follow(served, waiting.contains(gateway), now);
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
        let followed = self.views.values().filter(|view| !view.is_withheld);
        followed.filter_map(|view| view.ended.next_expiry()).min()
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
    fn follow(
        &mut self,
        served: Option<(&ResourceGroup, &Arc<ServedGateway>)>,
        waits_for_services: bool,
        now: Instant,
    ) {
        let has_past = self.resources.snapshot().resources().next().is_some();
        if !self.is_judged && !has_past && waits_for_services {
            return;
        }
        self.is_judged = true;
        let (group, gateway) = served.unzip();
        let namespaces = self.namespaces.follow(gateway);
        let open = self.ended.follow(self.resources.snapshot(), group, namespaces, now);
        let groups: Vec<ResourceGroup> = open.into_iter().collect();
        let change = self.groups.follow(&groups);
        let tombstones = self.ended.tombstones();
        self.resources.follow(&groups, &change, Retained { tombstones: &tombstones, retired: &[] });
    }
}

#[cfg(test)]
mod tests;
