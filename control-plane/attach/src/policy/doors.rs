//! Doors by which requests get to `UpstreamClusters`: Gateways, their listeners and `HTTPRoutes`. A policy at a door tightens for
//! all requests that come by it, whatever its namespace: the cluster's own rules are its owner's, and the same by each door.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use portcullis_api::{
    MergeStrategy, PolicyInEffect, PolicyKind, PolicyRole, PolicyTarget, check_door_fields, upstream_of_key,
};
use portcullis_gateway_api::{GATEWAY_API_GROUP, Gateway, GatewayClass, HttpRoute, ParentReference};

use super::unfit::UnfitPolicy;
use super::{PolicyObject, PolicyOutcome, affected};
use crate::CONTROLLER_NAME;
use crate::condition::{ConditionVerdict, Rejection};
use crate::name::ObjectName;

/// A door.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// All listeners of a Gateway.
    Gateway(ObjectName),
    /// A listener, by its Gateway and its name.
    Listener(ObjectName, String),
    /// An `HTTPRoute`.
    Route(ObjectName),
}

/// The doors to which policies may attach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DoorTargets {
    /// The control plane serves none.
    #[default]
    Unserved,
    /// They are not listed yet.
    Unlisted,
    /// These.
    Listed(ListedDoors),
}

/// The doors among objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedDoors {
    gateways: BTreeMap<ObjectName, GatewayDoor>,
    routes: BTreeMap<ObjectName, RouteDoor>,
}

/// A Gateway among objects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GatewayDoor {
    /// Of this controller, with the names of its listeners.
    Own(BTreeSet<String>),
    /// Of a class that is not there: it may be any controller's.
    WithoutClass,
    Foreign,
}

/// The parents of an `HTTPRoute`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RouteDoor {
    /// Those that are Gateways of this controller.
    own: BTreeSet<ObjectName>,
    /// Whether the class of another one is not there.
    may_be_own: bool,
}

/// Why a policy has no effect at a door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DoorAbsence {
    /// It is not there, and is only assumed to be if not all objects are known.
    Missing(String),
    /// Another controller judges the policy there.
    Foreign,
    /// It is not known whether this controller judges the policy there: the objects are not listed, or a class is gone.
    Unknown,
}

impl Door {
    /// That of a target of a policy in a namespace; `None` if the target is none.
    pub fn of(target: &PolicyTarget, namespace: &str) -> Option<Self> {
        let name = ObjectName::new(namespace, target.name.as_str());
        match (target.kind.as_str(), &target.section_name) {
            _ if target.group != GATEWAY_API_GROUP => None,
            ("Gateway", None) => Some(Self::Gateway(name)),
            ("Gateway", Some(listener)) => Some(Self::Listener(name, listener.clone())),
            ("HTTPRoute", _) => Some(Self::Route(name)),
            _ => None,
        }
    }

    /// The namespace of its object, which is that of its policies.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Gateway(name) | Self::Listener(name, _) | Self::Route(name) => &name.namespace,
        }
    }

    /// Those of a route at a listener, the widest first.
    pub fn all(gateway: &ObjectName, listener: &str, route: &ObjectName) -> [Self; 3] {
        let listener = Door::Listener(gateway.clone(), listener.to_owned());
        [Door::Gateway(gateway.clone()), listener, Door::Route(route.clone())]
    }
}

impl fmt::Display for Door {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Door::Gateway(name) => write!(formatter, "Gateway {name}"),
            Door::Listener(name, listener) => write!(formatter, "listener {listener} of Gateway {name}"),
            Door::Route(name) => write!(formatter, "HTTPRoute {name}"),
        }
    }
}

impl DoorTargets {
    /// The Gateways by which requests get to a door: its own, or those of a route's parents that are this controller's.
    pub fn gateways<'a>(&'a self, door: &'a Door) -> Vec<&'a ObjectName> {
        match (door, self) {
            (Door::Gateway(name) | Door::Listener(name, _), _) => vec![name],
            (Door::Route(route), Self::Listed(listed)) => {
                listed.routes.get(route).into_iter().flat_map(|route| &route.own).collect()
            }
            (Door::Route(_), Self::Unserved | Self::Unlisted) => Vec::new(),
        }
    }
}

impl ListedDoors {
    /// Those of these objects, classes and Gateways of other controllers among them.
    pub fn of(classes: &[GatewayClass], gateways: &[Gateway], routes: &[HttpRoute]) -> Self {
        let own_classes = classes.iter().filter(|class| class.spec.controller_name == CONTROLLER_NAME);
        let own_classes: BTreeSet<&str> = own_classes.map(|class| class.metadata.name.as_str()).collect();
        let classes: BTreeSet<&str> = classes.iter().map(|class| class.metadata.name.as_str()).collect();
        let gateway = |one: &Gateway| {
            let class = one.spec.gateway_class_name.as_str();
            let listeners = || one.spec.listeners.iter().map(|listener| listener.name.clone()).collect();
            let door = match (own_classes.contains(class), classes.contains(class)) {
                (true, _) => GatewayDoor::Own(listeners()),
                (false, true) => GatewayDoor::Foreign,
                (false, false) => GatewayDoor::WithoutClass,
            };
            (ObjectName::of(&one.metadata), door)
        };
        let gateways: BTreeMap<ObjectName, GatewayDoor> = gateways.iter().map(gateway).collect();
        let parent_name = |parent: &ParentReference, namespace: &str| {
            let name = ObjectName::new(parent.namespace.as_deref().unwrap_or(namespace), parent.name.as_str());
            (parent.group == GATEWAY_API_GROUP && parent.kind == "Gateway").then_some(name)
        };
        let routes = routes.iter().map(|route| {
            let (name, mut door) = (ObjectName::of(&route.metadata), RouteDoor::default());
            for parent in route.spec.parent_refs.iter().filter_map(|parent| parent_name(parent, &name.namespace)) {
                match gateways.get(&parent) {
                    Some(GatewayDoor::Own(_)) => drop(door.own.insert(parent)),
                    Some(GatewayDoor::WithoutClass) => door.may_be_own = true,
                    Some(GatewayDoor::Foreign) | None => {}
                }
            }
            (name, door)
        });
        let routes = routes.collect();
        Self { gateways, routes }
    }

    /// Why a door is none of these.
    pub(super) fn absence(&self, door: &Door) -> Option<DoorAbsence> {
        let missing = || Some(DoorAbsence::Missing(format!("there is no {door}")));
        match door {
            Door::Gateway(name) | Door::Listener(name, _) => match (self.gateways.get(name), door) {
                (None, _) => missing(),
                (Some(GatewayDoor::Foreign), _) => Some(DoorAbsence::Foreign),
                (Some(GatewayDoor::WithoutClass), _) => Some(DoorAbsence::Unknown),
                (Some(GatewayDoor::Own(listeners)), Door::Listener(_, listener)) if !listeners.contains(listener) => {
                    missing()
                }
                (Some(GatewayDoor::Own(_)), _) => None,
            },
            Door::Route(name) => match self.routes.get(name) {
                None => missing(),
                Some(route) if !route.own.is_empty() => None,
                Some(route) if route.may_be_own => Some(DoorAbsence::Unknown),
                Some(_) => Some(DoorAbsence::Foreign),
            },
        }
    }
}

/// The policy in effect at a door. Whether an `UpstreamCluster` is good with it is found out where that is behind the door.
///
/// # Errors
/// One that is refused, and has no effect.
pub(super) fn settle(policy: &PolicyObject, door: &Door) -> Result<PolicyInEffect, Rejection> {
    let invalid = |message: String| Rejection::new("Invalid", message);
    let fields = policy.checked.as_ref().map_err(|_| invalid(policy.refusal().unwrap_or_default()))?;
    if policy.strategy == MergeStrategy::Defaults {
        let message = "spec.defaults: at a Gateway or a route a policy can only tighten, by overrides";
        return Err(invalid(message.to_owned()));
    }
    check_door_fields(policy.kind, fields).map_err(|error| invalid(format!("spec.overrides.{error}")))?;
    Ok(PolicyInEffect {
        kind: policy.kind,
        policy: policy.name().to_string(),
        uid: policy.uid.clone(),
        role: PolicyRole::Tightens,
        why: format!("overrides at {door}, the first by creation time and name; they can only take away"),
        fields: Ok(Arc::clone(fields)),
    })
}

/// The outcome for the policy at a door.
pub(super) fn outcome(settled: &Result<PolicyInEffect, Rejection>) -> PolicyOutcome {
    match settled {
        Ok(policy) => PolicyOutcome::Effective(format!("it tightens: {}", policy.why)),
        Err(why) => PolicyOutcome::Refused(why.clone()),
    }
}

/// The conditions of an object that policies of doors hold for: one for each kind. `cluster` is the one behind a route, and `unfit`
/// are those that do not fit clusters, and why: they are left out there, and close the routes to upstreams.
pub(crate) fn affected_by(
    policies: &[&PolicyInEffect],
    cluster: Option<&str>,
    unfit: &BTreeMap<UnfitPolicy, String>,
) -> Vec<ConditionVerdict> {
    let closes = cluster.is_some_and(|cluster| upstream_of_key(cluster).is_some());
    let (reason, effect) =
        if closes { ("UnsupportedPolicies", "closes the route") } else { ("PolicyLeftOut", "is left out") };
    let left_out = |one: &PolicyInEffect| {
        let (cluster, policy) = (cluster?.to_owned(), one.policy.clone());
        let why = unfit.get(&UnfitPolicy { cluster, kind: one.kind, policy })?;
        Some(format!("{} {} {effect}: {why}", one.kind, one.policy))
    };
    let of_kind = |kind: PolicyKind| {
        let all = policies.iter().copied().filter(|one| one.kind == kind);
        let (out, fit): (Vec<_>, Vec<_>) = all.partition(|one| left_out(one).is_some());
        let why: Vec<String> = out.into_iter().filter_map(left_out).collect();
        let Some(condition) = affected(fit).pop().filter(|_| why.is_empty() || !closes) else {
            let why = (!why.is_empty()).then(|| Rejection::new(reason, why.join("; ")))?;
            return Some(ConditionVerdict::fails(kind.affected(), &why));
        };
        let message: Vec<String> = std::iter::once(condition.message).chain(why).collect();
        Some(ConditionVerdict::holds(condition.kind, condition.reason, message.join("; ")))
    };
    PolicyKind::ALL.into_iter().filter_map(of_kind).collect()
}
