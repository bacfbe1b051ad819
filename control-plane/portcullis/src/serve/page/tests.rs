use portcullis_api::status::{
    ClusterStatus, Gateway, Health, Observation, Served, Standing, Timestamp, UnhealthyServer, Verdict,
};
use portcullis_translate::{Diagnosis, Reason, Version};

use std::collections::BTreeMap;

use super::*;
use crate::serve::status::TypeStatus;

const HOSTILE: &str = "<script>alert(1)</script>\"'&\u{1b}[31m\u{202e}";

fn object(kind: &str, name: &str, served: Served, message: &str) -> ObjectStatus {
    let accepted = served == Served::Newest;
    let reason = if accepted { Reason::Accepted } else { Reason::Invalid };
    let diagnosis = Diagnosis {
        kind: kind.to_owned(),
        name: name.to_owned(),
        at: Some(format!("{name}.yaml:1")),
        accepted,
        reason,
        message: message.to_owned(),
        warnings: vec![HOSTILE.to_owned()],
        problems: Vec::new(),
        cautions: Vec::new(),
        names: Vec::new(),
        version: Version { served, ..Version::default() },
    };
    let verdict = Verdict { accepted, reason: reason_word(reason), message, warnings: &[], names: &[] };
    let unhealthy = UnhealthyServer {
        server: "10.0.0.9:6443".to_owned(),
        reason: "Ejected".to_owned(),
        since: Timestamp::from_seconds(1_700_000_000),
    };
    let health = Some(Health { healthy: 1, total: 3, unhealthy: vec![unhealthy] });
    let standing = Standing::Refused { message: HOSTILE.to_owned() };
    let gateways = vec![Gateway { name: HOSTILE, standing, health, lost_subsets: Vec::new() }];
    let seen = Observation { verdict, generation: Some(7), served, content_hash: "c0ffee", gateways };
    let status = ClusterStatus::of(&seen, &[], &Timestamp::from_seconds(0));
    ObjectStatus::new(diagnosis, status)
}

fn reason_word(reason: Reason) -> &'static str {
    if reason == Reason::Accepted { "Accepted" } else { "Invalid" }
}

fn status(objects: Vec<ObjectStatus>) -> StatusBody {
    let one = TypeStatus { sent: "0123456789abcdef".to_owned(), acked: String::new(), nack: Some(HOSTILE.to_owned()) };
    let types = [("type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(), one)].into();
    let node =
        NodeReport { id: HOSTILE.to_owned(), connected: true, types, in_sync: false, view: None, refused: Vec::new() };
    let stale_since = Some("2026-01-01T00:00:00Z".to_owned());
    let source = SourceStatus { kind: "directory", stale_since, reason: Some(HOSTILE.to_owned()), leader: Some(false) };
    let (endpoints, snapshot, rejected_nodes) = (BTreeMap::new(), "c0ffee".to_owned(), Vec::new());
    StatusBody { objects, nodes: vec![node], endpoints, snapshot, source, rejected_nodes }
}

#[test]
fn text_of_objects_becomes_no_markup() {
    let all = status(vec![
        object(CLUSTER_KIND, HOSTILE, Served::Newest, HOSTILE),
        object("File", HOSTILE, Served::Nothing, HOSTILE),
    ]);
    let page = page(&all);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"), "{page}");
    assert!(!page.chars().any(|one| (one.is_control() && one != '\n') || one == '\u{202e}'), "{page}");
    let escaped = "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;";
    assert!(page.matches(escaped).count() >= 6, "{page}");
}

#[test]
fn page_shows_the_state_of_everything() {
    let page = page(&status(vec![
        object(CLUSTER_KIND, "good.test", Served::Newest, ""),
        object(CLUSTER_KIND, "bad.test", Served::Nothing, "spec.servers: is empty"),
    ]));
    for told in [
        "good.test.yaml:1",
        "generation 7",
        "since 1970-01-01T00:00:00Z",
        "1 of 3 endpoints healthy",
        "10.0.0.9:6443: Ejected since 2023-11-14T22:13:20Z",
        "spec.servers: is empty",
        "Refused",
        "SomeUnhealthy",
        "NotAccepted",
        "Source: directory.",
        "Stale since 2026-01-01T00:00:00Z",
        "Another replica leads",
        "Cluster: sent <code>0123456789ab</code>",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    assert!(page.find("bad.test").unwrap() < page.find("good.test").unwrap(), "what is wrong comes first");
    for word in ["<script", "http:", "https:", "src=", "javascript"] {
        assert!(!page.contains(word), "self-contained: {word}");
    }
}

#[test]
fn one_object_stays_small() {
    let mut long = object(CLUSTER_KIND, "long.test", Served::Nothing, &"ä; ".repeat(1_000_000));
    long.diagnosis.warnings = vec!["w".repeat(100_000); 1_000];
    let long = ObjectStatus::new(long.diagnosis, long.status);
    assert!(serde_json::to_string(&long).unwrap().len() < 2_000_000);
    assert!(long.diagnosis.message.ends_with('…'));
    assert!(page(&status(vec![long])).len() < 100_000);
}

#[test]
fn page_size_is_bounded() {
    let objects = (0..2_000).map(|n| object(CLUSTER_KIND, &format!("c{n}.test"), Served::Newest, "")).collect();
    let page = page(&status(objects));
    assert!(page.contains("And 1500 more"));
    assert_eq!(page.matches("<tr>").count(), 1 + MAX_ROWS + 1 + 1, "heads, rows, one node");
}
