use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3::retry_policy::{RetryBackOff, RetryHostPredicate, retry_host_predicate};
use envoy_types::pb::envoy::config::route::v3::route_action::{ClusterNotFoundResponseCode, ClusterSpecifier};
use envoy_types::pb::envoy::config::route::v3::{RetryPolicy, Route, RouteAction, route};
use envoy_types::pb::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;
use envoy_types::util::pack_any;
use portcullis_filter_config::{Pool, RequestClass};

use super::any_path;
use crate::proto::{duration, uint};

/// The route of one destination.
pub(super) fn route(key: &str, target: String, pool: Pool, class: RequestClass, timeout: Duration) -> Route {
    let mut action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(target)),
        cluster_not_found_response_code: ClusterNotFoundResponseCode::ServiceUnavailable.into(),
        retry_policy: Some(retry_policy(pool, class)),
        ..Default::default()
    };
    if class.has_timeout() {
        action.timeout = Some(duration(timeout));
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

/// What may be repeated, so that a write or a command never is: a connection that failed and a stream that was refused
/// reached nobody; after a reset before headers only a read may be sent again.
fn retry_on(pool: Pool, class: RequestClass) -> &'static str {
    match (pool, class.is_repeatable()) {
        (Pool::Upgrade, _) => "connect-failure",
        (_, true) => "connect-failure,refused-stream,reset",
        (_, false) => "connect-failure,refused-stream",
    }
}

fn retry_policy(pool: Pool, class: RequestClass) -> RetryPolicy {
    let other_host = RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(retry_host_predicate::ConfigType::TypedConfig(pack_any(PreviousHostsPredicate {}))),
    };
    RetryPolicy {
        retry_on: retry_on(pool, class).to_owned(),
        num_retries: Some(uint(2)),
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
    fn only_reads_are_repeated_after_a_reset() {
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
