//! `docs/reference/metrics.md`, written from the code: `UPDATE_DOCS=1 cargo test --workspace --lib -- observe::page`.

use std::fmt::Write;

use super::Outcome;
use super::catalog::{BUILT_IN, LABELS, METRICS, PREFIX};
use super::resource::Verb;
use crate::review::CACHES;

const HEAD: &str = "# Metrics of the filter

<!-- Written by a test from filters/core/src/observe/catalog.rs. -->

They are on Envoy's Prometheus page, `/stats/prometheus` of its admin address, with Envoy's own metrics of listeners, \
connections, clusters and endpoints. Counters and gauges are at most about a second old, histograms five (Envoy's own \
interval). On Envoy 1.38, which takes counts only from requests, the last ones before a pause appear with the first request \
after it.

Every label has a closed set of values, given by Kubernetes, by the configuration or by the code. No client can make a series \
by inventing names. More than 16,384 combinations of labels of one cluster are counted together, with `-` and `other` for all \
but `cluster`, `decision` and `reason`.

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
    writeln!(page, "\n**verb**: {}.", words(&Verb::ALL)).unwrap();
    writeln!(
        page,
        "\n**decision**: {}. `forwarded` says what the filter decided; what Envoy answers afterwards, \
         because no server is healthy for instance, is Envoy's to count. `ended` are watches and sessions.",
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
    let used = |name: &str| METRICS.iter().any(|metric| metric.labels.contains(&name));
    assert!(LABELS.iter().all(|label| used(label.name)));
    let explained = |name: &&str| LABELS.iter().any(|label| label.name == *name);
    assert!(METRICS.iter().all(|metric| metric.labels.iter().all(&explained)));
}
