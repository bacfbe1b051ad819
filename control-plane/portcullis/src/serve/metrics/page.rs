//! `docs/reference/control-plane-metrics.md`, written from the code:
//! `UPDATE_DOCS=1 cargo test --workspace --bins -- metrics::page`.

use std::fmt::Write;

use portcullis_sources::SourceHealth;
use portcullis_xds::{HealthRegistry, Registry};

use super::ControlPlaneMetrics;
use super::catalog::{LABELS, METRICS};

const HEAD: &str = "# Metrics of the control plane

<!-- Written by a test from control-plane/portcullis/src/serve/metrics/catalog.rs. -->

`portcullis serve` has them at `/metrics` of its `--http-address`, as OpenMetrics text, which Prometheus reads. The \
filter's own are [another page](metrics.md), on Envoy's side.

Every label has a closed set of values; of names only those of Instances are among them, no other object's and no node's. `/status` lists the objects one by one.
";

fn page() -> String {
    let mut page = String::from(HEAD);
    let words = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    page += "\n| metric | kind | labels | what it says |\n|---|---|---|---|\n";
    for metric in METRICS {
        writeln!(page, "| `{}` | {} | {} | {} |", metric.name, metric.kind, words(metric.labels), metric.help).unwrap();
    }
    page += "\n## Labels\n\n| label | values | |\n|---|---|---|\n";
    for label in LABELS {
        writeln!(page, "| `{}` | {} | {} |", label.name, words(label.values), label.help).unwrap();
    }
    page
}

#[test]
fn reference_says_what_the_code_does() {
    portcullis_generated_docs::assert_generated("control-plane-metrics.md", &page());
}

#[test]
fn page_has_every_metric_of_the_catalog_and_no_other() {
    let metrics = ControlPlaneMetrics::default();
    // Of a control plane with --gateway-api.
    metrics.judged(&[]);
    let text = metrics.text(&Registry::default(), &HealthRegistry::default(), &SourceHealth::current());
    let declared: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let wanted = METRICS.iter().map(|metric| format!("{} {}", metric.name.trim_end_matches("_total"), metric.kind));
    let wanted: Vec<String> = wanted.collect();
    assert_eq!(declared, wanted);
    for metric in METRICS {
        let series: Vec<&str> = text.lines().filter(|line| line.starts_with(metric.name)).collect();
        assert!(!series.is_empty(), "{}: every series is there from the start", metric.name);
        for label in metric.labels {
            assert!(series.iter().all(|line| line.contains(&format!("{label}=\""))), "{series:?}");
        }
    }
    assert!(text.ends_with("# EOF\n"));
}
