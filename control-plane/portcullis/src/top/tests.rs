use portcullis_api::status::{Condition, ConditionType, InstanceCounts, State, Timestamp};
use portcullis_filter_config::activity::{Talker, TopTalkers};

use super::arguments::Order;
use super::{cluster_text, escaped, fleet_text};
use crate::serve::fleet::view::{
    CertificateView, ClusterSummary, ClusterView, FleetView, GatewaySummary, GatewayTraffic, GlobalLimitView,
    InstanceSummary, LimitAt, LimitView, Numbers, PolicyView, ServerView, Severity, Transition, UnhealthyAt,
};

const TIME: u64 = 1_767_323_045;

fn numbers(requests: f64) -> Numbers {
    Numbers {
        requests_per_second: requests,
        errors_per_second: 0.004,
        refusals_per_second: 1.5,
        p50: Some(7.25),
        p99: Some(1_234.0),
        running: 3,
        watches: 20,
        sessions: 1,
    }
}

fn summary(name: &str, severity: Severity, requests: f64) -> ClusterSummary {
    let message = if severity == Severity::Good { "" } else { "some endpoints\nare not healthy" };
    ClusterSummary {
        name: name.to_owned(),
        severity,
        message: message.to_owned(),
        healthy_servers: 2,
        servers: 3,
        numbers: numbers(requests),
        by_gateway: vec![Some(severity)],
    }
}

fn traffic(gateway: &str, error_ratio: Option<f64>) -> GatewayTraffic {
    GatewayTraffic { gateway: gateway.to_owned(), envoys: 2, error_ratio, numbers: numbers(12.5) }
}

fn fleet() -> FleetView {
    let gateway = |node: &str, connected, ago| GatewaySummary {
        node: node.to_owned(),
        connected,
        in_sync: true,
        reported_seconds_ago: ago,
        uptime_seconds: 7_200,
        numbers: Numbers::default(),
    };
    FleetView {
        time: TIME,
        instance: "lab".to_owned(),
        clusters: vec![summary("b\u{1b}[2Jad", Severity::Warning, 12.5), summary("a.test", Severity::Good, 1_500.0)],
        gateways: vec![gateway("envoy-0", true, Some(4)), gateway("envoy-1", false, None)],
        instances: Vec::new(),
        at_gateways: vec![traffic("infra/ed\u{1b}ge", Some(0.25)), traffic("", None)],
    }
}

#[test]
fn fleet_is_a_table_of_clusters_and_gateways() {
    let expected = "\
lab 2026-01-02T03:04:05Z: 2 clusters, 1 of 2 gateways; 1512 requests/s, <0.01 errors/s, 3.00 refused/s; by severity

NAME      STATE     REQUESTS/S   ERRORS/S   REFUSED/S     P50    P99   RUNNING   WATCHES   SESSIONS   SERVERS   MESSAGE
b\u{fffd}[2Jad   Warning         12.5      <0.01        1.50   7.2ms   1.2s         3        20          1       2/3   some endpoints are not healthy
a.test    Good            1500      <0.01        1.50   7.2ms   1.2s         3        20          1       2/3

GATEWAY   STATE    REQUESTS/S   ERRORS/S   REFUSED/S   P50   P99   RUNNING   WATCHES   SESSIONS   UPTIME   REPORTED
envoy-0   InSync            0          0           0     -     -         0         0          0       2h   4s ago
envoy-1   Gone              0          0           0     -     -         0         0          0        -   -

AT GATEWAY      ENVOYS   REQUESTS/S   ERRORS   RUNNING   WATCHES   SESSIONS
infra/ed\u{fffd}ge          2         12.5      25%         3        20          1
(another one)        2         12.5        -         3        20          1
";
    let text = fleet_text::table(&mut fleet(), Order::Severity);
    assert_eq!(text, expected, "{text}");
}

#[test]
fn instances_are_a_table_with_what_is_wrong() {
    let condition = |kind, status, reason: &str| Condition {
        kind,
        status,
        reason: reason.to_owned(),
        message: format!("{reason}\u{1b}[2J of it"),
        last_transition_time: Timestamp::from_seconds(TIME),
        observed_generation: None,
    };
    let instance = |name: &str, ready, reason| InstanceSummary {
        name: name.to_owned(),
        conditions: vec![condition(ConditionType::Ready, ready, reason)],
        counts: InstanceCounts { gateways: 0, clusters: 3, envoys: 12, gateway_envoys: 0 },
    };
    let mut view = FleetView {
        instances: vec![instance("team-a", State::True, "Ready"), instance("team-b", State::False, "NoEnvoys")],
        ..FleetView::default()
    };
    let text = fleet_text::table(&mut view, Order::Severity);
    let expected = "
INSTANCE   STATE      CLUSTERS   ENVOYS   MESSAGE
team-a     Ready             3       12
team-b     NoEnvoys          3       12   NoEnvoys\u{fffd}[2J of it
";
    let plain = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert!(plain(&text).ends_with(&plain(expected)), "{text}");
}

#[test]
fn clusters_are_sorted_as_asked() {
    let first = |order| {
        let mut view = fleet();
        fleet_text::table(&mut view, order);
        view.clusters.remove(0).name
    };
    assert_eq!(first(Order::Severity), "b\u{1b}[2Jad");
    assert_eq!(first(Order::Requests), "a.test");
    assert_eq!(first(Order::Name), "a.test");
    let all: Vec<_> = std::iter::successors(Some(Order::Severity), |order| Some(order.next())).take(10).collect();
    assert_eq!((all[1], all[9]), (Order::Requests, Order::Severity), "the last is followed by the first");
}

#[test]
fn cluster_is_printed_in_full() {
    let unhealthy = |node: &str, since| UnhealthyAt { node: node.to_owned(), reason: "Ejected".to_owned(), since };
    let server = |server: &str, zone: Option<&str>, share, unhealthy| ServerView {
        server: server.to_owned(),
        zone: zone.map(str::to_owned),
        weight: zone.map(|_| 3),
        unhealthy,
        share,
        numbers: numbers(10.0 * share),
    };
    let view = ClusterView {
        time: TIME,
        summary: summary("a.test", Severity::Warning, 10.0),
        servers: vec![
            server("10.0.0.1:6443", Some("east"), 0.75, vec![]),
            server("10.0.0.2:6443", None, 0.25, vec![unhealthy("n2", TIME), unhealthy("n1", TIME - 5)]),
        ],
        policies: vec![PolicyView {
            policy: "0".to_owned(),
            rule: "get,list pods".to_owned(),
            forwarded_per_second: 9.0,
            refused_per_second: vec![("too_many_requests".to_owned(), 1.5)],
        }],
        limits: vec![LimitView {
            schema: "reads".to_owned(),
            global: Some(GlobalLimitView { strategy: "globalCount".to_owned(), limit: 20, rate: 6 }),
            by_gateway: ["n1", "n2"]
                .map(|node| LimitAt { node: node.to_owned(), used: 5, limit: 10, rate: 3, local: node == "n2" })
                .to_vec(),
            refused_per_second: 1.5,
        }],
        certificates: vec![CertificateView {
            usage: "serving".to_owned(),
            subject: "CN=a.test".to_owned(),
            not_after: TIME + 86_400,
            days_left: 1,
        }],
        conditions: vec![Condition {
            kind: ConditionType::Ready,
            status: State::True,
            reason: "SomeUnhealthy".to_owned(),
            message: String::new(),
            last_transition_time: Timestamp::from_seconds(TIME),
            observed_generation: None,
        }],
        transitions: vec![Transition {
            time: TIME,
            condition: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: "SomeUnhealthy".to_owned(),
            message: String::new(),
        }],
        history: Vec::new(),
        top: Some(TopTalkers {
            users: vec![Talker {
                name: "eve\u{1b}]0;x\u{7}".to_owned(),
                requests: 100,
                error: 2,
                lists: 7,
                bytes: 3_000_000,
                refusals: 1,
            }],
            ..TopTalkers::default()
        }),
        at_gateways: vec![traffic("infra/edge", Some(0.5))],
    };
    let expected = "\
a.test 2026-01-02T03:04:05Z: Warning
some endpoints are not healthy
10.0 requests/s, <0.01 errors/s, 1.50 refused/s; p50 7.2ms, p99 1.2s; 3 running, 20 watches, 1 sessions; 2 of 3 servers healthy

SERVER          ZONE   WEIGHT   SHARE   REQUESTS/S   ERRORS/S     P50    P99   IN FLIGHT   HEALTH
10.0.0.1:6443   east        3     75%         7.50      <0.01   7.2ms   1.2s           3   healthy
10.0.0.2:6443   -           -     25%         2.50      <0.01   7.2ms   1.2s           3   Ejected since 2026-01-02T03:04:00Z at 2 gateways

POLICY   FORWARDED/S   REFUSED/S                FIRST RULE
0               9.00   too_many_requests 1.50   get,list pods

AT GATEWAY   ENVOYS   REQUESTS/S   ERRORS   RUNNING   WATCHES   SESSIONS
infra/edge        2         12.5      50%         3        20          1

LIMIT   GATEWAY   USED   LIMIT   OF ALL   REFUSED/S   KIND
reads   n1           5      10       20        1.50   tokens, 3 a second
reads   n2           5      10       20               tokens, 3 a second, its own limit

USER        REQUESTS   LISTS   REFUSED     BYTES
eve\u{fffd}]0;x\u{fffd}   100 (-2)       7         1   2.9 MiB

CERTIFICATE   SUBJECT     DAYS LEFT   UNTIL
serving       CN=a.test           1   2026-01-03T03:04:05Z

CONDITION   STATUS   REASON          SINCE
Ready       True     SomeUnhealthy   2026-01-02T03:04:05Z

CHANGED                CONDITION   STATUS   REASON
2026-01-02T03:04:05Z   Ready       True     SomeUnhealthy
";
    let text = cluster_text::detail(&view);
    assert_eq!(text, expected, "{text}");
}

#[test]
fn name_is_one_segment_of_the_path() {
    assert_eq!(escaped("prod.example.com"), "prod.example.com");
    assert_eq!(escaped("../status?x=%41"), "..%2Fstatus%3Fx%3D%2541");
}
