use portcullis_api::{CLUSTER_KIND, POLICY_API_VERSION, PolicyRole, PolicyTarget};

use super::{PolicyObject, PolicyTargets};
use crate::condition::{Note, Rejection};
use crate::grants::{Grants, Referent, Referrer};
use crate::name::ObjectName;

/// An object, or a part of one, at which policies meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// An `UpstreamCluster`.
    Cluster(String),
    /// A Gateway, or one of its listeners.
    Gateway(ObjectName, Option<String>),
    /// An `HTTPRoute`.
    Route(ObjectName),
}

/// A policy at one of its targets.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) target: PolicyTarget,
    /// The place and the part that the policy may have there, or why it may not be there.
    pub(super) standing: Result<(Place, PolicyRole), Rejection>,
    pub(super) note: Option<Note>,
}

/// The policy at each of its targets.
pub(super) fn sites(policy: &PolicyObject, grants: &Grants<'_>, targets: &PolicyTargets) -> Vec<Site> {
    let site = |(index, target): (usize, &PolicyTarget)| {
        let standing = standing(policy, target, grants, targets);
        let is_assumed = matches!(&standing, Ok((Place::Cluster(name), _)) if !targets.clusters.contains_key(name));
        let note =
            is_assumed.then(|| Note::assumed(format!("spec.targetRefs[{index}]"), &target.kind, &target.name));
        Site { target: target.clone(), standing, note }
    };
    policy.targets.iter().enumerate().map(site).collect()
}

fn standing(
    policy: &PolicyObject,
    target: &PolicyTarget,
    grants: &Grants<'_>,
    targets: &PolicyTargets,
) -> Result<(Place, PolicyRole), Rejection> {
    let namespace = policy.metadata.namespace.as_str();
    let is_home = namespace == targets.home_namespace;
    let role = if is_home { PolicyRole::Decides } else { PolicyRole::Tightens };
    let name = ObjectName::new(namespace, target.name.as_str());
    let missing = |what: String| Err(Rejection::new("TargetNotFound", format!("there is no {what}")));
    let place = match target.kind.as_str() {
        CLUSTER_KIND => {
            permitted(policy, target, grants, &targets.home_namespace)?;
            if targets.is_complete && !targets.clusters.contains_key(&target.name) {
                return missing(format!("UpstreamCluster {}", target.name));
            }
            return Ok((Place::Cluster(target.name.clone()), role));
        }
        "Gateway" => match (targets.gateways.get(&name), &target.section_name) {
            (None, _) if targets.is_complete => return missing(format!("Gateway {name}")),
            (Some(listeners), Some(section)) if !listeners.contains(section) => {
                return missing(format!("listener {section} of Gateway {name}"));
            }
            (_, section) => Place::Gateway(name, section.clone()),
        },
        "HTTPRoute" if targets.is_complete && !targets.routes.contains(&name) => {
            return missing(format!("HTTPRoute {name}"));
        }
        "HTTPRoute" => Place::Route(name),
        kind => return Err(Rejection::new("Invalid", format!("kind {kind:?} is no target of a policy"))),
    };
    served(place).map(|place| (place, role))
}

/// This is the one place to change once Gateways' Envoys serve `HTTPRoutes` with policies: a policy that nothing asks has to say so.
fn served(place: Place) -> Result<Place, Rejection> {
    let what = match &place {
        Place::Cluster(_) => return Ok(place),
        Place::Gateway(name, None) => format!("Gateway {name}"),
        Place::Gateway(name, Some(section)) => format!("listener {section} of Gateway {name}"),
        Place::Route(name) => format!("HTTPRoute {name}"),
    };
    let message = format!("{what}: policies are served for UpstreamClusters alone so far, and this one has no effect there");
    Err(Rejection::new("UnsupportedValue", message))
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
