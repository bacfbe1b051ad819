//! The memory that the routes of a Gateway take of its Envoys and of the control plane. Their authors are tenants.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::listener::v3::FilterChain;

/// The most bits of the client addresses of one namespace's routes, each counted for every host name and address of the Gateway: Envoy
/// keeps a tree of them for each, of 60 bytes a bit. As many as one `UpstreamCluster` may have.
pub(super) const MAX_BITS_OF_NAMESPACE: usize = 100_000;
/// The most of all routes of a Gateway.
pub(super) const MAX_BITS: usize = 1_000_000;
/// The most bytes of the filter's configurations at a Gateway: each listener has one for each cluster behind it.
pub(super) const MAX_CONFIG_BYTES: usize = 64 << 20;
/// The most bytes of configurations for routes of one namespace with policies of their own: each has one at each listener.
pub(super) const MAX_TIGHTENED_BYTES_OF_NAMESPACE: usize = 8 << 20;
/// The most of all such routes of a Gateway.
pub(super) const MAX_TIGHTENED_BYTES: usize = 32 << 20;
/// Bytes of such a configuration beside its text: Envoy's routes to one group of servers, and what the filter compiles.
const TIGHTENED_BYTES: usize = 32 << 10;

/// The memory that is taken so far.
#[derive(Debug)]
pub(crate) struct GatewayBudget {
    /// Number of the Gateway's addresses.
    addresses: usize,
    bits: BTreeMap<String, usize>,
    config_bytes: usize,
    /// By namespace.
    tightened_bytes: BTreeMap<String, usize>,
}

impl GatewayBudget {
    pub(crate) fn new(addresses: usize) -> Self {
        Self { addresses, bits: BTreeMap::new(), config_bytes: 0, tightened_bytes: BTreeMap::new() }
    }

    /// Counts the client addresses of a route's chain; false if there is no room for them.
    pub(super) fn takes_chain(&mut self, namespace: &str, chain: &FilterChain) -> bool {
        let Some(condition) = &chain.filter_chain_match else { return true };
        let lengths = condition.source_prefix_ranges.iter().filter_map(|range| range.prefix_len.as_ref());
        let bits = lengths.fold(0_usize, |sum, length| sum.saturating_add(length.value as usize));
        let bits = bits.saturating_mul(condition.server_names.len().max(1)).saturating_mul(self.addresses);
        let all = self.bits.values().fold(bits, |sum, bits| sum.saturating_add(*bits));
        let own = self.bits.entry(namespace.to_owned()).or_default();
        let has_room = own.saturating_add(bits) <= MAX_BITS_OF_NAMESPACE && all <= MAX_BITS;
        if has_room {
            *own = own.saturating_add(bits);
        }
        has_room
    }

    /// Counts a configuration of the filter; false if there is no room for it.
    pub(crate) fn takes_config(&mut self, bytes: usize) -> bool {
        let all = self.config_bytes.saturating_add(bytes);
        let has_room = all <= MAX_CONFIG_BYTES;
        if has_room {
            self.config_bytes = all;
        }
        has_room
    }
}

impl GatewayBudget {
    /// Counts a configuration of the filter for a route with policies of its own; false if there is no room for it. They take
    /// nothing from the others.
    pub(crate) fn takes_tightened(&mut self, namespace: &str, bytes: usize) -> bool {
        let bytes = bytes.saturating_add(TIGHTENED_BYTES);
        let all = self.tightened_bytes.values().fold(bytes, |sum, bytes| sum.saturating_add(*bytes));
        let own = self.tightened_bytes.entry(namespace.to_owned()).or_default();
        let has_room = own.saturating_add(bytes) <= MAX_TIGHTENED_BYTES_OF_NAMESPACE && all <= MAX_TIGHTENED_BYTES;
        if has_room {
            *own = own.saturating_add(bytes);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::CidrRange;
    use envoy_types::pb::envoy::config::listener::v3::FilterChainMatch;

    use super::*;
    use crate::proto::uint;

    fn chain(names: usize, ranges: usize) -> FilterChain {
        let range = CidrRange { address_prefix: "192.0.2.0".to_owned(), prefix_len: Some(uint(25)) };
        FilterChain {
            filter_chain_match: Some(FilterChainMatch {
                server_names: (0..names).map(|name| format!("{name}.test")).collect(),
                source_prefix_ranges: vec![range; ranges],
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn client_addresses_of_a_namespace_are_bounded() {
        let mut budget = GatewayBudget::new(2);
        assert!(budget.takes_chain("crowd", &chain(16, 125)), "exactly as many");
        assert!(!budget.takes_chain("crowd", &chain(1, 1)));
        assert!(budget.takes_chain("crowd", &chain(4096, 0)), "none take no room");
        assert!((0..9).all(|other| budget.takes_chain(&format!("team-{other}"), &chain(16, 125))));
        assert!(!budget.takes_chain("late", &chain(1, 1)), "a million in all");
    }

    #[test]
    fn configurations_of_a_gateway_are_bounded() {
        let mut budget = GatewayBudget::new(1);
        assert!((0..64).all(|_| budget.takes_config(1 << 20)));
        assert!(!budget.takes_config(1) && budget.takes_config(0));
    }

    #[test]
    fn configurations_of_routes_with_policies_are_bounded() {
        let mut budget = GatewayBudget::new(1);
        let taken = (0..1_000).take_while(|_| budget.takes_tightened("crowd", 1)).count();
        assert_eq!(taken, 255, "of one namespace");
        assert!(budget.takes_tightened("team", 1 << 20));
        let most = (8 << 20) - (32 << 10);
        assert!((0..2).all(|other| budget.takes_tightened(&format!("team-{other}"), most)));
        assert!(!budget.takes_tightened("late", most), "of all");
        assert!((0..64).all(|_| budget.takes_config(1 << 20)), "clusters have their own room");
    }
}
