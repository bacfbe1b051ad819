use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_attach::{ObjectName, RouteClosures, ServedGateway};
use portcullis_translate::{GatewayInput, GatewayTranslator, RefusedClusters, ResourceGroup};

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
    /// Translates the Gateways of each instance by its settings, without the clusters of others.
    pub(super) fn translate(
        &mut self,
        demand: &GatewayDemand,
        input: &GatewayInput<'_>,
        division: &GatewayDivision,
    ) -> DividedGroups {
        self.translators.retain(|key, _| division.keys().any(|one| one == key));
        let mut all = DividedGroups::default();
        for key in division.keys() {
            let is_of = |one: &&Arc<ServedGateway>| {
                division.is_served(&one.gateway) && division.settings_key(&one.gateway) == key
            };
            let divided = |one: &Arc<ServedGateway>| {
                let without = one.without_clusters(|cluster| division.permits(&one.gateway, cluster));
                without.map_or_else(|| Arc::clone(one), Arc::new)
            };
            let gateways: Vec<Arc<ServedGateway>> = input.gateways.iter().filter(is_of).map(divided).collect();
            let settings = division.settings(key, input.settings);
            let translator = self.translators.entry(key.to_owned()).or_default();
            all.groups.extend(translator.translate(&GatewayInput { settings, gateways: &gateways, ..*input }));
            let is_own = |cluster: &&String| division.settings_key_of_cluster(cluster) == key;
            let (passed, requested) =
                (demand.passed_clusters.iter().filter(is_own), demand.requested_clusters.iter().filter(is_own));
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
