use portcullis_api::{CLUSTER_KIND, POLICY_API_VERSION, PolicyKind, PolicyRole, PolicyTarget, UpstreamPolicyError};

use super::doors::{Door, DoorAbsence, DoorTargets};
use super::{PolicyObject, PolicyTargets};
use crate::condition::{Note, Rejection};
use crate::grants::{Grants, Referent, Referrer};
use crate::name::{ObjectName, UPSTREAM};

/// A place where a policy has a part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PolicyPlace {
    /// An `UpstreamCluster`, by its name.
    Cluster(String),
    /// A `KubernetesUpstream`.
    Upstream(ObjectName),
    Door(Door),
}

/// A policy at one of its targets.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) target: PolicyTarget,
    /// The place and the part that the policy may have there, or why it may not be there.
    pub(super) standing: Result<(PolicyPlace, PolicyRole), Rejection>,
    /// Why the place, if it is a door, is none that is served. The policy keeps its part: the door may come next.
    pub(super) absence: Option<DoorAbsence>,
    pub(super) note: Option<Note>,
}

impl Site {
    /// Whether it is not known if this controller judges the policy there.
    pub(super) fn is_undecided(&self) -> bool {
        self.standing.is_ok() && self.absence == Some(DoorAbsence::Unknown)
    }
}

/// The policy at each of its targets.
pub(super) fn sites(policy: &PolicyObject, grants: &Grants<'_>, targets: &PolicyTargets) -> Vec<Site> {
    let site = |(index, target): (usize, &PolicyTarget)| {
        let standing = standing(policy, target, grants, targets);
        let mut absence = match &standing {
            Ok((PolicyPlace::Door(door), _)) => targets.absence(door),
            Ok((PolicyPlace::Upstream(name), _)) => targets.upstream_absence(name),
            _ => None,
        };
        let is_missing = match &standing {
            Ok((PolicyPlace::Cluster(name), _)) => !targets.clusters.contains_key(name),
            Ok((PolicyPlace::Door(_) | PolicyPlace::Upstream(_), _)) => {
                matches!(absence, Some(DoorAbsence::Missing(_)))
            }
            Err(_) => false,
        };
        let is_assumed = is_missing && !targets.is_complete;
        absence = absence.filter(|_| !is_assumed);
        let note = is_assumed.then(|| Note::assumed(format!("spec.targetRefs[{index}]"), &target.kind, &target.name));
        Site { target: target.clone(), standing, absence, note }
    };
    policy.targets.iter().enumerate().map(site).collect()
}

impl PolicyTargets {
    fn absence(&self, door: &Door) -> Option<DoorAbsence> {
        match &self.doors {
            DoorTargets::Unserved => Some(DoorAbsence::Foreign),
            DoorTargets::Unlisted => Some(DoorAbsence::Unknown),
            DoorTargets::Listed(doors) => doors.absence(door),
        }
    }

    fn upstream_absence(&self, name: &ObjectName) -> Option<DoorAbsence> {
        match &self.doors {
            DoorTargets::Unserved => Some(DoorAbsence::Foreign),
            DoorTargets::Unlisted => Some(DoorAbsence::Unknown),
            DoorTargets::Listed(_) if self.upstreams.contains_key(name) => None,
            DoorTargets::Listed(_) => {
                let message = format!("there is no KubernetesUpstream {name}, or the most that are served are older");
                Some(DoorAbsence::Missing(message))
            }
        }
    }
}

fn standing(
    policy: &PolicyObject,
    target: &PolicyTarget,
    grants: &Grants<'_>,
    targets: &PolicyTargets,
) -> Result<(PolicyPlace, PolicyRole), Rejection> {
    if (target.group.as_str(), target.kind.as_str()) == UPSTREAM {
        return at_upstream(policy, target, targets);
    }
    if target.kind != CLUSTER_KIND {
        // It is of the policy's own namespace, and needs no permission.
        let door = Door::of(target, &policy.metadata.namespace).ok_or_else(|| {
            Rejection::new("Invalid", format!("{} of group {:?} is no target of a policy", target.kind, target.group))
        })?;
        if targets.doors == DoorTargets::Unserved {
            let message = format!("{door}: the control plane serves no Gateways (--gateway-api)");
            return Err(Rejection::new("UnsupportedValue", message));
        }
        return Ok((PolicyPlace::Door(door), PolicyRole::Tightens));
    }
    permitted(policy, target, grants, &targets.home_namespace)?;
    let name = target.name.clone();
    if targets.is_complete && !targets.clusters.contains_key(&name) {
        return Err(Rejection::new("TargetNotFound", format!("there is no UpstreamCluster {name}")));
    }
    let is_home = policy.metadata.namespace == targets.home_namespace;
    Ok((PolicyPlace::Cluster(name), if is_home { PolicyRole::Decides } else { PolicyRole::Tightens }))
}

/// It is of the policy's own namespace, whose word it is, and needs no permission.
fn at_upstream(
    policy: &PolicyObject,
    target: &PolicyTarget,
    targets: &PolicyTargets,
) -> Result<(PolicyPlace, PolicyRole), Rejection> {
    let name = ObjectName::new(policy.metadata.namespace.as_str(), target.name.as_str());
    if targets.doors == DoorTargets::Unserved {
        let message = format!("KubernetesUpstream {name}: the control plane serves no Gateways (--gateway-api)");
        return Err(Rejection::new("UnsupportedValue", message));
    }
    if policy.kind == PolicyKind::UpstreamIdentity {
        return Err(Rejection::new("Invalid", UpstreamPolicyError::Identity.to_string()));
    }
    Ok((PolicyPlace::Upstream(name), PolicyRole::Decides))
}

/// Whether the policy may be attached to an `UpstreamCluster`. This is asked before whether that is there. A cluster has no namespace;
/// who may is said in the control plane's own.
fn permitted(
    policy: &PolicyObject,
    target: &PolicyTarget,
    grants: &Grants<'_>,
    home_namespace: &str,
) -> Result<(), Rejection> {
    let to = Referent { group: &target.group, kind: &target.kind, namespace: home_namespace, name: &target.name };
    if grants.permit(referrer(policy), to) {
        return Ok(());
    }
    let message = format!("no ReferenceGrant in namespace {home_namespace} permits {} {}", target.kind, target.name);
    Err(Rejection::new("RefNotPermitted", message))
}

/// The policy as an object that refers to others.
pub(super) fn referrer(policy: &PolicyObject) -> Referrer<'_> {
    let group = POLICY_API_VERSION.split('/').next().unwrap_or_default();
    Referrer { group, kind: policy.kind.as_str(), namespace: &policy.metadata.namespace }
}
