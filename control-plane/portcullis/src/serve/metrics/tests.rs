use portcullis_api::PolicyKind;
use portcullis_attach::ConditionVerdict;
use portcullis_sources::WatchedKind;
use portcullis_translate::Reason;
use portcullis_xds::testing::RegisteredStream;

use super::*;

fn diagnosis(accepted: bool, message: &str) -> Diagnosis {
    Diagnosis {
        kind: "UpstreamCluster".to_owned(),
        name: "a.test".to_owned(),
        at: None,
        accepted,
        reason: if accepted { Reason::Accepted } else { Reason::Invalid },
        message: message.to_owned(),
        warnings: Vec::new(),
        problems: Vec::new(),
        cautions: Vec::new(),
        shadow: None,
        names: Vec::new(),
        version: portcullis_translate::Version::default(),
    }
}

fn text(metrics: &ControlPlaneMetrics) -> String {
    metrics.text(&Registry::default(), &HealthRegistry::default(), &SourceHealth::current())
}

/// Tenants may run Envoys of Gateways, and report for as many as their certificates have names.
#[test]
fn nodes_of_gateways_are_counted_apart() {
    let (registry, health, served) = (Arc::default(), HealthRegistry::default(), Arc::default());
    let view = |name: &str| View(Some(name.to_owned()));
    let open = |name: &str, view| RegisteredStream::open(&registry, name, view, &served);
    let _streams = [
        open("n", View(None)),
        open("a/n", view("instance/a")),
        open("gateway:infra/edge/n", view("gateway/infra/edge")),
    ];
    for node in ["n", "gateway:infra/edge/n", "gateway:infra/edge/invented"] {
        health.record(node, BTreeMap::new(), Instant::now());
    }
    let page = ControlPlaneMetrics::default().text(&registry, &health, &SourceHealth::current());
    for (state, count) in [("connected", 3), ("of_gateways", 1), ("reporting", 1)] {
        let line = format!("portcullis_xds_nodes{{state=\"{state}\"}} {count}");
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}

#[test]
fn object_counts_as_its_own_kind() {
    let kinds = ["UpstreamCluster", "GatewaySettings", "Instance", "File"];
    for (kind, label) in kinds.map(|kind| (kind, kind)).into_iter().chain([("ConfigMap", "File"), ("", "File")]) {
        let metrics = ControlPlaneMetrics::default();
        let one = Diagnosis { kind: kind.to_owned(), ..diagnosis(false, "no") };
        metrics.reconciled(&[Arc::new(one)], Duration::ZERO);
        let page = text(&metrics);
        for known in kinds {
            let count = u8::from(known == label);
            for line in [
                format!("portcullis_objects{{kind=\"{known}\",state=\"invalid\"}} {count}"),
                format!("portcullis_rejected_updates_total{{kind=\"{known}\"}} {count}"),
            ] {
                assert!(page.lines().any(|found| found == line), "{kind}: {line}\n{page}");
            }
        }
    }
}

/// The samples of the Gateway API's families that are not 0.
fn samples_of(parts: &[&GatewayApiCounts]) -> Vec<String> {
    let metrics = ControlPlaneMetrics::default();
    assert!(!text(&metrics).contains("portcullis_gateway_api_"), "nothing before it is counted");
    // Numbers that have fallen are those of now.
    let mut before = GatewayApiCounts::default();
    before.add(WatchedKind::GatewayClass, &[condition("Accepted", false)]);
    metrics.judged(&[&before]);
    metrics.judged(parts);
    let page = text(&metrics);
    let samples = page.lines().filter_map(|line| line.strip_prefix("portcullis_gateway_api_"));
    let mut samples: Vec<String> = samples.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect();
    samples.sort();
    samples
}

fn condition(kind: &'static str, status: bool) -> ConditionVerdict {
    ConditionVerdict { kind, status, reason: "r", message: String::new() }
}

#[test]
fn object_counts_once_for_each_type_of_false_conditions() {
    type Case<'a> = (&'a str, &'a [(&'static str, bool)], &'a [&'a str]);
    let cases: [Case<'_>; 7] = [
        ("no condition", &[], &[]),
        ("all hold", &[("Accepted", true), ("ResolvedRefs", true)], &[]),
        ("one is False", &[("Accepted", true), ("ResolvedRefs", false)], &["ResolvedRefs"]),
        ("at one of two parents", &[("Accepted", true), ("Accepted", false)], &["Accepted"]),
        ("at both parents", &[("Accepted", false), ("Accepted", false)], &["Accepted"]),
        ("two types", &[("Programmed", false), ("Accepted", false)], &["Accepted", "Programmed"]),
        ("types that may well be False", &[("Conflicted", false), ("Ready", false)], &[]),
    ];
    for (case, conditions, with_false) in cases {
        let mut counts = GatewayApiCounts::default();
        counts.add(WatchedKind::HttpRoute, conditions.iter().map(|(kind, status)| condition(kind, *status)));
        let of_type = |one: &&str| format!("false_conditions{{kind=\"HTTPRoute\",condition=\"{one}\"}} 1");
        let mut expected: Vec<String> = with_false.iter().map(of_type).collect();
        expected.push("objects{kind=\"HTTPRoute\"} 1".to_owned());
        assert_eq!(samples_of(&[&counts]), expected, "{case}");
    }
}

#[test]
fn objects_of_every_judged_kind_are_counted() {
    let routes = [WatchedKind::HttpRoute, WatchedKind::TlsRoute, WatchedKind::KubernetesUpstream];
    let kinds = [WatchedKind::GatewayClass, WatchedKind::Gateway].into_iter().chain(routes);
    let kinds: Vec<WatchedKind> = kinds.chain(PolicyKind::ALL.map(WatchedKind::Policy)).collect();
    let (mut one, mut other) = (GatewayApiCounts::default(), GatewayApiCounts::default());
    for (place, kind) in kinds.iter().enumerate() {
        // The parts may have a kind in common.
        for counts in [&mut one, &mut other] {
            (0..=place).for_each(|at| counts.add(*kind, [condition("Accepted", at > 0)]));
        }
    }
    let of_kind = |(place, kind): (usize, &WatchedKind)| {
        let kind = kind.kind();
        let refused = format!("false_conditions{{kind=\"{kind}\",condition=\"Accepted\"}} 2");
        [format!("objects{{kind=\"{kind}\"}} {}", 2 * (place + 1)), refused]
    };
    let mut expected: Vec<String> = kinds.iter().enumerate().flat_map(of_kind).collect();
    expected.sort();
    assert_eq!(samples_of(&[&one, &other]), expected);
    assert_eq!(kinds.len(), catalog::GATEWAY_API_KINDS.len());
}

#[test]
fn refused_edit_counts_once() {
    let metrics = ControlPlaneMetrics::default();
    let has = |line: &str| {
        let text = text(&metrics);
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    };
    metrics.reconciled(&[Arc::new(diagnosis(true, ""))], Duration::ZERO);
    has("portcullis_objects{kind=\"UpstreamCluster\",state=\"accepted\"} 1");
    for message in ["one", "one", "two"] {
        metrics.reconciled(&[Arc::new(diagnosis(false, message))], Duration::ZERO);
    }
    has("portcullis_rejected_updates_total{kind=\"UpstreamCluster\"} 2");
    has("portcullis_objects{kind=\"UpstreamCluster\",state=\"accepted\"} 0");
    has("portcullis_translation_seconds_count 4");
}

#[test]
fn propagation_is_timed_until_each_acknowledgement() {
    let metrics = ControlPlaneMetrics::default();
    let snapshot = Snapshot::default();
    metrics.published(&snapshot, Origin::LastGood, Instant::now(), true);
    metrics.propagated(&View(None), "envoy-0", snapshot.version());
    metrics.propagated(&View(None), "envoy-0", "another");
    let text = text(&metrics);
    assert!(text.contains("portcullis_propagation_seconds_count 1\n"), "{text}");
    assert!(text.contains("portcullis_snapshot_source{source=\"last_good\"} 1\n"), "{text}");
}
