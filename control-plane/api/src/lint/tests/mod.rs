//! Each finding, by the smallest manifest that shows it; and manifests without findings.

mod expiry;
mod rules;
mod whole;

use serde_json::{Value, json};

use crate::check::check_cluster;
use crate::lint::lint_cluster;
use crate::parse::parse_cluster;
use crate::problem::Problem;
use crate::problem::ProblemCode;
use crate::types::UpstreamCluster;

/// The code and the path of a finding.
type Warnings = (ProblemCode, String);

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn cluster(spec: Value) -> UpstreamCluster {
    let kind =
        json!({"apiVersion": crate::CLUSTER_API_VERSION, "kind": crate::CLUSTER_KIND, "metadata": {"name": "a.test"}});
    let mut document = kind;
    document["spec"] = spec;
    parse_cluster(&document).unwrap()
}

/// All findings about a spec that are no errors.
fn warned(spec: Value) -> Vec<Problem> {
    let raw = cluster(spec);
    let mut warnings = check_cluster(&raw, true).warnings;
    warnings.extend(lint_cluster(&raw, 0));
    warnings
}

fn codes(warnings: &[Problem]) -> Vec<Warnings> {
    warnings.iter().map(|warnings| (warnings.code, warnings.path.clone())).collect()
}

/// The policies, and behind them one that takes everything else.
fn with_default(policies: &str) -> Value {
    let mut policies = yaml(policies);
    let rest = json!({"rules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]});
    policies.as_array_mut().unwrap().push(rest);
    json!({"dispatchPolicies": policies})
}
