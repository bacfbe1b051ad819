//! The size of one object.

use std::collections::BTreeSet;

use super::Findings;
use crate::bounds::{
    MAX_CLIENT_ADDRESSES, MAX_FAIR_QUEUES, MAX_GROUPS, MAX_NAMES, MAX_POLICIES, MAX_PROFILES, MAX_SCHEMAS, MAX_SERVERS,
    MAX_VIRTUAL_IPS,
};
use crate::types::{DispatchPolicy, UpstreamClusterSpec};

/// Whether no list that is a set for server-side apply has an entry twice.
fn check_sets(spec: &UpstreamClusterSpec, findings: &mut Findings) -> bool {
    let sets = [
        ("spec.portcullis.extraAuthorities", &spec.portcullis.extra_authorities),
        ("spec.portcullis.virtualIPs", &spec.portcullis.virtual_ips),
        ("spec.portcullis.forwardedExtras", &spec.portcullis.forwarded_extras),
        ("spec.portcullis.operatorGroups", &spec.portcullis.operator_groups),
    ];
    let mut is_fine = true;
    for (path, entries) in sets {
        let mut seen = BTreeSet::new();
        for (index, _) in entries.iter().enumerate().filter(|(_, entry)| !seen.insert(*entry)) {
            findings.problem(format!("{path}[{index}]"), "is listed twice");
            is_fine = false;
        }
    }
    is_fine
}

/// Whether the object is not too large together with what only reports, which takes as much of a gateway as what decides.
fn check_shadow_size(spec: &UpstreamClusterSpec, findings: &mut Findings) -> bool {
    let shadow = &spec.portcullis.shadow;
    if !shadow.is_set() && !spec.has_shadow_policies() {
        return true;
    }
    let (policies, schemas) = (&spec.dispatch_policies, &spec.flow_control.flow_control_schemas);
    let limits = shadow.flow_control.as_ref().map_or(schemas, |limits| &limits.flow_control_schemas);
    let lists = [
        ("policies", policies.len(), shadow.dispatch_policies.as_ref().unwrap_or(policies).len(), MAX_POLICIES),
        ("flow control schemas", schemas.len(), limits.len(), MAX_SCHEMAS),
    ];
    let too_many = lists.into_iter().find(|(_, real, shadow, most)| real.saturating_add(*shadow) > *most);
    if let Some((what, real, shadow, most)) = too_many {
        let message = format!("{what} that decide and those of the shadow, {real} and {shadow}, are more than {most}");
        findings.problem("spec.portcullis.shadow", message);
    }
    too_many.is_none()
}

/// Whether the object is within the bounds of one object. If it is not, nothing else of it is checked.
pub(super) fn check_size(spec: &UpstreamClusterSpec, findings: &mut Findings) -> bool {
    let profiles = &spec.portcullis.profiles;
    let of_profiles = profiles.iter().fold(0, |sum: usize, one| sum.saturating_add(one.dispatch_policies.len()));
    let schemas =
        profiles.iter().fold(0, |sum: usize, one| sum.saturating_add(one.flow_control.flow_control_schemas.len()));
    let lists = [
        ("spec.secureServing.serverNames", spec.secure_serving.server_names.len(), MAX_NAMES),
        ("spec.portcullis.extraAuthorities", spec.portcullis.extra_authorities.len(), MAX_NAMES),
        ("spec.servers", spec.servers.len(), MAX_SERVERS),
        ("spec.portcullis.virtualIPs", spec.portcullis.virtual_ips.len(), MAX_VIRTUAL_IPS),
        ("spec.portcullis.clientAddresses.allow", spec.portcullis.client_addresses.allow.len(), MAX_CLIENT_ADDRESSES),
        ("spec.portcullis.servers", spec.portcullis.servers.len(), MAX_SERVERS),
        ("spec.flowControl.flowControlSchemas", spec.flow_control.flow_control_schemas.len(), MAX_SCHEMAS),
        ("spec.portcullis.fairQueues", spec.portcullis.fair_queues.len(), MAX_FAIR_QUEUES),
        ("spec.portcullis.profiles", profiles.len(), MAX_PROFILES),
        ("spec.portcullis.profiles[].flowControl.flowControlSchemas", schemas, MAX_SCHEMAS),
        ("spec.portcullis.operatorGroups", spec.portcullis.operator_groups.len(), MAX_NAMES),
        ("spec.dispatchPolicies", spec.dispatch_policies.len().saturating_add(of_profiles), MAX_POLICIES),
    ];
    let mut is_fine = true;
    for (path, length, most) in lists {
        if length > most {
            findings.problem(path, format!("must not have more than {most} entries"));
            is_fine = false;
        }
    }
    is_fine &= check_sets(spec, findings);
    is_fine &= check_shadow_size(spec, findings);
    is_fine &= check_groups(&spec.dispatch_policies, "spec.dispatchPolicies", findings);
    for (index, profile) in profiles.iter().enumerate() {
        let path = format!("spec.portcullis.profiles[{index}].dispatchPolicies");
        is_fine &= check_groups(&profile.dispatch_policies, &path, findings);
    }
    is_fine
}

/// Whether the groups of servers of a list of policies are within their bound.
pub(super) fn check_groups(policies: &[DispatchPolicy], path: &str, findings: &mut Findings) -> bool {
    let mut groups = BTreeSet::new();
    for (index, policy) in policies.iter().enumerate() {
        let subset: BTreeSet<_> = policy.upstream_subset.iter().collect();
        let strategy = Some(policy.strategy.as_str()).filter(|strategy| !strategy.is_empty()).unwrap_or("RoundRobin");
        let is_own = !subset.is_empty() || strategy != "RoundRobin";
        if is_own && groups.insert((subset, strategy)) && groups.len() > MAX_GROUPS {
            let path = format!("{path}[{index}].upstreamSubset");
            let message = format!(
                "is one subset too many: at most {MAX_GROUPS} different combinations of subset and strategy are possible"
            );
            findings.problem(path, message);
            return false;
        }
    }
    true
}
