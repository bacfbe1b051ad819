use portcullis_api::status::{
    Acceptance, ClusterStatus, Condition, ConditionType, Gateway, GatewayProgress, Health, Served, State, StatusInput,
    Timestamp, UnhealthyServer,
};
use portcullis_filter_config::activity::{Talker, TopTalkers};
use portcullis_translate::{Diagnosis, Reason, Version};

use super::*;
use crate::serve::fleet::view::{
    CertificateView, ClusterSummary, GatewaySummary, GatewayTraffic, GlobalLimitView, HistoryPoint, LimitAt, LimitView,
    Numbers, PolicyView, ServerView, Severity, Transition, UnhealthyAt,
};
use crate::serve::object_status::ObjectStatus;
use crate::serve::object_statuses::ObjectStatuses;
use crate::serve::source::SourceStatus;
use crate::serve::status::{NodeReport, RejectedNodeStatus, TypeStatus};

/// Numbers of which each is another one.
pub(super) fn numbers() -> Numbers {
    Numbers {
        requests_per_second: 1_234.0,
        errors_per_second: 2.5,
        refusals_per_second: 3.5,
        p50: Some(12.0),
        p99: Some(1_500.0),
        running: 7,
        watches: 81,
        sessions: 9,
    }
}

pub(super) fn summary(name: &str, severity: Severity, message: &str) -> ClusterSummary {
    ClusterSummary {
        name: name.to_owned(),
        severity,
        message: message.to_owned(),
        healthy_servers: 2,
        servers: 3,
        numbers: numbers(),
        by_gateway: vec![Some(severity), None],
    }
}

/// A line of a Gateway of that name.
pub(super) fn traffic(gateway: &str) -> GatewayTraffic {
    GatewayTraffic { gateway: gateway.to_owned(), envoys: 3, error_ratio: Some(0.625), numbers: numbers() }
}

/// A cluster with everything in it, where each text of others is `text`.
pub(super) fn cluster(name: &str, text: &str) -> ClusterView {
    let text = text.to_owned();
    let talkers =
        || vec![Talker { name: text.clone(), requests: 4_321, error: 1, lists: 5, bytes: 2_048, refusals: 6 }];
    let condition = Condition {
        kind: ConditionType::Ready,
        status: State::False,
        reason: text.clone(),
        message: text.clone(),
        last_transition_time: Timestamp::from_seconds(1_700_000_000),
        observed_generation: Some(7),
    };
    ClusterView {
        time: 1_700_000_000,
        summary: summary(name, Severity::Warning, &text),
        servers: vec![ServerView {
            server: text.clone(),
            zone: Some(text.clone()),
            weight: Some(3),
            unhealthy: vec![UnhealthyAt { node: text.clone(), reason: text.clone(), since: 1_700_000_000 }],
            share: 0.34,
            numbers: numbers(),
        }],
        policies: vec![PolicyView {
            policy: "0".to_owned(),
            rule: text.clone(),
            forwarded_per_second: 45.0,
            refused_per_second: vec![(text.clone(), 1.5)],
        }],
        limits: vec![LimitView {
            schema: text.clone(),
            global: Some(GlobalLimitView { strategy: text.clone(), limit: 40, rate: 0 }),
            by_gateway: vec![LimitAt { node: text.clone(), used: 19, limit: 20, rate: 0, local: true }],
            refused_per_second: 0.5,
        }],
        certificates: vec![CertificateView {
            usage: "serving".to_owned(),
            subject: text.clone(),
            not_after: 1_700_000_000,
            days_left: 5,
        }],
        conditions: vec![condition],
        transitions: vec![Transition {
            time: 1_700_000_000,
            condition: "Ready".to_owned(),
            status: "False".to_owned(),
            reason: text.clone(),
            message: text.clone(),
        }],
        history: (0..10).map(|time| HistoryPoint { time, numbers: numbers() }).collect(),
        top: Some(TopTalkers { users: talkers(), groups: talkers(), user_agents: talkers() }),
        at_gateways: vec![traffic(&text)],
    }
}

/// An object in /status.
pub(super) fn object(kind: &str, name: &str, served: Served, message: &str) -> ObjectStatus {
    let accepted = served == Served::Newest;
    let reason = if accepted { Reason::Accepted } else { Reason::Invalid };
    let diagnosis = Diagnosis {
        kind: kind.to_owned(),
        name: name.to_owned(),
        at: Some(format!("{name}.yaml:1")),
        accepted,
        reason,
        message: message.to_owned(),
        warnings: vec![message.to_owned()],
        problems: Vec::new(),
        cautions: Vec::new(),
        shadow: None,
        names: Vec::new(),
        version: Version { served, ..Version::default() },
    };
    let word = if accepted { "Accepted" } else { "Invalid" };
    let acceptance = Acceptance { accepted, reason: word, message, warnings: &[], names: &[] };
    let unhealthy = UnhealthyServer {
        server: "10.0.0.9:6443".to_owned(),
        reason: "Ejected".to_owned(),
        since: Timestamp::from_seconds(1_700_000_000),
    };
    let health = Some(Health { healthy: 1, total: 3, unhealthy: vec![unhealthy] });
    let progress = GatewayProgress::Refused { message: message.to_owned() };
    let gateways = vec![Gateway { name: message, progress, health, lost_subsets: Vec::new() }];
    let seen = StatusInput {
        acceptance,
        generation: Some(7),
        served,
        content_hash: "c0ffee",
        gateways,
        ..StatusInput::default()
    };
    let status = ClusterStatus::of(&seen, &[], &Timestamp::from_seconds(0));
    ObjectStatus::new(Arc::new(diagnosis), status)
}

/// A status where each text of others is `text`.
pub(super) fn status(objects: Vec<ObjectStatus>, text: &str) -> StatusBody {
    let one = TypeStatus { sent: "0123456789abcdef".to_owned(), acked: String::new(), nack: Some(text.to_owned()) };
    let types = [("type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(), one)].into();
    let node =
        NodeReport { id: text.to_owned(), connected: true, types, in_sync: false, view: None, refused: Vec::new() };
    let rejected = RejectedNodeStatus { node: text.to_owned(), by: text.to_owned(), reason: text.to_owned(), times: 3 };
    StatusBody {
        objects: Arc::new(ObjectStatuses::new(objects.into_iter().map(Arc::new).collect())),
        nodes: Arc::new(vec![node]),
        endpoints: Arc::default(),
        snapshot: "c0ffee".to_owned(),
        source: SourceStatus {
            kind: "directory",
            stale_since: Some("2026-01-01T00:00:00Z".to_owned()),
            reason: Some(text.to_owned()),
            leader: Some(false),
            divides_limits: Some(true),
            limits_reason: Some(text.to_owned()),
        },
        rejected_nodes: vec![rejected],
    }
}

/// Data with these clusters, worst first, and two gateways.
pub(super) fn data(clusters: &[&str], text: &str) -> FixedData {
    let gateway = |node: &str, connected| GatewaySummary {
        node: format!("{node} {text}"),
        connected,
        in_sync: connected,
        reported_seconds_ago: Some(2),
        uptime_seconds: 3_700,
        numbers: numbers(),
    };
    FixedData {
        fleet: Arc::new(FleetView {
            time: 1_700_000_000,
            instance: text.to_owned(),
            clusters: clusters.iter().map(|name| summary(name, Severity::Critical, text)).collect(),
            gateways: vec![gateway("gateway-0", true), gateway("gateway-1", false)],
            instances: Vec::new(),
            at_gateways: vec![traffic(text)],
        }),
        clusters: clusters.iter().map(|name| ((*name).to_owned(), cluster(name, text))).collect(),
        status: Arc::new(status(vec![object("File", text, Served::Nothing, text)], text)),
        objects: Arc::default(),
        changes: watch::Sender::new(0),
        views: Arc::default(),
    }
}

#[tokio::test]
async fn first_page_lists_clusters_gateways_and_what_is_wrong() {
    let site = Site::new(data(&["bad.test", "*.good.test"], "words"), LoginPolicy::Open);
    let page = site.get(NEAR, "/ui/", &[]).await;
    assert_eq!(
        (page.status, page.headers["content-type"].to_str().unwrap()),
        (StatusCode::OK, "text/html; charset=utf-8")
    );
    for part in [
        "<th scope=\"row\"><a href=\"/ui/clusters/bad.test\">bad.test</a>",
        "<a href=\"/ui/clusters/%2A.good.test\">*.good.test</a>",
        "<span class=\"state critical\">Critical</span>",
        "2/3",
        "1,234",
        "1.5 s",
        "gateway-0 words",
        "Not connected",
        "2 s ago",
        "1 h 1 min",
        "<h2>At Gateways of the Gateway API</h2>",
        "62 %",
        "The source (directory) is stale since 2026-01-01T00:00:00Z: words",
        "Envoy rejects Cluster",
        "another replica leads",
        "Not accepted",
        "aria-label=\"0 of 1 good, gateway-0 words: critical\"",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    for word in ["http:", "https:", "javascript:", "style=", " onclick"] {
        assert!(!page.text.contains(word), "self-contained: {word}");
    }
    assert_eq!(page.text.matches("<script").count(), 1, "{}", page.text);
}

#[tokio::test]
async fn cluster_page_shows_every_part() {
    let site = Site::new(data(&["a.test"], "words"), LoginPolicy::Open);
    let page = site.get(NEAR, "/ui/clusters/a.test", &[]).await;
    for part in [
        "<h1>a.test <span class=\"state warning\">Warning</span>",
        "words at words since <time datetime=\"2023-11-14T22:13:20Z\">",
        "34 %",
        "words 1.5/s",
        "<th scope=\"row\">words</th><td class=\"n\">3</td>",
        "19</td><td class=\"n\">20 in flight",
        "40 in flight of all gateways</small>",
        "Shown to clients",
        "Ends soon",
        "<th scope=\"row\">Ready</th><td><span class=\"state critical\">False</span>",
        "≤ 4,321",
        "2.0 KiB",
        "the last hour: at most 1,234",
        "<polyline",
        "/ui/explain?cluster=a.test",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert_eq!(site.get(NEAR, "/ui/clusters/b.test", &[]).await.status, StatusCode::NOT_FOUND);
    assert_eq!(site.get(NEAR, "/ui/api/clusters/b.test", &[]).await.status, StatusCode::NOT_FOUND);
    let view: ClusterView = serde_json::from_str(&site.get(NEAR, "/ui/api/clusters/a.test", &[]).await.text).unwrap();
    assert_eq!(view.servers.len(), 1);
}

#[tokio::test]
async fn filter_finds_rows_and_the_page_stays_small() {
    let names: Vec<String> = (0..3_000).map(|number| format!("cluster-{number}.test")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let site = Site::new(data(&names, "words"), LoginPolicy::Open);
    let begin = std::time::Instant::now();
    let page = site.get(NEAR, "/ui/", &[]).await;
    println!("{} bytes in {:?}", page.text.len(), begin.elapsed());
    assert!(page.text.len() < 300_000 && page.text.contains("2,800 more"), "{}", page.text.len());
    let found = site.get(NEAR, "/ui/?q=R-2999", &[]).await;
    assert!(found.text.contains("cluster-2999.test") && found.text.contains("value=\"R-2999\""), "{}", found.text);
    assert_eq!(found.text.matches("/ui/clusters/").count(), 1);
    assert!(site.get(NEAR, "/ui/?q=nothing", &[]).await.text.contains("No cluster matches"));
    assert_eq!(site.get(NEAR, "/ui/?q=critical", &[]).await.text.matches("/ui/clusters/").count(), 200);
    let all: FleetView = serde_json::from_str(&site.get(NEAR, "/ui/api/fleet", &[]).await.text).unwrap();
    assert_eq!(all.clusters.len(), 3_000);
}

#[tokio::test]
async fn other_methods_and_paths_are_refused() {
    let site = Site::new(data(&["a.test"], "words"), LoginPolicy::Open);
    for path in ["/ui/", "/ui/clusters/a.test", "/ui/api/fleet", "/status", "/ui/api/events", "/ui/console.js"] {
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            assert_eq!(
                site.send(NEAR, method, path, &[], "").await.status,
                StatusCode::METHOD_NOT_ALLOWED,
                "{method} {path}"
            );
        }
    }
    for path in ["/ui/x", "/ui/api/", "/ui/clusters/", "/ui/../status", "/ui/assets/console.js"] {
        assert_eq!(site.get(NEAR, path, &[]).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let first = site.get(NEAR, "/", &[]).await;
    assert_eq!((first.status, first.headers["location"].to_str().unwrap()), (StatusCode::TEMPORARY_REDIRECT, "/ui/"));
}

#[tokio::test]
async fn object_with_many_messages_stays_small() {
    let mut all = data(&["a.test"], "words");
    let mut long = object("File", "long.yaml", Served::Nothing, &"ä; ".repeat(1_000_000));
    long.diagnosis.warnings = vec!["w".repeat(100_000); 1_000];
    let long = ObjectStatus::new(Arc::new((*long.diagnosis).clone()), long.status);
    assert!(serde_json::to_string(&long).unwrap().len() < 2_000_000);
    all.status = Arc::new(status(
        (0..2_000).map(|_| object("File", "x.yaml", Served::Nothing, "words")).chain([long]).collect(),
        "words",
    ));
    let site = Site::new(all, LoginPolicy::Open);
    let page = site.get(NEAR, "/ui/", &[]).await;
    assert!(page.text.len() < 300_000 && page.text.contains("1801 more"), "{}", page.text.len());
}
