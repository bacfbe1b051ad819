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

/// The memory that is taken so far.
#[derive(Debug)]
pub(super) struct GatewayBudget {
    /// Number of the Gateway's addresses.
    addresses: usize,
    bits: BTreeMap<String, usize>,
    config_bytes: usize,
}

impl GatewayBudget {
    pub(super) fn new(addresses: usize) -> Self {
        Self { addresses, bits: BTreeMap::new(), config_bytes: 0 }
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
    pub(super) fn takes_config(&mut self, bytes: usize) -> bool {
        let all = self.config_bytes.saturating_add(bytes);
        let has_room = all <= MAX_CONFIG_BYTES;
        if has_room {
            self.config_bytes = all;
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
}
