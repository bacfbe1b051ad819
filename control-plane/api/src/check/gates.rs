use super::Findings;
use crate::ObjectMeta;

/// KubeGateway's feature gates of one object, `A=true,B=false`.
const ANNOTATION: &str = "proxy.kubegateway.io/feature-gates";

/// What the gates of an object ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// Every request is answered 429.
    pub deny_all_requests: bool,
}

/// A gate that cannot be read or is not known may have been meant to close the cluster, so it refuses the object.
pub(super) fn check_gates(meta: &ObjectMeta, findings: &mut Findings) -> Gates {
    let mut gates = Gates::default();
    let Some(text) = meta.annotations.as_ref().and_then(|all| all.get(ANNOTATION)) else { return gates };
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
            ("DenyAllRequests", on) => gates.deny_all_requests = on,
            (name @ ("CloseConnectionWhenIdle" | "GlobalRateLimiter" | "Tracing"), true) => {
                findings.warning(path.clone(), format!("{name} has no effect yet"));
            }
            ("CloseConnectionWhenIdle" | "GlobalRateLimiter" | "Tracing", false) => {}
            _ => findings.problem(path.clone(), "names a feature gate that does not exist"),
        }
    }
    gates
}
