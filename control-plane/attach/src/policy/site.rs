use portcullis_api::{CLUSTER_KIND, POLICY_API_VERSION, PolicyRole, PolicyTarget};

use super::{PolicyObject, PolicyTargets};
use crate::condition::{Note, Rejection};
use crate::grants::{Grants, Referent, Referrer};
use crate::name::ObjectName;

/// A policy at one of its targets.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) target: PolicyTarget,
    /// The `UpstreamCluster` and the part that the policy may have there, or why it may not be there.
    pub(super) standing: Result<(String, PolicyRole), Rejection>,
    pub(super) note: Option<Note>,
}

/// The policy at each of its targets.
pub(super) fn sites(policy: &PolicyObject, grants: &Grants<'_>, targets: &PolicyTargets) -> Vec<Site> {
    let site = |(index, target): (usize, &PolicyTarget)| {
        let standing = standing(policy, target, grants, targets);
        let is_assumed = matches!(&standing, Ok((name, _)) if !targets.clusters.contains_key(name));
        let note = is_assumed.then(|| Note::assumed(format!("spec.targetRefs[{index}]"), &target.kind, &target.name));
        Site { target: target.clone(), standing, note }
    };
    policy.targets.iter().enumerate().map(site).collect()
}

fn standing(
    policy: &PolicyObject,
    target: &PolicyTarget,
    grants: &Grants<'_>,
    targets: &PolicyTargets,
) -> Result<(String, PolicyRole), Rejection> {
    if target.kind != CLUSTER_KIND {
        return Err(unserved(policy, target));
    }
    permitted(policy, target, grants, &targets.home_namespace)?;
    let name = target.name.clone();
    if targets.is_complete && !targets.clusters.contains_key(&name) {
        return Err(Rejection::new("TargetNotFound", format!("there is no UpstreamCluster {name}")));
    }
    let is_home = policy.metadata.namespace == targets.home_namespace;
    Ok((name, if is_home { PolicyRole::Decides } else { PolicyRole::Tightens }))
}

/// This is the one place to change once the Envoys of Gateways serve `HTTPRoutes` with policies: [`super::deciding`] then says which
/// one decides. Until then a policy there has to say that nothing asks it.
fn unserved(policy: &PolicyObject, target: &PolicyTarget) -> Rejection {
    let what = match target.kind.as_str() {
        "Gateway" | "HTTPRoute" => &target.kind,
        kind => return Rejection::new("Invalid", format!("kind {kind:?} is no target of a policy")),
    };
    let name = ObjectName::new(policy.metadata.namespace.as_str(), target.name.as_str());
    let message =
        format!("{what} {name}: policies are served for UpstreamClusters alone, and have no effect elsewhere");
    Rejection::new("UnsupportedValue", message)
}

/// Whether the policy may be attached to an `UpstreamCluster`. This is asked before whether that is there. A cluster has no namespace;
/// who may is said in the control plane's own.
fn permitted(
    policy: &PolicyObject,
    target: &PolicyTarget,
    grants: &Grants<'_>,
    home_namespace: &str,
) -> Result<(), Rejection> {
    let group = POLICY_API_VERSION.split('/').next().unwrap_or_default();
    let from = Referrer { group, kind: policy.kind.as_str(), namespace: &policy.metadata.namespace };
    let to = Referent { group: &target.group, kind: &target.kind, namespace: home_namespace, name: &target.name };
    if grants.permit(from, to) {
        return Ok(());
    }
    let message = format!("no ReferenceGrant in namespace {home_namespace} permits {} {}", target.kind, target.name);
    Err(Rejection::new("RefNotPermitted", message))
}
