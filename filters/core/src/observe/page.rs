//! `docs/reference/metrics.md`, written from the code: `UPDATE_DOCS=1 cargo test --workspace --lib -- observe::page`.

use std::fmt::Write;

use super::Outcome;
use super::built_in::BUILT_IN;
use super::catalog::{COUNTERS, LABELS, METRICS, PREFIX};
use super::verb::ReportedVerb;
use crate::review::CACHES;

const HEAD: &str = "# Metrics of the filter

<!-- Written by a test from filters/core/src/observe/catalog.rs. -->

They are on Envoy's Prometheus page, `/stats/prometheus` of its admin address, with Envoy's own metrics of listeners, \
connections, clusters and endpoints. Counters and gauges are at most about a second old, histograms five (Envoy's own \
interval). On Envoy 1.38, which takes counts only from requests, the last ones before a pause appear with the first request \
after it.

Every label has a closed set of values, given by Kubernetes, by the configuration or by the code. No client can make a series \
by inventing names, and clients that are not authenticated make few. All clusters of a process have 65,536 series together, \
made when something is first counted. A cluster gets more while it has at most a quarter of those that are left; what comes \
later is counted as `other`, by cluster and outcome, and by class of the status. Every cluster has its totals that way, and \
those in use have details. An edit gives no series back: Envoy keeps them as long as the cluster's part of its listener.

Metrics that begin with `apiserver_` have the names, the labels and the words of kube-apiserver's own, with `cluster` and \
`server` in addition and without `group`, `version`, `dry_run` and `component`: take the prefix away \
(`metric_relabel_configs`: `regex: envoy_portcullis_(apiserver_.*)`, `replacement: $1`, `target_label: __name__`, \
`source_labels: [__name__]`), and dashboards that were made for kube-apiserver read them.

The clients with the most requests, by name, are no statistics of Envoy's: the agent adds them to its own page, if the settings \
ask for them ([top talkers](../operations.md#top-talkers)).

A counter starts again when Envoy does, and when the part of Envoy's listener that serves the cluster is replaced and drained.
";

fn page() -> String {
    let mut page = String::from(HEAD);
    let words = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    page += "\n| metric | kind | labels | what it says |\n|---|---|---|---|\n";
    for metric in METRICS {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        let labels = words(metric.labels);
        writeln!(page, "| `{PREFIX}{}` | {kind} | {labels} | {} |", metric.name, metric.help).unwrap();
    }
    page += "\n## Labels\n\n| label | values |\n|---|---|\n";
    for label in LABELS {
        writeln!(page, "| `{}` | {} |", label.name, label.values).unwrap();
    }
    let reasons: Vec<_> = Outcome::reasons().collect();
    writeln!(page, "\n**verb**: {}.", words(&ReportedVerb::ALL.map(ReportedVerb::label))).unwrap();
    writeln!(
        page,
        "\n**decision**: {}. `forwarded` says what the filter decided; what Envoy answers afterwards, \
         because no server is healthy for instance, is Envoy's to count. `ended` are watches and sessions, `abandoned` requests whose clients left \
         while the filter waited for a review.",
        words(&Outcome::DECISIONS)
    )
    .unwrap();
    writeln!(page, "\n**reason**: {}. `malformed` is what Envoy refused before the filter saw it.", words(&reasons))
        .unwrap();
    writeln!(page, "\n**kind**: {}.", words(&CACHES)).unwrap();
    writeln!(page, "\n**resource**, Kubernetes' own: {}.", words(&BUILT_IN)).unwrap();
    page
}

#[test]
fn reference_says_what_the_code_does() {
    portcullis_generated_docs::assert_generated("metrics.md", &page());
}

#[test]
fn every_label_is_explained_and_used() {
    let used = |name: &str| METRICS.iter().chain(&COUNTERS).any(|metric| metric.labels.contains(&name));
    assert!(LABELS.iter().all(|label| used(label.name)));
    let explained = |name: &&str| LABELS.iter().any(|label| label.name == *name);
    assert!(METRICS.iter().all(|metric| metric.labels.iter().all(&explained)));
}
