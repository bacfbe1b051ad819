//! Routes that are accepted and whose connections a Gateway closes, by the translation of the control plane. Placeholders are in the place
//! of Secrets and `ConfigMaps`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use portcullis_api::{
    ClientVerification, KeyPair, PublicBytes, SecretBytes, Settings, check_upstream, parse_cluster, parse_upstream,
    unchecked_cluster, with_placeholders,
};
use portcullis_attach::{
    Attached, BoundRoute, ClosedRoutes, ListenerRole, ObjectName, RouteClosures, ServedGateway, ServedListener,
    ValidationMode,
};
use portcullis_translate::{
    GatewayInput, GatewaySecrets, GatewayTranslator, ResolvedUpstream, ServicePort, ServiceServers, only_cluster,
    translate_gateways,
};
use serde_json::Value;

use super::instances::CheckedInstances;

/// Everything that is translated.
pub(super) struct TranslatedObjects<'a> {
    /// The accepted `UpstreamClusters`, by name.
    pub(super) clusters: BTreeMap<String, Arc<Value>>,
    /// The `KubernetesUpstreams` that can be used, by their keys.
    pub(super) upstreams: BTreeMap<String, Arc<ResolvedUpstream>>,
    /// The settings of all gateways.
    pub(super) settings: &'a Settings,
    pub(super) instances: &'a CheckedInstances,
}

/// The outcome of a translation.
#[derive(Debug, Default)]
pub(super) struct CheckedClosures {
    closures: RouteClosures,
    /// Everything that could not be decided.
    pub(super) notes: Vec<String>,
}

impl TranslatedObjects<'_> {
    /// Translates the accepted Gateways, each by the settings of its instance.
    pub(super) fn closures(&self, attached: &Attached) -> CheckedClosures {
        let names = attached.passed_clusters.iter().chain(&attached.requested_clusters);
        let cluster = |name: &String| Some((name.clone(), with_placeholders(self.clusters.get(name)?)));
        let clusters: BTreeMap<String, Arc<Value>> = names.filter_map(cluster).collect();
        let mut by_instance: BTreeMap<Option<&str>, Vec<Arc<ServedGateway>>> = BTreeMap::new();
        for gateway in &attached.served {
            let instance = self.instances.of_gateway(&gateway.gateway);
            // One whose instance lacks its settings is not served.
            if instance.is_none_or(|instance| !self.instances.lacks_settings(instance)) {
                by_instance.entry(instance).or_default().push(Arc::new(without_authorities(gateway)));
            }
        }
        let mut checked = CheckedClosures { notes: self.undecided_handshakes(attached), ..CheckedClosures::default() };
        let settings = by_instance.keys().map(|instance| {
            let own = instance.and_then(|instance| self.instances.settings_of(instance));
            with_certificate(own.unwrap_or(self.settings))
        });
        let settings: Vec<Settings> = settings.collect();
        let found: Vec<_> = by_instance.values().map(|all| (services(all), certificates(all))).collect();
        let inputs = settings.iter().zip(by_instance.values()).zip(&found);
        let inputs: Vec<GatewayInput<'_>> = inputs
            .map(|((settings, gateways), (services, secrets))| GatewayInput {
                settings,
                gateways,
                clusters: &clusters,
                upstreams: &self.upstreams,
                services,
                secrets,
            })
            .collect();
        let mut translators: Vec<GatewayTranslator> = inputs.iter().map(|_| GatewayTranslator::default()).collect();
        let mut parts: Vec<_> = translators.iter_mut().zip(inputs.iter().copied()).collect();
        translate_gateways(&mut parts);
        for (translator, input) in translators.iter_mut().zip(&inputs) {
            for (route, closures) in translator.closures() {
                checked.closures.entry(route).or_default().extend(closures);
            }
            let requested: BTreeSet<String> =
                input.gateways.iter().flat_map(|one| requested(one)).map(|(.., key)| key.to_owned()).collect();
            let refused = translator.refused(std::iter::empty(), &requested, input).requests;
            let uncounted = refused.into_keys().filter(|name| self.clusters.contains_key(name));
            checked.notes.extend(uncounted.map(|name| {
                format!("the room that UpstreamCluster {name} takes at Gateways is not counted: not all that it refers to is known")
            }));
        }
        checked
    }

    /// The routes of which only the content of `ConfigMaps` says whether both client CAs fit together.
    fn undecided_handshakes(&self, attached: &Attached) -> Vec<String> {
        let mut notes = BTreeSet::new();
        for gateway in &attached.served {
            for (listener, route, cluster) in
                requested(gateway).filter(|(listener, ..)| asks_for_certificates(listener))
            {
                if self.verifies_handshakes(cluster) {
                    notes.insert(format!(
                        "whether the client CAs of {cluster} and those of tls.frontend fit together at listener {} of Gateway {} is not \
                         decided for {} {}: ConfigMaps are not read (DifferentClientAuthorities)",
                        listener.name, gateway.gateway, route.kind, route.route
                    ));
                }
            }
        }
        notes.into_iter().collect()
    }

    fn verifies_handshakes(&self, key: &str) -> bool {
        let of_upstream = |upstream: &Arc<ResolvedUpstream>| {
            let raw = parse_upstream(&upstream.document).ok()?;
            check_upstream(&raw, &upstream.material, &upstream.rules, true).outcome.ok()
        };
        let of_cluster = |document: &Arc<Value>| unchecked_cluster(&parse_cluster(document).ok()?);
        let found =
            self.upstreams.get(key).and_then(of_upstream).or_else(|| self.clusters.get(key).and_then(of_cluster));
        found.is_some_and(|cluster| cluster.client_verification == ClientVerification::Handshake)
    }
}

impl CheckedClosures {
    /// Routes with their closures in the conditions, and the counts of listeners, as the control plane writes them.
    pub(super) fn apply(&self, attached: &mut Attached) {
        let closed = ClosedRoutes::of(attached, &self.closures);
        attached.routes = attached.routes.iter().map(|route| closed.route(route).into_owned()).collect();
        attached.gateways = attached.gateways.iter().map(|gateway| closed.gateway(gateway).into_owned()).collect();
    }
}

/// The routes of listeners that end TLS, with the cluster or upstream to which their requests go.
fn requested(gateway: &ServedGateway) -> impl Iterator<Item = (&ServedListener, &BoundRoute, &str)> {
    gateway.listeners.iter().flat_map(|listener| {
        let table = match &listener.role {
            ListenerRole::Terminate { routes, .. } => Some(routes),
            ListenerRole::Redirect(_) | ListenerRole::Passthrough(_) => None,
        };
        let routes = table.into_iter().flat_map(|table| table.routes.values());
        routes.filter_map(move |route| Some((listener, route, only_cluster(route)?)))
    })
}

fn asks_for_certificates(listener: &ServedListener) -> bool {
    let ListenerRole::Terminate { client_ca: Some(client_ca), .. } = &listener.role else { return false };
    client_ca.mode == ValidationMode::AllowValidOnly
}

/// The same without the CAs of `tls.frontend`: with any in their place, connections of some clusters would be closed.
fn without_authorities(gateway: &ServedGateway) -> ServedGateway {
    let mut without = gateway.clone();
    for listener in &mut without.listeners {
        if let ListenerRole::Terminate { client_ca, .. } = &mut listener.role {
            *client_ca = None;
        }
    }
    without
}

/// A certificate in the place of one that is not read.
fn unknown_certificate() -> KeyPair {
    let (chain, key) = (PublicBytes::new(b"unknown".to_vec()), SecretBytes::new(b"unknown".to_vec()));
    KeyPair { chain, key, validity: Duration::ZERO, holder: Vec::new() }
}

/// The settings with a default certificate: that a cluster lacks one is found elsewhere.
fn with_certificate(settings: &Settings) -> Settings {
    Settings {
        default_certificate: settings.default_certificate.clone().or_else(|| Some(unknown_certificate())),
        ..settings.clone()
    }
}

/// All certificates of listeners.
fn certificates(gateways: &[Arc<ServedGateway>]) -> GatewaySecrets {
    let unknown = Arc::new(unknown_certificate());
    let listeners = gateways.iter().flat_map(|gateway| &gateway.listeners);
    let names = listeners.flat_map(|listener| match &listener.role {
        ListenerRole::Terminate { certificates, .. } => certificates.as_slice(),
        ListenerRole::Redirect(_) | ListenerRole::Passthrough(_) => &[],
    });
    let serving = names.map(|name| (name.clone(), Arc::clone(&unknown))).collect();
    GatewaySecrets { serving, ..GatewaySecrets::default() }
}

/// All Services, without servers: these make no difference to what is closed.
fn services(gateways: &[Arc<ServedGateway>]) -> BTreeMap<ServicePort, ServiceServers> {
    let ports = gateways.iter().flat_map(|gateway| gateway.services());
    let port = |(service, port): (&ObjectName, u16)| ServicePort { service: service.clone(), port };
    ports.map(|one| (port(one), ServiceServers::default())).collect()
}
