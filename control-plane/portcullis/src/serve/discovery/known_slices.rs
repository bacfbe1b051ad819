use std::collections::BTreeMap;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use portcullis_api::SlicePort;

use super::slices::{SliceServers, is_of_service, servers_of};

/// Most endpoints of a Service that are kept, a slice without any counted as one: tenants write slices, and an object uses fewer.
const MAX_ENDPOINTS: usize = 4_000;

/// The slices of a Service since the last list, without what is not read of them.
#[derive(Default)]
pub(super) struct KnownSlices {
    /// The Service's UID, where it is known.
    uid: Option<String>,
    slices: BTreeMap<String, EndpointSlice>,
    endpoints: usize,
    /// Whether there was no room for one. There may be after the next list.
    is_cut: bool,
}

impl KnownSlices {
    /// None yet, of the Service with this UID.
    pub(super) fn of(uid: Option<String>) -> Self {
        Self { uid, ..Self::default() }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::of(self.uid.take());
    }

    pub(super) fn insert(&mut self, slice: EndpointSlice) {
        self.remove(&slice);
        if !is_of_service(&slice, self.uid.as_deref()) {
            return;
        }
        let endpoints = self.endpoints.saturating_add(weight(&slice));
        if endpoints > MAX_ENDPOINTS {
            self.is_cut = true;
            return;
        }
        self.endpoints = endpoints;
        self.slices.insert(slice.name_any(), reduced(slice));
    }

    pub(super) fn remove(&mut self, slice: &EndpointSlice) {
        let before = self.slices.remove(&slice.name_any());
        self.endpoints = self.endpoints.saturating_sub(before.as_ref().map_or(0, weight));
    }

    /// The servers at a port.
    pub(super) fn servers(&self, port: &SlicePort) -> SliceServers {
        let mut found = servers_of(self.slices.values(), port);
        if self.is_cut {
            found
                .unused
                .insert(0, format!("the Service has more than {MAX_ENDPOINTS} endpoints, and not all are looked at"));
        }
        found
    }
}

fn weight(slice: &EndpointSlice) -> usize {
    slice.endpoints.as_ref().map_or(1, |endpoints| endpoints.len().max(1))
}

/// Leaves what is read.
fn reduced(mut slice: EndpointSlice) -> EndpointSlice {
    let metadata = &mut slice.metadata;
    (metadata.managed_fields, metadata.annotations, metadata.labels) = (None, None, None);
    for endpoint in slice.endpoints.iter_mut().flatten() {
        endpoint.addresses.truncate(1);
        (endpoint.deprecated_topology, endpoint.hints, endpoint.hostname) = (None, None, None);
        (endpoint.node_name, endpoint.target_ref) = (None, None);
    }
    slice
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(name: &str, endpoints: usize, owner: &str) -> EndpointSlice {
        let endpoint = |number: usize| {
            let address = format!("192.0.{}.{}", number / 250, number % 250 + 1);
            json!({"addresses": [address, "192.0.2.9"], "nodeName": "n", "zone": "a", "hostname": "h"})
        };
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "annotations": {"a": "b"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": owner}],
            },
            "addressType": "IPv4",
            "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
            "ports": [{"port": 443}],
        }))
        .unwrap()
    }

    #[test]
    fn slices_that_are_kept_have_a_bound() {
        let mut known = KnownSlices::of(Some("u".to_owned()));
        let servers = |known: &KnownSlices| known.servers(&SlicePort::Only);
        for number in 0..3 * MAX_ENDPOINTS {
            known.insert(slice(&format!("empty-{number}"), 0, "u"));
        }
        assert_eq!(known.slices.len(), MAX_ENDPOINTS);
        known.clear();
        known.insert(slice("former", 1, "v"));
        assert_eq!((known.slices.len(), servers(&known).unused.len()), (0, 0), "that of another Service takes no room");
        for _ in 0..10 {
            known.insert(slice("a", 900, "u"));
        }
        assert_eq!((servers(&known).servers.len(), servers(&known).unused), (900, Vec::new()), "one that is edited");
        for name in ["b", "c", "d", "e", "f"] {
            known.insert(slice(name, 900, "u"));
        }
        assert_eq!(known.slices.len(), 4);
        assert!(servers(&known).unused[0].contains("not all are looked at"));
        known.remove(&slice("a", 0, "u"));
        known.insert(slice("f", 900, "u"));
        assert_eq!(known.slices.len(), 4, "the room of one that is gone");
        assert!(known.slices.values().all(|one| one.metadata.annotations.is_none()));
        assert!(
            known.slices.values().flat_map(|one| one.endpoints.iter().flatten()).all(|one| one.addresses.len() == 1)
        );
        known.clear();
        known.insert(slice("a", 1, "u"));
        assert_eq!(servers(&known).unused.len(), 0);
    }
}
