//! Reports of processes with more parts than fit.

use std::collections::BTreeSet;
use std::time::Duration;

use portcullis_core::bucket::Rate;
use portcullis_core::global_limit::{FallbackRate, GlobalLimits};
use portcullis_report::limits::{ClusterUseMessage, MAX_USE_BYTES, UseMessage, encode_use};
use prost::Message;

/// The names in a report, as a control plane reads them.
fn reported(limits: &GlobalLimits, uptime: Duration) -> Vec<(String, String)> {
    let report = limits.report(uptime);
    let parts = report.parts.iter().map(|(name, used)| (&*name.cluster, &*name.schema, *used));
    let bytes = encode_use(1, report.number, parts);
    assert!(bytes.len() <= MAX_USE_BYTES, "{}", bytes.len());
    let message = UseMessage::decode(&*bytes).unwrap();
    let clusters = message.clusters.iter().map(|one| ClusterUseMessage::decode(one.clone()).unwrap());
    let names: Vec<_> = clusters
        .flat_map(|one| one.uses().map(|(schema, _)| (one.cluster.clone(), schema.to_owned())).collect::<Vec<_>>())
        .collect();
    assert_eq!(names.len(), report.parts.len(), "the message has room for what the process chose");
    names
}

#[test]
fn schema_in_use_is_reported_wherever_its_name_is() {
    let (seconds, limits) = (Duration::from_secs, GlobalLimits::default());
    let names = (0..3_000).flat_map(|cluster| (0..10).map(move |schema| (cluster, schema)));
    let names: Vec<_> = names
        .map(|(cluster, schema)| {
            (format!("portcullis/-/{cluster:05}.example.com@0123456789abcdef"), format!("schema-{schema}"))
        })
        .collect();
    let parts: Vec<_> = names.iter().map(|(cluster, schema)| limits.rate(cluster, schema)).collect();
    let fallback = FallbackRate { local: Rate { qps: 1, burst: 1 }, global_qps: 9 };
    let mut seen = BTreeSet::new();
    for second in (0..80).step_by(8) {
        let _ = parts.last().unwrap().take(fallback, seconds(second));
        let reported = reported(&limits, seconds(second));
        assert_eq!(reported.last(), names.last(), "at {second} s");
        seen.extend(reported);
    }
    assert_eq!(seen.len(), names.len(), "each has its turn");
}
