//! Memory of the counts of many clusters, and the time for the page of their activity. Figures: docs/performance.md.
//!
//! Each line is a process of its own, because freed memory is not given back.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, reason = "a measurement")]

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_core::bucket::{Rate, TokenBucket};
use portcullis_core::exchange::{Exchange, MemoryHost, RouteConfig};
use portcullis_core::limit::InFlight;
use portcullis_core::observe::catalog::{Metric, MetricsSink};
use portcullis_core::observe::{Publisher, RunningRequests, SeriesLedger};
use portcullis_core::review::{CredentialCaches, Review, ReviewResult};
use portcullis_core::state_store::{CacheOwner, ProcessState};
use portcullis_core::{Gateway, StateStore, x509};
use portcullis_filter_config::FilterConfig;
use portcullis_filter_config::activity::Activity;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls_pki_types::UnixTime;
use serde_json::json;

const SERVERS: usize = 3;
const POLICIES: usize = 5;
/// The resource of each policy.
const RESOURCES: [&str; POLICIES] = ["pods", "secrets", "nodes", "services", "events"];
/// User agents that each cluster sees.
const AGENTS: usize = 20;

/// The store of a host that shows no activity.
struct WithoutActivity<S>(S);

impl<S: StateStore> StateStore for WithoutActivity<S> {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        self.0.caches(owner)
    }

    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight> {
        self.0.in_flight(cluster, schema)
    }

    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket> {
        self.0.token_bucket(cluster, schema, rate)
    }

    fn running(&self, cluster: &str) -> Arc<RunningRequests> {
        self.0.running(cluster)
    }

    fn ledger(&self, cluster: &str) -> Arc<SeriesLedger> {
        self.0.ledger(cluster)
    }
}

/// The series that Envoy would have, by their hashes; none where memory is measured.
#[derive(Default)]
struct Series(Option<HashSet<u64>>);

impl MetricsSink for Series {
    fn add(&mut self, metric: Metric, labels: &[&str], _count: u64) {
        if let Some(series) = &mut self.0 {
            let mut hasher = DefaultHasher::new();
            (metric.name, labels).hash(&mut hasher);
            series.insert(hasher.finish());
        }
    }

    fn set(&mut self, _metric: Metric, _labels: &[&str], _before: u64, _value: u64) {}
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let [mode, clusters] = arguments.as_slice() {
        return measure(mode, clusters.parse().unwrap());
    }
    let all = ["series", "metrics", "activity", "talkers"].map(|mode| (mode, 10_000));
    for (mode, clusters) in all.into_iter().chain([("activity", 1_000), ("talkers", 1_000)]) {
        let program = std::env::current_exe().unwrap();
        assert!(Command::new(program).arg(mode).arg(clusters.to_string()).status().unwrap().success());
    }
}

fn measure(mode: &str, clusters: usize) {
    let state = ProcessState::default();
    let gateway = Gateway::compile(&FilterConfig::new("lab")).unwrap();
    let client = Client::new();
    let before = resident();
    let routes: Vec<_> = (0..clusters).map(|cluster| route(&state, (cluster, mode), &client)).collect();
    // Each cluster has a part of the listener, and with it a publisher, of its own.
    let unrouted = (mode != "metrics").then(|| state.unrouted());
    let publishers: Vec<_> = routes.iter().map(|_| Arc::new(Publisher::new(unrouted.clone()))).collect();
    // The remembered client certificate is not a metric.
    for (number, route) in routes.iter().enumerate() {
        request(&gateway, route, None, &client, (number, 0));
    }
    let configured = resident();
    let mut series = Series((mode == "series").then(HashSet::new));
    for (number, (route, publisher)) in routes.iter().zip(&publishers).enumerate() {
        for agent in 0..AGENTS {
            request(&gateway, route, Some(publisher), &client, (number, agent));
        }
        while !publisher.publish(&mut series) {}
    }
    let counted = resident();
    if let Some(series) = series.0 {
        return println!("{mode}: {} in Envoy", series.len());
    }
    println!(
        "{mode}: {} KiB for {clusters} configurations, {} KiB more with traffic ({} bytes a cluster)",
        configured - before,
        counted - configured,
        (counted - configured) * 1_024 / clusters
    );
    if mode != "metrics" {
        let start = Instant::now();
        let activity = Activity { process: 1, uptime_seconds: 1, clusters: state.activity(Duration::from_secs(1)) };
        let built = start.elapsed();
        let page = serde_json::to_vec(&activity).unwrap();
        println!("  page: {} KiB in {built:?} and {:?}", page.len() / 1_024, start.elapsed() - built);
    }
}

/// The client of all clusters: one with a certificate, because requests of others have few series.
struct Client {
    ca: String,
    chain: Vec<u8>,
}

impl Client {
    fn new() -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let mut alice = CertificateParams::default();
        alice.distinguished_name.push(DnType::CommonName, "alice");
        alice.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = alice.signed_by(&KeyPair::generate().unwrap(), &ca).unwrap();
        Client { ca: ca.pem(), chain: x509::encode_chain([&leaf.der()[..]].into_iter()) }
    }
}

fn route(state: &ProcessState, (number, mode): (usize, &str), client: &Client) -> RouteConfig<()> {
    let servers: Vec<_> = (0..SERVERS).map(|server| format!("https://10.0.{server}.{}:6443", number % 256)).collect();
    let policies: Vec<_> = (0..POLICIES)
        .map(|policy| {
            json!({"group": "all", "flowControlSchema": "few", "rules": [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": [RESOURCES[policy]]}]})
        })
        .collect();
    let config = json!({
        "version": 2, "name": format!("i/-/cluster-{number}.example.com"), "authorities": ["a"],
        "upstreamIdentity": "Impersonate", "clientCa": client.ca, "servers": {"names": servers, "drainSeconds": 1},
        "flowControlSchemas": [
            {"name": "few", "limit": {"maxRequestsInflight": 300}},
            {"name": "slow", "limit": {"tokenBucket": {"qps": 100, "burst": 500}}},
        ],
        "topTalkers": (mode == "talkers").then_some(100),
        "policies": policies,
    });
    let config = serde_json::from_value(config).unwrap();
    let store = state.with_secret([0; 32]);
    let compiled = match mode {
        "metrics" | "series" => RouteConfig::compile(&config, &WithoutActivity(store), Arc::default(), 0),
        _ => RouteConfig::compile(&config, &store, Arc::default(), 0),
    };
    compiled.unwrap().0
}

/// A list of pods or another resource, which one of the servers answers; the last one is refused.
fn request(
    gateway: &Gateway,
    route: &RouteConfig<()>,
    publisher: Option<&Arc<Publisher>>,
    client: &Client,
    (cluster, agent): (usize, usize),
) {
    let resource = match agent + 1 {
        AGENTS => "configmaps",
        _ => RESOURCES[agent % POLICIES],
    };
    let line = |name: &str, value: String| (name.as_bytes().to_vec(), value.into_bytes());
    let headers = vec![
        line(":method", "GET".to_owned()),
        line(":path", format!("/api/v1/{resource}")),
        line(":authority", "a".to_owned()),
        line("user-agent", format!("component-{agent}-of-{cluster}/v1.36.3 (linux/amd64)")),
    ];
    let nobody = |_: &Review| ReviewResult::Failed;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(1_700_000_000));
    let mut host = MemoryHost::new(headers, now, Duration::ZERO, nobody);
    host.publisher = publisher.cloned();
    host.chain = Some(client.chain.clone());
    let mut exchange = Exchange::<()>::default();
    exchange.request_headers(gateway, Some(route), &mut host);
    if host.reply.is_some() {
        return exchange.complete(&mut host);
    }
    host.status = Some("200");
    host.server = Some(format!("https://10.0.{}.{}:6443", agent % SERVERS, cluster % 256));
    exchange.response_headers(&mut host);
    exchange.complete(&mut host);
}

/// Memory of the process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}
