//! The owners of nodes that share limits. Gateways of the control plane's own namespace are the platform's, as the Envoys of no Gateway;
//! those of each other namespace are a guest.

use portcullis_limits::NodeOwners;
use portcullis_xds::{gateway_namespace, node_owner};

/// The owners of nodes, for a control plane of this namespace.
pub(super) fn node_owners(home: Option<String>) -> NodeOwners {
    NodeOwners::new(move |node| {
        let is_guest = gateway_namespace(node).is_some_and(|namespace| Some(namespace) != home.as_deref());
        node_owner(node).filter(|_| is_guest).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_namespaces_of_other_gateways() {
        let guest = |node: &str, home: Option<&str>| node_owners(home.map(str::to_owned)).guest_of(node);
        let rows = [
            ("envoy-0", Some("portcullis"), None),
            ("/gateway:infra/edge/envoy-0", Some("portcullis"), None),
            ("team-a/envoy-0", Some("portcullis"), None),
            ("gateway:portcullis/edge/envoy-0", Some("portcullis"), None),
            ("gateway:portcullis/edge/envoy-0", None, Some("gateway:portcullis")),
            ("gateway:infra/edge/envoy-0", Some("portcullis"), Some("gateway:infra")),
            ("gateway:infra/other/envoy-1", Some("portcullis"), Some("gateway:infra")),
            // A certificate that names a Gateway of the platform and one of a tenant is the tenant's.
            ("gateway:infra/edge+portcullis/edge/envoy-0", Some("portcullis"), Some("gateway:+")),
            ("gateway:portcullis/edge+team-a/edge/envoy-0", Some("portcullis"), Some("gateway:+")),
            ("gateway:-/envoy-0", Some("portcullis"), Some("gateway:-")),
        ];
        for (node, home, expected) in rows {
            assert_eq!(guest(node, home).as_deref(), expected, "{node}");
        }
    }
}
