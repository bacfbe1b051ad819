//! Check of a policy of `mode: Shadow`, or of an alternative.

use portcullis_filter_config::{AccessLists, AccessScope, FlowControlSchema};

use super::Findings;
use super::access::check_access;
use super::denials::{check_denials, check_heartbeats};
use super::fair_queue::check_fair_queues;
use super::flow_control::check_flow_control;
use super::identity::UpstreamIdentity;
use super::object_size::check_groups;
use super::policies::{Policy, check_policies, check_spelling};
use super::servers::Server;
use crate::bounds::MAX_ADDRESSES;
use crate::types::UpstreamClusterSpec;

/// The whole alternative by which requests are judged beside, checked as if it decided.
#[derive(Clone, Debug)]
pub struct CheckedShadow {
    /// Access lists in the place of the object's own.
    pub access: Option<AccessLists>,
    /// Limits that its policies may name.
    pub schemas: Vec<FlowControlSchema>,
    /// Dispatch policies, in order.
    pub policies: Vec<Policy>,
}

/// Findings of the real check, for the shadow's.
pub(super) struct RealParts<'a> {
    pub(super) servers: &'a [Server],
    pub(super) identity: &'a UpstreamIdentity,
    pub(super) access: Option<&'a AccessLists>,
    pub(super) has_global_limits: bool,
}

/// Checks what would decide as if it did, by the same checks.
pub(super) fn check_shadow(
    spec: &UpstreamClusterSpec,
    real: &RealParts<'_>,
    findings: &mut Findings,
) -> Option<CheckedShadow> {
    if spec.has_shadow_policies() && spec.portcullis.shadow.is_set() {
        findings.problem("spec.portcullis.shadow", "excludes mode: Shadow of a policy: remove one of the two");
        return None;
    }
    let promoted = spec.promoted()?;
    let mut own = Findings::default();
    let schemas = check_flow_control(&promoted.flow_control, real.has_global_limits, &mut own);
    check_fair_queues(&promoted, &mut own);
    let policies = check_policies(&promoted, real.servers, &mut own);
    check_groups(&promoted.dispatch_policies, "spec.dispatchPolicies", &mut own);
    check_spelling(&promoted, &mut own);
    let access = check_access(&promoted.portcullis.access, "spec.portcullis.access", AccessScope::Cluster, &mut own);
    check_heartbeats(&promoted.dispatch_policies, &mut own);
    check_denials(&promoted.dispatch_policies, real.identity, &mut own);
    for (index, _) in promoted.dispatch_policies.iter().enumerate().filter(|(_, policy)| policy.is_shadow()) {
        own.problem(format!("spec.dispatchPolicies[{index}].portcullis.mode"), "is not for a policy that only reports");
    }
    findings.problems.extend(spec.of_shadow(own.problems, &findings.problems));
    findings.warnings.extend(spec.of_shadow(own.warnings, &findings.warnings));
    let addresses = |lists: Option<&AccessLists>| -> usize {
        lists.iter().flat_map(|lists| lists.all()).map(|entry| entry.addresses.len()).sum()
    };
    if addresses(real.access).saturating_add(addresses(access.as_ref())) > MAX_ADDRESSES {
        let message =
            format!("the access lists and those of the shadow have more than {MAX_ADDRESSES} addresses together");
        findings.problem("spec.portcullis.access", message);
    }
    warn_of_what_is_not_judged(spec, &promoted, access.as_ref(), findings);
    Some(CheckedShadow { access, schemas, policies })
}

fn warn_of_what_is_not_judged(
    spec: &UpstreamClusterSpec,
    promoted: &UpstreamClusterSpec,
    access: Option<&AccessLists>,
    findings: &mut Findings,
) {
    let path = if spec.portcullis.shadow.is_set() { "spec.portcullis.shadow" } else { "spec.dispatchPolicies" };
    let is_new = |index: usize| {
        spec.portcullis.shadow.dispatch_policies.is_some()
            || spec.dispatch_policies.get(index).is_some_and(|policy| policy.is_shadow())
    };
    let queues = &promoted.portcullis.fair_queues;
    let waits = |name: &str| queues.iter().any(|queue| queue.name == name);
    let mut new = promoted.dispatch_policies.iter().enumerate().filter(|(index, _)| is_new(*index));
    if new.any(|(_, policy)| waits(&policy.flow_control_schema_name)) {
        findings
            .warning(path, "no request waits in a shadow: a policy with a fair queue is taken for one without a limit");
    }
    let judges_tokens = promoted.portcullis.upstream_identity != "RequestHeader"
        || promoted.portcullis.request_header.token_review != Some(false);
    if !judges_tokens && access.is_some_and(AccessLists::depends_on_user) && !spec.portcullis.access.names_users() {
        findings.warning(
            path,
            "requests with a token are not judged by access lists that name users: tokens are not reviewed here",
        );
    }
}
