use super::Findings;
use crate::ObjectMeta;

/// KubeGateway's feature gates of one object, `A=true,B=false`.
const ANNOTATION: &str = "proxy.kubegateway.io/feature-gates";

/// A gate that cannot be read or is not known may have been meant to close the cluster, so it refuses the object.
pub(super) fn check_gates(meta: &ObjectMeta, findings: &mut Findings) {
    let Some(text) = meta.annotations.as_ref().and_then(|all| all.get(ANNOTATION)) else { return };
    let path = format!("metadata.annotations[{ANNOTATION}]");
    for gate in text.split(',').map(str::trim).filter(|gate| !gate.is_empty()) {
        let (name, value) = gate.split_once('=').unwrap_or((gate, ""));
        let on = match value.trim() {
            "true" => true,
            "false" => false,
            _ => {
                findings.problem(path.clone(), "must be a list of Gate=true or Gate=false");
                continue;
            }
        };
        match (name.trim(), on) {
            ("DenyAllRequests", true) => findings.problem(
                path.clone(),
                "DenyAllRequests is not implemented yet: the object is refused, and nothing of it is served",
            ),
            (name @ ("CloseConnectionWhenIdle" | "GlobalRateLimiter" | "Tracing"), true) => {
                findings.warning(path.clone(), format!("{name} has no effect yet"));
            }
            ("DenyAllRequests" | "CloseConnectionWhenIdle" | "GlobalRateLimiter" | "Tracing", false) => {}
            _ => findings.problem(path.clone(), "names a feature gate that does not exist"),
        }
    }
}
