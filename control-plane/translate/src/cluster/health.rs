use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::OutlierDetection;
use envoy_types::pb::envoy::config::cluster::v3::cluster::CommonLbConfig;
use envoy_types::pb::envoy::config::core::v3::health_check::{HealthChecker, HttpHealthCheck};
use envoy_types::pb::envoy::config::core::v3::{HeaderValueOption, HealthCheck};
use envoy_types::pb::envoy::r#type::v3::{CodecClientType, Int64Range, Percent};
use portcullis_api::{Cluster, PeerName, SecondaryPools, Settings, UpstreamIdentity};
use portcullis_filter_config::Pool;

use crate::proto::{boolean, duration, header, seconds, uint};

/// The longest time between two checks of a server that is about to change sides.
const EDGE_INTERVAL: Duration = Duration::from_secs(1);
/// The longest check, in seconds, where pools are made on demand: while Envoy waits for the first check of a new pool, whichever it
/// is, it asks for no other one, of any cluster.
pub(crate) const LONGEST_CHECK: u64 = 3;

/// GET /readyz, or the path of `healthCheck.path`, over the pool's own TLS and protocol: with the client certificate if the
/// pool has one, never with the token, because Envoy does not inject credentials into health checks. By default kube-apiserver
/// lets anonymous clients read /readyz; a server that answers 401 or 403 is alive.
///
/// The check carries a `Via` header, so that a server which is this gateway itself, or leads back to it, is never healthy. Of
/// a connection that is passed on nothing reads that header on the way: the server at the end answers such a check.
pub(super) fn health_check(cluster: &Cluster, pool: Pool, settings: &Settings) -> HealthCheck {
    let codec = match pool {
        Pool::Http2 | Pool::PassThrough => CodecClientType::Http2,
        Pool::Upgrade | Pool::Anonymous => CodecClientType::Http1,
    };
    let exactly = |status| Int64Range { start: status, end: status + 1 };
    let is_stranger = matches!(pool, Pool::Anonymous | Pool::PassThrough) || cluster.certificate.is_none();
    let strangers = [401, 403].into_iter().filter(|_| is_stranger);
    let check = &cluster.health_check;
    let interval = Some(duration(check.interval));
    let timeout = match settings.secondary_pools {
        SecondaryPools::Eager => check.timeout,
        SecondaryPools::OnDemand => check.timeout.min(Duration::from_secs(LONGEST_CHECK)),
    };
    let http = HttpHealthCheck {
        host: authority(&cluster.peer_name),
        path: check.path.clone(),
        request_headers_to_add: headers(cluster, pool, settings),
        codec_client_type: codec.into(),
        // Envoy ejects at once on any status that is in neither list; expected ones go first.
        retriable_statuses: check.counts_statuses.then_some(Int64Range { start: 100, end: 600 }).into_iter().collect(),
        expected_statuses: std::iter::once(200).chain(strangers).map(exactly).collect(),
        ..Default::default()
    };
    HealthCheck {
        timeout: Some(duration(timeout)),
        interval,
        // Without it a cluster without traffic is checked once a minute.
        no_traffic_interval: interval,
        unhealthy_interval: interval,
        // The second of two bad checks is made soon after the first.
        unhealthy_edge_interval: Some(duration(check.interval.min(EDGE_INTERVAL))),
        healthy_edge_interval: Some(duration(check.interval.min(EDGE_INTERVAL))),
        interval_jitter_percent: 10,
        unhealthy_threshold: Some(uint(check.unhealthy_threshold)),
        healthy_threshold: Some(uint(check.healthy_threshold)),
        reuse_connection: Some(boolean(true)),
        health_checker: Some(HealthChecker::HttpHealthCheck(http)),
        ..Default::default()
    }
}

/// The `Via` header of the check, and the checking user where the certificate alone names none: kube-apiserver answers a front
/// proxy's certificate without a user with 401.
fn headers(cluster: &Cluster, pool: Pool, settings: &Settings) -> Vec<HeaderValueOption> {
    let user = match (&cluster.upstream_identity, pool) {
        (UpstreamIdentity::RequestHeader { user, .. }, Pool::Http2 | Pool::Upgrade) => {
            Some(header(&settings.request_header_names.user, user))
        }
        _ => None,
    };
    std::iter::once(header("via", &format!("1.1 {}", settings.instance))).chain(user).collect()
}

fn authority(peer: &PeerName) -> String {
    match peer {
        PeerName::Dns(name) => name.clone(),
        PeerName::Ip(std::net::IpAddr::V6(ip)) => format!("[{ip}]"),
        PeerName::Ip(std::net::IpAddr::V4(ip)) => ip.to_string(),
    }
}

/// Ejects a server after connections to it failed, and for nothing else: what a server answers may be a service proxy's
/// 5xx, and a user who can cause that must not be able to take a kube-apiserver out.
pub(super) fn outlier_detection() -> OutlierDetection {
    OutlierDetection {
        split_external_local_origin_errors: true,
        consecutive_local_origin_failure: Some(uint(2)),
        enforcing_consecutive_local_origin_failure: Some(uint(100)),
        interval: Some(seconds(1)),
        base_ejection_time: Some(seconds(5)),
        max_ejection_time: Some(seconds(30)),
        // Timeouts count, too, and a user may cause those: half of the servers stay, and the last one always. A server that
        // is really gone is found by the active checks.
        max_ejection_percent: Some(uint(50)),
        enforcing_consecutive_5xx: Some(uint(0)),
        enforcing_consecutive_gateway_failure: Some(uint(0)),
        enforcing_success_rate: Some(uint(0)),
        enforcing_local_origin_success_rate: Some(uint(0)),
        enforcing_failure_percentage: Some(uint(0)),
        enforcing_failure_percentage_local_origin: Some(uint(0)),
        ..Default::default()
    }
}

/// Unhealthy servers get nothing, even if all are: Envoy's default would spread requests over them. And workers hear of a
/// server's health soon: by default the second change within a second waits for the second's end.
pub(super) fn common_lb_config() -> CommonLbConfig {
    CommonLbConfig {
        healthy_panic_threshold: Some(Percent { value: 0.0 }),
        update_merge_window: Some(duration(Duration::from_millis(100))),
        ..Default::default()
    }
}
