//! The memory that the client addresses of a Gateway's routes take of its Envoys. Their authors are tenants, whose namespaces share it.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::listener::v3::FilterChain;
use portcullis_attach::SharedRoom;

/// The most bits of the client addresses of one namespace's routes, each counted for every host name and address of the Gateway: Envoy
/// keeps a tree of them for each, of 60 bytes a bit. As many as one `UpstreamCluster` may have.
pub(super) const MAX_BITS_OF_NAMESPACE: usize = 100_000;
/// The most of all routes of a Gateway.
pub(super) const MAX_BITS: usize = 1_000_000;

/// The chains that want memory, each by its number.
#[derive(Debug)]
pub(super) struct GatewayBudget<'a> {
    /// Number of the Gateway's addresses.
    addresses: usize,
    room: SharedRoom<'a, usize>,
}

impl<'a> GatewayBudget<'a> {
    pub(super) fn new(addresses: usize) -> Self {
        Self { addresses, room: SharedRoom::new(MAX_BITS, MAX_BITS_OF_NAMESPACE) }
    }

    /// Counts the client addresses of the chain of a namespace's route. One without any wants nothing.
    pub(super) fn want(&mut self, number: usize, namespace: &'a str, chain: &FilterChain) {
        let Some(condition) = &chain.filter_chain_match else { return };
        let lengths = condition.source_prefix_ranges.iter().filter_map(|range| range.prefix_len.as_ref());
        let bits = lengths.fold(0_usize, |sum, length| sum.saturating_add(length.value as usize));
        let bits = bits.saturating_mul(condition.server_names.len().max(1)).saturating_mul(self.addresses);
        if bits > 0 {
            self.room.want(number, namespace, bits);
        }
    }

    /// The chains for which there is no room.
    pub(super) fn refused(self) -> BTreeSet<usize> {
        self.room.refused()
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
        for (number, (names, ranges)) in [(16, 125), (1, 1), (4096, 0)].into_iter().enumerate() {
            budget.want(number, "crowd", &chain(names, ranges));
        }
        assert_eq!(budget.refused(), [1].into(), "the first has exactly as many, and none take no room");
    }

    /// Chains are in the order of names, and those of strangers may be the first.
    #[test]
    fn client_addresses_within_a_share_have_room() {
        let mut budget = GatewayBudget::new(2);
        let crowd: Vec<String> = (0..10).map(|team| format!("crowd-{team}")).collect();
        crowd.iter().enumerate().for_each(|(number, team)| budget.want(number, team, &chain(16, 125)));
        budget.want(10, "late", &chain(1, 1));
        assert_eq!(budget.refused(), [9].into(), "a million in all");
    }
}
