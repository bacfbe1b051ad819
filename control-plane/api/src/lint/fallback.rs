//! Requests that no policy matches are answered 403, also those that every client starts with.

use super::Warnings;
use crate::problem::ProblemCode;
use crate::request_part::{RequestPart, parts};
use crate::types::DispatchPolicy;

const PATH: &str = "spec.dispatchPolicies";
/// The first requests of kubectl and client libraries, and those of probes.
const USUAL: [&str; 8] = ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/version", "/healthz", "/livez", "/readyz"];

pub(super) fn lint(policies: &[DispatchPolicy], warnings: &mut Warnings) {
    if policies.is_empty() {
        return;
    }
    let of = |policy: &DispatchPolicy| policy.rules.iter().map(parts).collect::<Vec<_>>();
    let all: Vec<[RequestPart; 2]> = policies.iter().flat_map(of).collect();
    let dispatched: Vec<_> = policies.iter().filter(|policy| !policy.denies()).flat_map(of).collect();
    let is_complete = |kind: usize| all.iter().any(|parts| parts.get(kind).is_some_and(RequestPart::is_everything));
    if !is_complete(0) {
        warnings.add(
            ProblemCode::MissingDefault,
            PATH,
            "no policy takes the resource requests that no other one matches: they are answered 403",
            r#"end the list with a policy that has the rule {verbs: ["*"], apiGroups: ["*"], resources: ["*"]}"#,
        );
    }
    if !is_complete(1) {
        warnings.add(
            ProblemCode::MissingDefault,
            PATH,
            paths(&dispatched),
            r#"end the list with a policy that has the rule {verbs: ["*"], nonResourceURLs: ["*"]}"#,
        );
    }
}

fn paths(all: &[[RequestPart; 2]]) -> String {
    let serves = |path: &&str| all.iter().flatten().any(|part| part.serves_path(path));
    let missing: Vec<_> = USUAL.into_iter().filter(|path| !serves(path)).collect();
    let message = "no policy takes the other non-resource requests that no other one matches: they are answered 403";
    if missing.is_empty() {
        return message.to_owned();
    }
    format!("{}; kubectl and probes need {}", message.replace("the other non", "the non"), missing.join(", "))
}
