use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::Settings;
use portcullis_attach::ObjectName;
use portcullis_translate::{GatewayInput, GatewayTranslator, ResourceGroup, ServicePort, ServiceServers};
use portcullis_xds::Snapshot;
use serde_json::Value;

use super::super::discovery::{DiscoveredDocuments, Want, Wants};
use super::super::group_change::KnownGroups;
use super::super::xds_resources::{Retained, XdsResources};
use super::{GatewayDemand, gateway_of_view, gateway_view};

/// Translates Gateways into the snapshots of their Envoys.
#[derive(Default)]
pub(in super::super) struct GatewaySnapshots {
    translator: GatewayTranslator,
    demand: Option<Arc<GatewayDemand>>,
    claimed: BTreeSet<ObjectName>,
    views: BTreeMap<ObjectName, GatewaySnapshot>,
    refused: Arc<BTreeMap<String, String>>,
}

/// The snapshot of one Gateway's Envoys.
#[derive(Default)]
struct GatewaySnapshot {
    groups: KnownGroups,
    resources: XdsResources,
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

    /// The newest demand; none before the first.
    pub(in super::super) fn demand(&self) -> Option<Arc<GatewayDemand>> {
        self.demand.clone()
    }

    /// `UpstreamClusters` to which no connection may be passed on, and why, as of the last snapshots.
    pub(in super::super) fn refused_clusters(&self) -> Arc<BTreeMap<String, String>> {
        Arc::clone(&self.refused)
    }

    /// The sources of Services' servers.
    pub(in super::super) fn wants(&self, settings: &Settings) -> Wants {
        let services = self.demand.iter().flat_map(|demand| &demand.services);
        let want = |(port, identity): (&ServicePort, &super::ServiceIdentity)| {
            Arc::new(Want::of_service(key(port), &identity.uid, &port.service, &identity.port_name, settings))
        };
        services.map(want).map(|want| (want.name().to_owned(), want)).collect()
    }

    /// The views of all Gateways that are served, or that Envoys belong to. One that is not served has no listener. Before the
    /// first verdicts they are what they were before this program started, and others are not there: their Envoys keep what they have.
    pub(in super::super) fn follow(
        &mut self,
        settings: &Settings,
        clusters: &BTreeMap<String, Arc<Value>>,
        discovered: &DiscoveredDocuments,
    ) -> Vec<(String, Snapshot)> {
        let Some(demand) = self.demand.clone() else { return self.named() };
        let wants = self.wants(settings);
        let (mut services, mut unasked) = (BTreeMap::new(), BTreeSet::new());
        for (port, identity) in &demand.services {
            let answer = wants.get(&key(port)).and_then(|want| discovered.answer_of(want));
            if answer.is_none() {
                unasked.insert(port.clone());
            }
            let servers = answer.unwrap_or_default();
            services.insert(port.clone(), ServiceServers { uid: identity.uid.clone(), servers });
        }
        let (gateways, translator) = (demand.served.as_slice(), &mut self.translator);
        let groups = translator.translate(&GatewayInput { settings, gateways, clusters, services: &services });
        let refused = translator.refused(&demand.passed_clusters, settings, clusters);
        if *self.refused != refused {
            self.refused = Arc::new(refused);
        }
        let wanted: BTreeSet<ObjectName> = groups.keys().chain(&self.claimed).cloned().collect();
        // One that is gone keeps its view, without resources, as long as there were Envoys of it.
        self.views.retain(|gateway, _| wanted.contains(gateway));
        for gateway in wanted {
            self.views.entry(gateway).or_default();
        }
        for (gateway, view) in &mut self.views {
            let waits = gateways.iter().find(|one| one.gateway == *gateway).is_some_and(|one| {
                one.services().any(|(service, port)| unasked.contains(&ServicePort { service: service.clone(), port }))
            });
            view.follow(groups.get(gateway), waits);
        }
        self.named()
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

/// The name of a Service's port among the names of objects, which hold no slash.
fn key(ServicePort { service, port }: &ServicePort) -> String {
    format!("{service}:{port}")
}

impl GatewaySnapshot {
    /// Takes the newest resources. At the start those of before stay until all Services are asked: pools without servers would
    /// take their place.
    fn follow(&mut self, group: Option<&ResourceGroup>, waits_for_services: bool) {
        if !self.is_judged && waits_for_services {
            return;
        }
        self.is_judged = true;
        let groups: Vec<ResourceGroup> = group.into_iter().cloned().collect();
        let change = self.groups.follow(&groups);
        self.resources.follow(&groups, &change, Retained { tombstones: &[], retired: &[] });
    }
}

#[cfg(test)]
mod tests {
    use portcullis_attach::{BoundRoute, RouteKind, WeightedBackend};
    use portcullis_attach::{HostPattern, HostTable, ListenerRole, ServedBackend, ServedGateway, ServedListener};
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
        ServedGateway { gateway: edge(), addresses: Vec::new(), settings: None, listeners: vec![listener] }
    }

    fn demand(gateways: Vec<ServedGateway>, service: Option<&ServicePort>) -> Option<Arc<GatewayDemand>> {
        let services = service.map(|port| (port.clone(), ServiceIdentity::default())).into_iter().collect();
        Some(Arc::new(GatewayDemand { served: Arc::new(gateways), services, ..GatewayDemand::default() }))
    }

    fn follow(snapshots: &mut GatewaySnapshots) -> Vec<(String, usize)> {
        let views = snapshots.follow(&Settings::default(), &BTreeMap::new(), &DiscoveredDocuments::default());
        views.into_iter().map(|(name, view)| (name, view.names(&type_urls::listener()).count())).collect()
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
    fn saved_view_stays_until_there_are_verdicts_and_servers() {
        let port = ServicePort { service: ObjectName::new("team", "web"), port: 443 };
        let name = "gateway/infra/edge".to_owned();
        let listener = || (type_urls::listener(), "old".to_owned(), portcullis_xds::Resource::new(vec![1]));
        let saved = Snapshot::new([listener()]);
        let mut snapshots = GatewaySnapshots::resume([(name.as_str(), &saved), ("wasm", &saved)].into_iter());
        assert_eq!(follow(&mut snapshots), [(name.clone(), 1)]);
        snapshots.take(demand(vec![gateway(Some(&port))], Some(&port)), BTreeSet::new());
        let views = snapshots.follow(&Settings::default(), &BTreeMap::new(), &DiscoveredDocuments::default());
        assert_eq!(views, [(name.clone(), saved)], "the Service is not asked yet");
        assert_eq!(snapshots.wants(&Settings::default()).keys().collect::<Vec<_>>(), ["team/web:443"]);
        snapshots.take(demand(vec![gateway(None)], None), BTreeSet::new());
        let views = snapshots.follow(&Settings::default(), &BTreeMap::new(), &DiscoveredDocuments::default());
        let names: Vec<&str> = views[0].1.names(&type_urls::listener()).map(String::as_str).collect();
        assert_eq!((views.len(), names), (1, vec!["-/-/-/gateway-0.0.0.0-443"]));
    }
}
