use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_attach::{ObjectName, RouteClosures, ServedGateway};
use portcullis_translate::{GatewayInput, GatewayTranslator, RefusedClusters, ResourceGroup, translate_gateways};

use super::super::instance_views::GatewayDivision;
use super::GatewayDemand;

/// The resources of all Gateways.
#[derive(Default)]
pub(super) struct DividedGroups {
    pub(super) groups: BTreeMap<ObjectName, ResourceGroup>,
    pub(super) refused: RefusedClusters,
    /// Routes whose connections a Gateway closes, and why.
    pub(super) closures: RouteClosures,
}

/// Translates Gateways, each by the settings of its instance.
#[derive(Default)]
pub(super) struct DividedGateways {
    /// By the instance whose settings they use; of those of all the name is empty.
    translators: BTreeMap<String, GatewayTranslator>,
}

impl DividedGateways {
    /// Translates the Gateways of each instance by its settings, without the clusters of others. Tenants share the room of all.
    pub(super) fn translate(
        &mut self,
        demand: &GatewayDemand,
        input: &GatewayInput<'_>,
        division: &GatewayDivision,
    ) -> DividedGroups {
        self.translators.retain(|key, _| division.keys().any(|one| one == key));
        for key in division.keys() {
            self.translators.entry(key.to_owned()).or_default();
        }
        let gateways: BTreeMap<&str, Vec<Arc<ServedGateway>>> =
            division.keys().map(|key| (key, gateways_of(key, input, division))).collect();
        let of_instance = |key: &str| GatewayInput {
            settings: division.settings(key, input.settings),
            gateways: gateways.get(key).map_or(&[][..], Vec::as_slice),
            ..*input
        };
        let mut parts: Vec<(&mut GatewayTranslator, GatewayInput<'_>)> =
            self.translators.iter_mut().map(|(key, translator)| (translator, of_instance(key))).collect();
        let groups = translate_gateways(&mut parts).into_iter().flatten().collect();
        let mut all = DividedGroups { groups, ..DividedGroups::default() };
        for (key, translator) in &mut self.translators {
            let is_own = |cluster: &&String| division.settings_key_of_cluster(cluster) == key;
            let (passed, requested) =
                (demand.passed_clusters.iter().filter(is_own), demand.requested_clusters.iter().filter(is_own));
            let settings = division.settings(key, input.settings);
            let found = translator.refused(passed, requested, &GatewayInput { settings, ..*input });
            all.refused.connections.extend(found.connections);
            all.refused.requests.extend(found.requests);
            all.refused.policies.extend(found.policies);
            for (route, closures) in translator.closures() {
                all.closures.entry(route).or_default().extend(closures);
            }
        }
        all
    }
}

/// The Gateways that are served by some settings, without clusters of other instances.
fn gateways_of(key: &str, input: &GatewayInput<'_>, division: &GatewayDivision) -> Vec<Arc<ServedGateway>> {
    let is_of =
        |one: &&Arc<ServedGateway>| division.is_served(&one.gateway) && division.settings_key(&one.gateway) == key;
    let divided = |one: &Arc<ServedGateway>| {
        let without = one.without_clusters(|cluster| division.permits(&one.gateway, cluster));
        without.map_or_else(|| Arc::clone(one), Arc::new)
    };
    input.gateways.iter().filter(is_of).map(divided).collect()
}
