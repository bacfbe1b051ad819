use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3::retry_policy::{RetryBackOff, RetryHostPredicate, retry_host_predicate};
use envoy_types::pb::envoy::config::route::v3::route_action::{ClusterNotFoundResponseCode, ClusterSpecifier};
use envoy_types::pb::envoy::config::route::v3::{RetryPolicy, Route, RouteAction, route};
use envoy_types::pb::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;
use envoy_types::util::pack_any;
use portcullis_api::{Cluster, UpstreamIdentity};
use portcullis_filter_config::{Pool, RequestClass};

use super::any_path;
use crate::proto::{duration, uint};

/// How often a request may be sent again.
const RETRIES: u32 = 2;
/// The same where servers have zones or weights: of a zone's only server Envoy knows nothing better than to try it again, until two
/// failures have ejected it, and one of much weight is picked again and again.
const RETRIES_AT_UNEQUAL_SERVERS: u32 = 4;

/// Timeout of one try of a read without a credential. Its pool uses HTTP/1.1 and has no pings that would find a server which
/// answers nothing; and servers answer such reads soon.
const ANONYMOUS_READ_TIMEOUT: Duration = Duration::from_secs(15);

/// The common parts of all routes of a cluster.
pub(super) struct Common {
    /// Timeout of one try of a read without a credential.
    per_try_timeout: Option<Duration>,
    /// The request timeout.
    timeout: Duration,
    retries: u32,
}

impl Common {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let are_unequal = cluster.servers.iter().any(|server| !server.zone.is_empty() || server.has_weight());
        let retries = if are_unequal { RETRIES_AT_UNEQUAL_SERVERS } else { RETRIES };
        let is_strangers_only = matches!(cluster.upstream_identity, UpstreamIdentity::Impersonate);
        Self {
            timeout: cluster.request_timeout,
            retries,
            per_try_timeout: is_strangers_only.then_some(ANONYMOUS_READ_TIMEOUT),
        }
    }
}

/// The route of one destination.
pub(super) fn route(key: &str, target: String, pool: Pool, class: RequestClass, common: &Common) -> Route {
    let mut action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(target)),
        cluster_not_found_response_code: ClusterNotFoundResponseCode::ServiceUnavailable.into(),
        retry_policy: Some(retry_policy(pool, class, common.retries)),
        ..Default::default()
    };
    if (pool, class) == (Pool::Anonymous, RequestClass::Read)
        && let Some(policy) = &mut action.retry_policy
    {
        policy.per_try_timeout = common.per_try_timeout.map(duration);
    }
    if class.has_timeout() {
        action.timeout = Some(duration(common.timeout));
    } else {
        // 0 is "never": watches and sessions end when one of their sides ends them.
        action.timeout = Some(duration(Duration::ZERO));
        action.idle_timeout = Some(duration(Duration::ZERO));
    }
    Route {
        name: key.to_owned(),
        r#match: Some(any_path()),
        action: Some(route::Action::Route(action)),
        ..Default::default()
    }
}

/// The conditions of a retry, such that a write or a command is never repeated: a failed connection and a refused stream
/// reached no server; after a reset before headers only a read may be sent again.
fn retry_on(pool: Pool, class: RequestClass) -> &'static str {
    match (pool, class.is_repeatable()) {
        (Pool::Upgrade, _) => "connect-failure",
        (_, true) => "connect-failure,refused-stream,reset",
        (_, false) => "connect-failure,refused-stream",
    }
}

fn retry_policy(pool: Pool, class: RequestClass, retries: u32) -> RetryPolicy {
    let other_host = RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(retry_host_predicate::ConfigType::TypedConfig(pack_any(PreviousHostsPredicate {}))),
    };
    RetryPolicy {
        retry_on: retry_on(pool, class).to_owned(),
        num_retries: Some(uint(retries)),
        retry_host_predicate: vec![other_host],
        host_selection_retry_max_attempts: 5,
        retry_back_off: Some(RetryBackOff {
            base_interval: Some(duration(Duration::from_millis(25))),
            max_interval: Some(duration(Duration::from_millis(250))),
        }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_alone_are_retried_after_a_reset() {
        for pool in Pool::ALL {
            for class in RequestClass::ALL {
                let may = pool != Pool::Upgrade && matches!(class, RequestClass::Read | RequestClass::Watch);
                let parts: Vec<_> = retry_on(pool, class).split(',').collect();
                assert_eq!(parts.contains(&"reset"), may, "{pool:?} {class:?}");
                assert!(parts.iter().all(|part| ["connect-failure", "refused-stream", "reset"].contains(part)));
            }
        }
    }
}
