//! Which Gateways' Envoys may have the gateway's credential of an `UpstreamCluster` or a `KubernetesUpstream`.

use portcullis_api::upstream_of_key;
use portcullis_gateway_api::GATEWAY_API_GROUP;
use portcullis_instances::{MemberName, SeparateOwners};

use crate::condition::Rejection;
use crate::grants::{Grants, Referent, Referrer};
use crate::input::Inventory;
use crate::name::{CLUSTER, ObjectName, RouteKind, UPSTREAM};
use crate::route::{JudgedRoute, ServedBackend, WeightedBackend};

/// The permissions of Gateways. A route chooses its Gateway, and with it whose Envoys get the credential: the grant for the route is
/// not one for them.
#[derive(Clone, Copy)]
pub(crate) struct CredentialGrants<'a> {
    pub(crate) grants: &'a Grants<'a>,
    pub(crate) inventory: &'a Inventory,
}

impl CredentialGrants<'_> {
    fn permit(&self, gateway: &ObjectName, cluster: &str) -> bool {
        let from = Referrer { group: GATEWAY_API_GROUP, kind: "Gateway", namespace: &gateway.namespace };
        self.grants.permit(from, self.referent(cluster))
    }

    /// The object of a key, with the namespace whose grants count.
    fn referent<'k>(&'k self, cluster: &'k str) -> Referent<'k> {
        match upstream_of_key(cluster) {
            Some((namespace, name)) => Referent { group: UPSTREAM.0, kind: UPSTREAM.1, namespace, name },
            None => {
                let namespace = &self.inventory.home_namespace;
                Referent { group: CLUSTER.0, kind: CLUSTER.1, namespace, name: cluster }
            }
        }
    }

    /// Whether a server may be reached through a Gateway. Connections are passed on without a credential.
    pub(crate) fn permit_backend(&self, gateway: &ObjectName, kind: RouteKind, backend: &WeightedBackend) -> bool {
        let ServedBackend::Cluster(cluster) = &backend.backend else { return true };
        self.separated(gateway, cluster).is_none() && (kind != RouteKind::Http || self.permit(gateway, cluster))
    }

    /// Why Gateway and cluster are not of one owner, if they are not. It is not said of a cluster without a permission.
    fn separated(&self, gateway: &ObjectName, cluster: &str) -> Option<SeparateOwners> {
        let gateway = MemberName::gateway(gateway.to_string());
        self.inventory.owners.separated(&gateway, &MemberName::cluster(cluster))
    }

    /// Why a route does not reach all of its servers through a Gateway.
    pub(crate) fn refusal(&self, gateway: &ObjectName, route: &JudgedRoute<'_>) -> Option<Rejection> {
        let refused = route.backends.iter().find(|one| !self.permit_backend(gateway, route.kind, one))?;
        let ServedBackend::Cluster(cluster) = &refused.backend else { return None };
        let is_granted = route.kind != RouteKind::Http || self.permit(gateway, cluster);
        if let Some(why) = self.separated(gateway, cluster).filter(|_| is_granted) {
            return Some(Rejection::new("RefNotPermitted", why.to_string()));
        }
        let Referent { kind, namespace, name, .. } = self.referent(cluster);
        let message = format!(
            "no ReferenceGrant in namespace {namespace} permits Gateways of namespace {} to lead to {kind} {name}: their Envoys \
             would get its credential",
            gateway.namespace
        );
        Some(Rejection::new("RefNotPermitted", message))
    }
}
