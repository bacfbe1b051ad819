//! The statistics that Envoy makes: a tenth of what it has of a cluster, unless all are asked for, and each that something reads.

use std::collections::BTreeSet;
use std::path::Path;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::project_root;

use crate::fixture::{NAME, PODS, StubFixture, connect};

/// Read by the dashboard, the alerts, the agent and the manual, of the pool `e2e/-/prod_example_com/all_h2`.
const READ: [&str; 10] = [
    "membership_healthy",
    "membership_total",
    "outlier_detection.ejections_active",
    "upstream_cx_active",
    "upstream_cx_total",
    "upstream_rq_active",
    "upstream_rq_active_overflow",
    "upstream_rq_pending_overflow",
    "upstream_rq_retry",
    "upstream_rq_total",
];
/// Texts that name statistics.
const READERS: [&str; 6] =
    ["control-plane", "deploy", "docs", "testenv/e2e/src", "testenv/e2e/tests", "testenv/bench/src"];
/// Texts that name some which nothing reads, or read them where all are made.
const APART: [&str; 5] =
    ["docs/decisions", "control-plane/translate/goldens", "stub/live", "stub/agent/replicas.rs", "stub/statistics.rs"];
/// Words of Envoy's configuration that are also the ends of statistics' names, of tracing; a TLS suite, which settings do not choose; and
/// a count of a server in `/clusters`, which no matcher leaves out. Bytes of clients are counted of connections that are passed on (`stub/passthrough`), and of others not.
const OTHER_WORDS: [&str; 6] = [
    "health_check",
    "random_sampling",
    "rq_total",
    "TLS_AES_128_GCM_SHA256",
    "downstream_cx_rx_bytes_total",
    "downstream_cx_tx_bytes_total",
];

/// The names of Envoy's statistics after a request to the fixture's cluster.
fn names(test: &str, flags: &[&str]) -> BTreeSet<String> {
    let bootstrap_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let fixture = StubFixture::start(test, &GatewayOptions { bootstrap_flags, ..GatewayOptions::default() });
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    assert_eq!(connect(&alice).get(PODS, &[]).unwrap().status, 200);
    let text = fixture.gateway.envoy().admin().get("/stats").unwrap().text();
    text.lines().filter_map(|line| Some(line.split_once(": ")?.0.to_owned())).collect()
}

/// Those of Envoy's own that are of the fixture's cluster.
fn of_cluster(names: &BTreeSet<String>) -> Vec<&String> {
    let is_of_it = |name: &&String| name.contains(NAME) || name.contains(&NAME.replace('.', "_"));
    let is_own = |name: &&String| !name.starts_with("portcullis.") && !name.starts_with("wasm");
    names.iter().filter(is_of_it).filter(is_own).collect()
}

/// The ways in which a text may name a statistic: its end, from any of its dots on, and Prometheus' name.
fn spellings(name: &str) -> impl Iterator<Item = String> {
    // All of it is made, and says nothing of pools.
    let is_of_pools = !name.starts_with("cluster.portcullis-xds.");
    let ends = name.match_indices('.').map(|(at, _)| name[at + 1..].to_owned()).chain([name.to_owned()]);
    let parts: Vec<&str> = name.split('.').collect();
    let of_prometheus = match parts[..] {
        [family @ ("cluster" | "http" | "listener"), _, ref rest @ ..] => format!("envoy_{family}_{}", rest.join("_")),
        _ => format!("envoy_{}", parts.join("_")),
    };
    // A single word may mean anything.
    ends.chain([of_prometheus]).filter(move |spelling| is_of_pools && spelling.contains('_'))
}

/// The words of all texts, with the files that they are in.
fn words(path: &Path, found: &mut Vec<(String, String)>) {
    if APART.iter().any(|apart| path.ends_with(apart)) {
        return;
    }
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            words(&entry.unwrap().path(), found);
        }
    } else if let Ok(text) = std::fs::read_to_string(path) {
        let is_between = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '.';
        let all = text.replace('\\', "");
        let all: BTreeSet<_> = all.split(is_between).map(|word| word.trim_matches('.').to_owned()).collect();
        found.extend(all.into_iter().map(|word| (word, path.display().to_string())));
    }
}

#[test]
fn statistics_of_a_cluster_are_those_that_are_read() {
    let some = names("statistics", &[]);
    for name in READ {
        let name = format!("cluster.e2e/-/{}/all_h2.{name}", NAME.replace('.', "_"));
        assert!(some.contains(&name), "{name} of {some:?}");
    }
    assert!(of_cluster(&some).len() < 70, "{}: {some:?}", of_cluster(&some).len());
    let all = names("all-statistics", &["--all-envoy-statistics"]);
    assert!(of_cluster(&all).len() > 500, "{}", of_cluster(&all).len());

    let made: BTreeSet<String> = some.iter().flat_map(|name| spellings(name)).collect();
    let left_out: BTreeSet<String> = all
        .iter()
        .flat_map(|name| spellings(name))
        .filter(|one| !made.contains(one) && !OTHER_WORDS.contains(&&**one))
        .collect();
    let mut read = Vec::new();
    for reader in READERS {
        words(&project_root().join(reader), &mut read);
    }
    let known = |word: &str| read.iter().any(|(one, _)| one == word);
    assert!(known("envoy_cluster_upstream_rq_retry") && known("upstream_cx_max_duration_reached"), "texts are read");
    let missing: Vec<_> = read.iter().filter(|(word, _)| left_out.contains(word)).collect();
    assert!(missing.is_empty(), "texts name statistics that Envoy does not make: {missing:#?}");
}
