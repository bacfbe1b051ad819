//! Verdicts: what status says of each object.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use portcullis_api::PolicyInEffect;
use portcullis_gateway_api::ParentReference;

use crate::claim_rights::{Holder, Site};
use crate::claims::HostClaims;
use crate::condition::{ConditionVerdict, Note, Rejection, effects_in_words};
use crate::credentials::CredentialGrants;
use crate::gateway::{JudgedClass, JudgedGateway};
use crate::held::held;
use crate::host::HostPattern;
use crate::input::Inventory;
use crate::listener::JudgedListener;
use crate::name::{ObjectName, RouteKind};
use crate::policy::{Door, DoorPolicies, affected, affected_by};
use crate::redirect_budget::PlainHttp;
use crate::route::{JudgedRoute, ParentAttachment};

/// The verdict about a `GatewayClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassVerdict {
    /// Its name.
    pub name: String,
    /// The version that it is about.
    pub generation: Option<i64>,
    /// Its conditions.
    pub conditions: Vec<ConditionVerdict>,
}

/// The verdict about a `Gateway`. Whether it is programmed is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayVerdict {
    /// Its name.
    pub name: ObjectName,
    /// The version that it is about.
    pub generation: Option<i64>,
    /// Its conditions.
    pub conditions: Vec<ConditionVerdict>,
    /// Its listeners, in their order.
    pub listeners: Vec<ListenerVerdict>,
    /// Fields that are accepted and may not do what their author expects.
    pub notes: Vec<Note>,
}

/// The verdict about a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerVerdict {
    /// Its name.
    pub name: String,
    /// The kinds of routes that may attach.
    pub supported_kinds: Vec<RouteKind>,
    /// The number of accepted routes that are attached.
    pub attached_routes: usize,
    /// Its conditions.
    pub conditions: Vec<ConditionVerdict>,
}

/// The verdict about a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteVerdict {
    /// Its kind.
    pub kind: RouteKind,
    /// Its name.
    pub name: ObjectName,
    /// The version that it is about.
    pub generation: Option<i64>,
    /// Its conditions by its own fields and references, whatever it attaches to.
    pub alone: Vec<ConditionVerdict>,
    /// Its parents, as far as they are Gateways of this controller, in their order.
    pub parents: Vec<ParentVerdict>,
    /// Fields that are accepted and may not do what their author expects.
    pub notes: Vec<Note>,
}

/// The verdict about a route at one of its parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentVerdict {
    /// The reference, as the route has it.
    pub parent: ParentReference,
    /// The conditions.
    pub conditions: Vec<ConditionVerdict>,
    /// The listeners that count the route because of this reference, by their places in the Gateway.
    pub counted_at: Vec<usize>,
    /// The condition that lists the host names that are the route's own, for those that judge it later.
    pub held: Option<ConditionVerdict>,
}

/// Listeners and the routes that hold host names there, by the indices of Gateway, listener and route.
type HeldListeners = HashSet<(usize, usize, usize)>;

pub(crate) fn class_verdict(judged: &JudgedClass<'_>) -> ClassVerdict {
    let metadata = &judged.class.metadata;
    ClassVerdict { name: metadata.name.clone(), generation: metadata.generation, conditions: judged.conditions() }
}

/// The verdicts about routes, and the accepted routes of each listener.
pub(crate) struct RouteVerdicts {
    pub(crate) routes: Vec<RouteVerdict>,
    /// The indices of routes, by those of Gateways and listeners.
    pub(crate) attached: BTreeMap<(usize, usize), BTreeSet<usize>>,
}

pub(crate) fn route_verdicts(
    routes: &[JudgedRoute<'_>],
    gateways: &[JudgedGateway<'_>],
    attachments: &[ParentAttachment],
    (claims, plain): (&HostClaims<'_>, &PlainHttp<'_>),
    credentials: CredentialGrants<'_>,
) -> RouteVerdicts {
    let mut verdicts: Vec<RouteVerdict> = routes.iter().map(without_parents).collect();
    let held_at = held_listeners(claims);
    let mut attached: BTreeMap<(usize, usize), BTreeSet<usize>> = BTreeMap::new();
    for attachment in attachments {
        let (Some(route), Some(verdict)) = (routes.get(attachment.route), verdicts.get_mut(attachment.route)) else {
            continue;
        };
        let Some(parent) = route.parents.get(attachment.parent) else { continue };
        let accepted = accepted(attachment, route, routes, gateways, (claims, plain, &held_at));
        let mut counted_at = Vec::new();
        if accepted.status {
            let listeners = attachment.listeners.iter().flatten();
            let has_any = |at: usize| is_plain(attachment.gateway, at, gateways) || has_held(attachment, at, &held_at);
            for (listener, _) in listeners.filter(|(at, _)| has_any(*at)) {
                attached.entry((attachment.gateway, *listener)).or_default().insert(attachment.route);
                counted_at.push(*listener);
            }
        }
        let refused = gateways.get(attachment.gateway).filter(|_| has_requests(attachment, gateways));
        let refused = refused.and_then(|gateway| credentials.refusal(&gateway.name, route));
        let mut conditions = conditions(accepted, route, refused.as_ref());
        conditions.extend(affected_at(attachment, route, gateways, credentials.inventory));
        let at = (attachment.route, attachment.gateway);
        let is_cut = route.refusal_at(attachment.gateway).is_some_and(|one| one.reason == "TooManyHostnames");
        let listeners = attachment.listeners.as_ref().ok();
        let held = listeners.and_then(|listeners| held(at, (listeners, is_cut), gateways, claims));
        verdict.parents.push(ParentVerdict { parent: parent.clone(), conditions, counted_at, held });
    }
    RouteVerdicts { routes: verdicts, attached }
}

fn without_parents(route: &JudgedRoute<'_>) -> RouteVerdict {
    RouteVerdict {
        kind: route.kind,
        name: route.name.clone(),
        generation: route.metadata.generation,
        alone: conditions(ConditionVerdict::unless("Accepted", "Accepted", route.refusal.as_ref()), route, None),
        parents: Vec::new(),
        notes: route.notes.clone(),
    }
}

/// Whether requests of a route go on to servers: those of plain HTTP do not.
fn has_requests(attachment: &ParentAttachment, gateways: &[JudgedGateway<'_>]) -> bool {
    attachment.listeners.iter().flatten().any(|(listener, _)| !is_plain(attachment.gateway, *listener, gateways))
}

/// The conditions of a route for the policies that hold for its requests at a Gateway.
fn affected_at(
    attachment: &ParentAttachment,
    route: &JudgedRoute<'_>,
    gateways: &[JudgedGateway<'_>],
    inventory: &Inventory,
) -> Vec<ConditionVerdict> {
    let Some(gateway) = gateways.get(attachment.gateway) else { return Vec::new() };
    if route.kind != RouteKind::Http || !has_requests(attachment, gateways) {
        return Vec::new();
    }
    let (doors, cluster) = (&inventory.door_policies, route.only_cluster());
    let attached = attachment.listeners.iter().flatten();
    let listeners = attached.filter_map(|(index, _)| gateway.listeners.get(*index));
    let listeners = listeners.map(|listener| Door::Listener(gateway.name.clone(), listener.spec.name.clone()));
    let all: Vec<Door> = std::iter::once(Door::Gateway(gateway.name.clone()))
        .chain(listeners)
        .chain([Door::Route(route.name.clone())])
        .collect();
    let policies: Vec<&PolicyInEffect> = all.iter().flat_map(|door| doors.holding(door, cluster)).collect();
    affected_by(&policies, cluster, &inventory.unfit_policies)
}

/// `refused`: why the Gateway may not lead to all of its servers.
fn conditions(
    accepted: ConditionVerdict,
    route: &JudgedRoute<'_>,
    refused: Option<&Rejection>,
) -> Vec<ConditionVerdict> {
    let dropped = route.dropped.as_ref().filter(|_| accepted.status);
    let dropped = dropped.map(|message| ConditionVerdict::holds("PartiallyInvalid", "UnsupportedValue", message));
    let resolved = ConditionVerdict::unless("ResolvedRefs", "ResolvedRefs", route.unresolved.as_ref().or(refused));
    [accepted, resolved].into_iter().chain(dropped).collect()
}

fn accepted(
    attachment: &ParentAttachment,
    route: &JudgedRoute<'_>,
    routes: &[JudgedRoute<'_>],
    gateways: &[JudgedGateway<'_>],
    (claims, plain, held_at): (&HostClaims<'_>, &PlainHttp<'_>, &HeldListeners),
) -> ConditionVerdict {
    let listeners = match (attachment.listeners.as_ref(), route.refusal_at(attachment.gateway)) {
        (Ok(listeners), None) => listeners,
        // Without a host name that can be read there is none to match.
        (Err(why), Some(refusal)) if why.reason == "NoMatchingListenerHostname" && route.refusal.is_some() => {
            return ConditionVerdict::fails("Accepted", refusal);
        }
        (Err(why), _) | (Ok(_), Some(why)) => return ConditionVerdict::fails("Accepted", why),
    };
    let mut messages = Vec::new();
    let is_plain_only = listeners.iter().all(|(listener, _)| is_plain(attachment.gateway, *listener, gateways));
    if is_plain_only {
        messages.push("plain HTTP never leads to a kube-apiserver: requests get 308 or 404".to_owned());
    }
    // A name of which there is no copy here may be held at the listener by another parent reference.
    let has_host = listeners.iter().any(|(listener, _)| has_held(attachment, *listener, held_at));
    let (mut own, mut is_isolated_only) = (Vec::new(), true);
    for (listener, host) in
        listeners.iter().flat_map(|(listener, hosts)| hosts.iter().map(move |host| (listener, host)))
    {
        let site = (attachment.gateway, *listener, host.clone());
        match claims.holders.get(&site) {
            Some(Holder::Route(owner)) if *owner == attachment.route => own.push(host),
            None if *host == HostPattern::Any && !is_plain(attachment.gateway, *listener, gateways) => {
                let name = |one: &JudgedGateway<'_>| Some(one.listeners.get(*listener)?.spec.name.clone());
                let name = gateways.get(attachment.gateway).and_then(name).unwrap_or_default();
                messages.push(format!("it needs a host name to be served at listener {name}, which has none"));
            }
            // Of plain HTTP, which leads nowhere.
            None => {}
            Some(holder) => {
                is_isolated_only &= matches!(holder, Holder::Listener(_));
                messages.push(lost(&site, *holder, (attachment.route, routes), (gateways, claims)));
            }
        }
    }
    messages.dedup();
    if !has_host && !is_plain_only {
        let reason = if is_isolated_only { "NoMatchingListenerHostname" } else { "HostnameConflict" };
        return ConditionVerdict::fails("Accepted", &Rejection::new(reason, messages.join("; ")));
    }
    let gateway = gateways.get(attachment.gateway);
    let is_refused = |index: usize| {
        gateway.and_then(|gateway| gateway.listeners.get(index)).is_none_or(|listener| listener.refusal().is_some())
    };
    if gateway.is_some_and(|gateway| !gateway.is_accepted()) {
        messages.push("the Gateway is not accepted".to_owned());
    } else if listeners.iter().all(|(index, _)| is_refused(*index)) {
        messages.push("no listener that it attaches to is accepted".to_owned());
    }
    messages.extend(effects_in_words(&route.notes));
    if route.kind == RouteKind::Http {
        messages.extend(plain.closed((attachment.route, attachment.gateway), &own));
    }
    ConditionVerdict::holds("Accepted", "Accepted", messages.join("; "))
}

/// The listeners at which routes hold host names.
fn held_listeners(claims: &HostClaims<'_>) -> HeldListeners {
    let of_route = |(site, holder): (&Site, &Holder<'_>)| match holder {
        Holder::Route(route) => Some((site.0, site.1, *route)),
        Holder::Wider(_) | Holder::Cluster(_) | Holder::Listener(_) => None,
    };
    claims.holders.iter().filter_map(of_route).collect()
}

/// Whether a route holds a host name at a listener of its parent.
fn has_held(attachment: &ParentAttachment, listener: usize, held_at: &HeldListeners) -> bool {
    held_at.contains(&(attachment.gateway, listener, attachment.route))
}

fn is_plain(gateway: usize, listener: usize, gateways: &[JudgedGateway<'_>]) -> bool {
    let listener = gateways.get(gateway).and_then(|gateway| gateway.listeners.get(listener));
    listener.is_some_and(JudgedListener::is_plain)
}

/// Why a route does not have one of its host names.
fn lost(
    site: &Site,
    holder: Holder<'_>,
    (index, routes): (usize, &[JudgedRoute<'_>]),
    (gateways, claims): (&[JudgedGateway<'_>], &HostClaims<'_>),
) -> String {
    let (gateway, _, host) = site;
    let owner = match holder {
        Holder::Cluster(cluster) => return format!("{host} belongs to UpstreamCluster {cluster}"),
        Holder::Listener(narrower) => {
            let listener = gateways.get(*gateway).and_then(|gateway| gateway.listeners.get(narrower));
            let name = listener.map(|listener| listener.spec.name.as_str()).unwrap_or_default();
            return format!("{host} belongs to listener {name}, whose host names are narrower");
        }
        Holder::Route(owner) | Holder::Wider(owner) => owner,
    };
    let (Some(route), Some(owner_route)) = (routes.get(index), routes.get(owner)) else { return host.to_string() };
    let is_wider = matches!(holder, Holder::Wider(_));
    let why = if owner > index {
        match (is_wider, claims.is_held_before(site)) {
            (true, _) => ", which had a wildcard above it before",
            (false, true) => ", which had it before",
            // It has a better right than by its age: to the cluster, or to its namespace's wildcard.
            (false, false) => "",
        }
    } else {
        let is_same_age = owner_route.metadata.creation_timestamp == route.metadata.creation_timestamp;
        match (is_same_age, is_wider) {
            (true, false) => ", which comes first by its name",
            (true, true) => ", which comes first by its name and has a wildcard above it",
            (false, false) => ", which is older",
            (false, true) => ", which is older and has a wildcard above it",
        }
    };
    format!("{host} belongs to {} {}{why}", owner_route.kind, owner_route.name)
}

pub(crate) fn gateway_verdict(
    index: usize,
    judged: &JudgedGateway<'_>,
    attached: &BTreeMap<(usize, usize), BTreeSet<usize>>,
    policies: &DoorPolicies,
) -> GatewayVerdict {
    let affected = |door: Door| affected(policies.holding(&door, None).collect::<Vec<_>>());
    let listeners = judged.listeners.iter().enumerate().map(|(at, listener)| ListenerVerdict {
        name: listener.spec.name.clone(),
        supported_kinds: listener.kinds.clone(),
        attached_routes: attached.get(&(index, at)).map_or(0, BTreeSet::len),
        conditions: [listener.conditions(), affected(Door::Listener(judged.name.clone(), listener.spec.name.clone()))]
            .concat(),
    });
    let notes = judged.notes.iter().chain(judged.listeners.iter().flat_map(|listener| &listener.notes));
    GatewayVerdict {
        name: judged.name.clone(),
        generation: judged.gateway.metadata.generation,
        conditions: [judged.conditions(), affected(Door::Gateway(judged.name.clone()))].concat(),
        listeners: listeners.collect(),
        notes: notes.cloned().collect(),
    }
}
