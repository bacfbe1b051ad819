use super::Findings;
use crate::problem::Problem;
use crate::problem::ProblemCode;
use crate::types::ObjectMeta;

/// KubeGateway's feature gates of one object, `A=true,B=false`.
const ANNOTATION: &str = "proxy.kubegateway.io/feature-gates";

/// The effects of an object's feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// Every request is answered 429.
    pub deny_all_requests: bool,
    /// A connection takes no more requests once one came on it.
    pub close_connections: bool,
    /// Whether limits of all gateways hold, where the schemas have them.
    pub global_limits: bool,
    /// Whether requests are traced, if the object says so: by default the settings decide.
    pub tracing: Option<bool>,
}

impl Default for FeatureGates {
    /// Without the annotation. Limits of all gateways hold: a schema names a strategy for them, and where KubeGateway needs the gate
    /// besides, its processes may have it for all objects.
    fn default() -> Self {
        Self { deny_all_requests: false, close_connections: false, global_limits: true, tracing: None }
    }
}

/// Reads the feature gates. A gate that cannot be read may have been meant to close the cluster, so it refuses the object. An
/// unknown one leads to a warning.
pub(super) fn check_gates(meta: &ObjectMeta, findings: &mut Findings) -> FeatureGates {
    let Some(text) = meta.annotations.as_ref().and_then(|all| all.get(ANNOTATION)) else {
        return FeatureGates::default();
    };
    let path = format!("metadata.annotations[{ANNOTATION}]");
    let (mut deny_all, mut close, mut global_limits, mut tracing, mut all_alpha) = (None, None, None, None, None);
    for gate in text.split(',').map(str::trim).filter(|gate| !gate.is_empty()) {
        let (name, value) = gate.split_once('=').unwrap_or((gate, ""));
        let Some(on) = truth(value.trim()) else {
            findings.problem(path.clone(), "must be a list of Gate=true or Gate=false");
            continue;
        };
        match name.trim() {
            "DenyAllRequests" => deny_all = Some(on),
            "CloseConnectionWhenIdle" => close = Some(on),
            "Tracing" => tracing = Some(on),
            "GlobalRateLimiter" => global_limits = Some(on),
            // Kubernetes' own word for every alpha gate, and all of KubeGateway's are.
            "AllAlpha" => all_alpha = Some(on),
            "AllBeta" if !on => {}
            "AllBeta" => {
                findings.warn(Problem::coded(ProblemCode::NoEffect, path.clone(), "no gate is beta"));
            }
            other => findings.warn(unknown(path.clone(), other)),
        }
    }
    FeatureGates {
        deny_all_requests: deny_all.or(all_alpha).unwrap_or_default(),
        close_connections: close.or(all_alpha).unwrap_or_default(),
        global_limits: global_limits.or(all_alpha).unwrap_or(true),
        tracing,
    }
}

/// As Go's `strconv.ParseBool` reads it.
fn truth(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn unknown(path: String, gate: &str) -> Problem {
    let known = "the gates are DenyAllRequests, CloseConnectionWhenIdle, GlobalRateLimiter and Tracing";
    let message = format!("names a feature gate that does not exist, {gate:?}; it is ignored");
    Problem::coded(ProblemCode::UnknownGate, path, message).hint(known)
}
