//! Dashboard and alerts ask only for metrics that exist.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_harness::project_root;
use portcullis_harness::rundir::RunDir;
use serde_json::Value;

use super::rendered::Rendered;
use crate::declared::{is_noticed, parsed};

/// Labels that Prometheus adds, or that belong to a histogram's buckets.
const COMMON: [&str; 4] = ["namespace", "pod", "job", "le"];

/// A metric that an expression asks for, with what it wants of its labels.
struct Asked {
    metric: String,
    labels: Vec<(String, String)>,
}

/// Every expression of the dashboard's panels, its variables and the rules.
fn expressions(rendered: &Rendered) -> Vec<String> {
    let text = rendered.get("ConfigMap", "portcullis-dashboard")["data"]["portcullis.json"].as_str().unwrap();
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        all.extend(panel["targets"].as_array().into_iter().flatten().map(|target| target["expr"].clone()));
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    all.extend(variables.iter().map(|one| one["query"]["query"].clone()).filter(Value::is_string));
    let alerts = rendered.get("PrometheusRule", "portcullis")["spec"]["groups"].as_array().unwrap();
    let rules: Vec<&Value> = alerts.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(rules.len() > 10 && all.len() > 20, "{} rules, {} expressions", rules.len(), all.len());
    all.extend(rules.iter().map(|rule| rule["expr"].clone()));
    all.iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The metrics in an expression: words that begin as our metrics or Envoy's do, outside of quotes and braces.
fn asked(expression: &str) -> Vec<Asked> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_word) {
        let word: String = rest[start..].chars().take_while(|c| is_word(*c)).collect();
        rest = &rest[start + word.len()..];
        let labels = match rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((inner, after)) => {
                rest = after;
                matchers(inner)
            }
            None => Vec::new(),
        };
        let is_metric = ["portcullis_", "envoy_"].iter().any(|prefix| word.starts_with(prefix));
        // Envoy's labels have its prefix, too, and are listed in `by (…)`.
        if is_metric && word != "envoy_cluster_name" {
            found.push(Asked { metric: word, labels });
        }
    }
    found
}

fn matchers(inner: &str) -> Vec<(String, String)> {
    let pairs = inner.split("\",").map(|pair| pair.split_once(['=', '!']).unwrap_or_else(|| panic!("{inner}")));
    pairs.map(|(label, value)| (label.to_owned(), value.trim_matches(['=', '~', '"']).to_owned())).collect()
}

/// The metrics of a generated page with their labels, and all words of closed sets on it.
fn reference(page: &str) -> (BTreeMap<String, BTreeSet<String>>, String) {
    let text = std::fs::read_to_string(project_root().join("docs/reference").join(page)).unwrap();
    let mut metrics = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").map(|label| label.trim_matches('`').to_owned());
        metrics.insert(cells[1].trim_matches('`').to_owned(), labels.collect());
    }
    (metrics, text)
}

/// The same of the agent's gauges of top talkers.
fn talkers() -> (BTreeMap<String, BTreeSet<String>>, String) {
    let text = std::fs::read_to_string(project_root().join("docs/operations.md")).unwrap();
    let labels: BTreeSet<String> = ["cluster", "kind", "name"].map(str::to_owned).into();
    let gauges = text.lines().filter_map(|line| line.strip_prefix("| `portcullis_top_")?.split('`').next());
    (gauges.map(|name| (format!("portcullis_top_{name}"), labels.clone())).collect(), text)
}

fn stem(metric: &str) -> &str {
    ["_bucket", "_count", "_sum"].iter().find_map(|suffix| metric.strip_suffix(suffix)).unwrap_or(metric)
}

#[test]
fn every_metric_of_ours_that_is_asked_for_is_told() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    let pages = [reference("metrics.md"), reference("control-plane-metrics.md"), talkers()];
    let mut wrong = Vec::new();
    let mut seen = 0;
    for expression in expressions(&rendered) {
        for Asked { metric, labels } in asked(&expression) {
            if !metric.contains("portcullis_") {
                continue;
            }
            seen += 1;
            let known = pages.iter().find_map(|(metrics, text)| {
                let labels = metrics.get(&metric).or_else(|| metrics.get(stem(&metric)));
                Some((labels?, text))
            });
            let Some((own, text)) = known else {
                wrong.push(format!("no metric {metric}: {expression}"));
                continue;
            };
            for (label, value) in labels {
                if !own.contains(&label) && !COMMON.contains(&label.as_str()) {
                    wrong.push(format!("{metric} has no label {label}: {expression}"));
                }
                let words =
                    value.split('|').filter(|word| !word.starts_with('$') && !["", "4..", "5.."].contains(word));
                wrong.extend(
                    words
                        .filter(|word| !text.contains(&format!("`{word}`")))
                        .map(|word| format!("{label} of {metric} is never {word}: {expression}")),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 40, "{seen}");
}

/// The counts of requests by outcome: a second series about the same request is no second request, and no refusal unless it is
/// one.
#[test]
fn every_decision_is_asked_for_on_purpose() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    for expression in expressions(&rendered) {
        let of_requests = asked(&expression).into_iter().filter(|one| one.metric == "envoy_portcullis_requests_total");
        for one in of_requests.filter(|_| !expression.starts_with("label_values(")) {
            let is_chosen = one.labels.iter().any(|(label, _)| ["decision", "reason"].contains(&label.as_str()));
            assert!(is_chosen, "counts a request that was replaced or ended twice: {expression}");
            assert!(!expression.contains("decision!="), "a decision that is new would count, too: {expression}");
        }
    }
}

/// Envoy's own metrics that are not on the page of a gateway that has served a request.
pub(super) fn missing(page: &str) -> Vec<String> {
    let rendered = Rendered::of("overlays/complete").unwrap();
    let told: BTreeSet<&str> = page.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let all = expressions(&rendered).into_iter().flat_map(|expression| asked(&expression));
    let names: BTreeSet<String> = all.map(|one| one.metric).filter(|name| name.starts_with("envoy_")).collect();
    // The agent leaves out what was never counted, and the requests of the test are no lists or watches, wait for no answer of the
    // servers, hold no place, drain no connection and are not tried again.
    let absent = [
        "envoy_portcullis_review_wait_milliseconds_bucket",
        "envoy_portcullis_requests_in_flight",
        "envoy_portcullis_requests_in_flight_limit",
        "envoy_portcullis_requests_per_second_limit",
        "envoy_portcullis_rebalanced_connections_total",
        "envoy_cluster_upstream_rq_retry",
        "envoy_cluster_outlier_detection_ejections_active",
        "envoy_portcullis_apiserver_longrunning_requests",
        "envoy_portcullis_apiserver_response_sizes_sum",
    ];
    let is_missing = |name: &String| !told.contains(name.as_str()) && !absent.contains(&name.as_str());
    names.into_iter().filter(is_missing).collect()
}

/// The expressions as Prometheus reads them, with durations in place of Grafana's variables.
#[test]
fn prometheus_understands_every_expression() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    let is_query = |one: &String| !one.starts_with("label_values(");
    let all: Vec<String> = expressions(&rendered).into_iter().filter(is_query).collect();
    let text = Value::from(all).to_string().replace("$__rate_interval", "5m");
    let run = RunDir::new("expressions").unwrap();
    let Some(found) = parsed("expressions", &run.write("all.json", &text).unwrap()) else { return };
    assert_eq!(found, [""; 0]);
    is_noticed("expressions", &text, "histogram_quantile(0.99, ", "histogram_quantile(0.99 ");
}

#[test]
fn alerts_say_what_happened_and_how_bad_it_is() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    let mut names = BTreeSet::new();
    let runbooks = std::fs::read_to_string(project_root().join("docs/troubleshoot.md")).unwrap();
    for group in rendered.get("PrometheusRule", "portcullis")["spec"]["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            let name = rule["alert"].as_str().unwrap();
            assert!(name.starts_with("Portcullis") && names.insert(name.to_owned()), "{name}");
            let severity = rule["labels"]["severity"].as_str().unwrap();
            assert!(["critical", "warning"].contains(&severity) || severity.contains("$labels.job"), "{name}");
            assert!(rule["annotations"]["summary"].as_str().unwrap().len() > 20, "{name}");
            let runbook = format!("docs/troubleshoot.md#{}", name.to_lowercase());
            assert_eq!(rule["annotations"]["runbook"], runbook);
            assert!(runbooks.contains(&format!("\n### {name}\n")), "{name} has no section");
        }
    }
}

/// A tenant's servers neither hide nor cause an alert about the gateways of no group.
#[test]
fn alerts_of_gateways_are_apart_for_each_group() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    let groups = rendered.get("PrometheusRule", "portcullis")["spec"]["groups"].as_array().unwrap();
    let of_gateways = groups.iter().find(|group| group["name"] == "portcullis-gateway").unwrap();
    let mut milder = BTreeSet::new();
    for rule in of_gateways["rules"].as_array().unwrap() {
        let (name, expression) = (rule["alert"].as_str().unwrap(), rule["expr"].as_str().unwrap());
        for labels in expression.split(" by (").skip(1).filter_map(|rest| rest.split(')').next()) {
            let labels: BTreeSet<&str> = labels.split(", ").collect();
            assert!(labels.contains("job") || labels.contains("pod"), "{name}: {labels:?}");
        }
        let severity = rule["labels"]["severity"].as_str().unwrap();
        if severity.contains("$labels.job") {
            let sums = expression.matches(" by (").count();
            assert_eq!(sums, expression.matches(" by (namespace, job, ").count(), "{name} has no job");
            let jobs: Vec<&str> = severity.split('"').skip(1).step_by(2).collect();
            assert_eq!(jobs, ["-gateway-metrics$", "-metrics-"], "{name}");
            milder.insert(name);
        }
    }
    let expected = ["PortcullisGatewayCredentialRefused", "PortcullisGatewayFails", "PortcullisNoHealthyServer"];
    assert_eq!(milder, expected.into());
}

/// kube-prometheus-stack selects what has the label of its Helm release, and dashboards by a label of Grafana's sidecar.
#[test]
fn monitors_and_rules_have_the_label_of_their_release() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    let selected: Vec<&Value> = rendered.all("ServiceMonitor").chain(rendered.all("PrometheusRule")).collect();
    assert_eq!(selected.len(), 3);
    for one in selected {
        assert_eq!(one["metadata"]["labels"]["release"], "kube-prometheus-stack", "{}", one["metadata"]["name"]);
    }
    assert_eq!(rendered.get("ConfigMap", "portcullis-dashboard")["metadata"]["labels"]["grafana_dashboard"], "1");
    let readme = std::fs::read_to_string(project_root().join("deploy/kubernetes/README.md")).unwrap();
    let mut blocks = readme.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
    let patch = blocks.find(|block| block.contains("/metadata/labels/release")).unwrap().replace("NAME", "mine");
    let run = RunDir::new("release-label").unwrap();
    // kustomize takes no absolute path.
    let up = "../".repeat(run.path().components().count() - 1);
    let complete = project_root().join("deploy/kubernetes/overlays/complete");
    let complete = format!("{up}{}", complete.strip_prefix("/").unwrap().display());
    run.write("kustomization.yaml", format!("resources: [{complete}]\n{patch}")).unwrap();
    let patched = Rendered::at(run.path()).unwrap();
    for one in patched.all("ServiceMonitor").chain(patched.all("PrometheusRule")) {
        assert_eq!(one["metadata"]["labels"]["release"], "mine", "the overlay of the README");
    }
}

/// Which Services are scraped, and where.
#[test]
fn monitors_find_their_services() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    let monitors: Vec<&Value> = rendered.all("ServiceMonitor").collect();
    assert_eq!(monitors.len(), 2);
    for monitor in monitors {
        let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
        let carries = |one: &&Value| wanted.iter().all(|(key, value)| one["metadata"]["labels"][key] == *value);
        let services: Vec<&Value> = rendered.all("Service").filter(carries).collect();
        assert_eq!(services.len(), 1, "{monitor}");
        let endpoint = &monitor["spec"]["endpoints"][0];
        let ports = services[0]["spec"]["ports"].as_array().unwrap();
        assert!(ports.iter().any(|port| port["name"] == endpoint["port"]), "{monitor}");
        assert_eq!(endpoint["path"], "/metrics");
        let job = format!("job=\"{}\"", services[0]["metadata"]["name"].as_str().unwrap());
        assert!(expressions(&rendered).iter().any(|one| one.contains(&job)), "an alert watches {job}");
    }
}
