use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::cluster::v3::load_balancing_policy::Policy;
use envoy_types::pb::envoy::config::cluster::v3::{CircuitBreakers, LoadBalancingPolicy};
use envoy_types::pb::envoy::extensions::load_balancing_policies::least_request::v3::LeastRequest;
use envoy_types::pb::envoy::extensions::load_balancing_policies::random::v3::Random;
use envoy_types::pb::envoy::extensions::load_balancing_policies::round_robin::v3::RoundRobin;
use portcullis_api::{Limits, Strategy};

use crate::proto::{extension, uint};

/// Envoy's own defaults (1,024) would refuse the watches of a middling cluster.
pub(super) fn circuit_breakers(limits: &Limits) -> CircuitBreakers {
    CircuitBreakers {
        thresholds: vec![Thresholds {
            max_connections: Some(uint(limits.max_connections)),
            max_requests: Some(uint(limits.max_requests)),
            max_pending_requests: Some(uint(limits.max_pending_requests)),
            // A server that is gone strikes everything that is under way to it at once, and every read of that is asked
            // again elsewhere. A budget would refuse most of it; each request is repeated twice at most.
            max_retries: Some(uint(limits.max_requests)),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// `LeastRequest` picks the better of two at random, Envoy's default, and not the best of all: a server that has just come
/// back runs no watches yet, and would get every request until it has as many as the others.
pub(super) fn load_balancing(strategy: Strategy) -> LoadBalancingPolicy {
    let policy = match strategy {
        Strategy::RoundRobin => extension("envoy.load_balancing_policies.round_robin", RoundRobin::default()),
        Strategy::LeastRequest => extension("envoy.load_balancing_policies.least_request", LeastRequest::default()),
        Strategy::Random => extension("envoy.load_balancing_policies.random", Random::default()),
    };
    LoadBalancingPolicy { policies: vec![Policy { typed_extension_config: Some(policy) }] }
}
