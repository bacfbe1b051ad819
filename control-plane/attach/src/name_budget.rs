//! Bounds of the host names of routes at listeners. Names are counted first, and only those for which there is room are listed: a route of
//! 256 KiB claims two million at 32 Gateways.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::claims::ListenerHosts;
use crate::condition::Rejection;
use crate::host::HostPattern;
use crate::listener::JudgedListener;
use crate::route::{Attachment, JudgedRoute, ParentAttachment, ParentGateways, SharedCount, SharedHosts};

/// The most host names of one route, counted once at each listener to which a parent reference leads.
const MAX_OF_ROUTE: usize = 4_096;
/// The most of all routes of one namespace at one Gateway.
const MAX_AT_GATEWAY: usize = 16_384;
/// The most of all routes of one namespace: one of many Gateways must not leave the others without a place.
pub(crate) const MAX_OF_NAMESPACE: usize = 32_768;
/// The most of all routes.
pub(crate) const MAX_IN_ALL: usize = 262_144;

/// A route at a Gateway: the namespace of the route, and their indices.
pub(crate) type ChargedRoute<'a> = (&'a str, usize, usize);

/// Host names of a route that are held, and were charged before all others; by the indices of the parent reference and the listener.
pub(crate) type HeldNames = BTreeMap<(usize, usize), BTreeSet<HostPattern>>;

/// A count of host names, its bound, and whose they are.
type NameBound<'c> = (&'c mut usize, usize, &'static str);

/// A bound that has too little room, and whose names it is for.
type NameExcess = (usize, &'static str);

/// The rest of the bounds. Routes are charged in order of their creation, so that a younger one takes nothing from an older one.
#[derive(Default)]
pub(crate) struct NameBudget<'a> {
    names: NameCounts<'a>,
    /// Names at a listener beside a narrower one of the port, which has them, or at one to which an earlier parent reference of the route
    /// leads. Plain HTTP, where no name leads on, counts as one. They give the route nothing, and refuse it nothing: they are bounded
    /// apart, so that the author of a Gateway, who adds listeners, takes no room from names.
    copies: NameCounts<'a>,
}

#[derive(Default)]
struct NameCounts<'a> {
    of_routes: HashMap<usize, usize>,
    /// By Gateway and namespace.
    at_gateways: HashMap<(usize, &'a str), usize>,
    of_namespaces: HashMap<&'a str, usize>,
    in_all: usize,
}

/// The listeners of a route's parent references that were looked at.
#[derive(Default)]
struct KnownListeners<'a> {
    /// Those that lead on, by Gateway, port and host names.
    leading: HashSet<(usize, u16, &'a HostPattern)>,
    /// Gateways that have too little room for the route.
    full: BTreeSet<usize>,
}

/// The places for those of a route's host names at a listener that are not held.
struct NamePlaces {
    listener: usize,
    new: usize,
    copies: usize,
    /// Whether there are other names than copies.
    has_own: bool,
}

impl<'a> NameBudget<'a> {
    /// Charges a host name that is held, unless a bound is reached.
    pub(crate) fn reserve(&mut self, of: ChargedRoute<'a>) -> bool {
        self.names.take(of, 1).0 == 1
    }

    /// Attaches a route by all of its parent references, with the host names for which there is room. The others are cut off, and the
    /// reason is why it is to be refused at this Gateway: what is left stays the route's, as an edit that adds too many must not hand its
    /// clients over.
    pub(crate) fn attach<'g>(
        &mut self,
        (index, route): (usize, &JudgedRoute<'a>),
        parents: &mut ParentGateways<'g, '_>,
        gateways: &[ListenerHosts<'g, '_>],
        mut held: HeldNames,
    ) -> Vec<(ParentAttachment, Option<Rejection>)>
    where
        'a: 'g,
    {
        let mut known = KnownListeners::default();
        let mut attachments = Vec::new();
        for (parent, reference) in route.parents.iter().enumerate() {
            let Some((gateway, attached)) = parents.attached(route, reference) else { continue };
            let Some(hosts) = gateways.get(gateway) else { continue };
            let of = (route.metadata.namespace.as_str(), index, gateway);
            let mut exceeded: Option<NameExcess> = None;
            let listeners = attached.map(|listeners| {
                let of_parent = |listener: usize| held.remove(&(parent, listener)).unwrap_or_default();
                let shared = (SharedHosts::of(route), hosts);
                let (attachment, bound) = self.list(of, shared, listeners, (of_parent, &mut known));
                exceeded = bound;
                attachment
            });
            attachments.push((ParentAttachment { route: index, parent, gateway, listeners }, exceeded.map(refusal)));
        }
        attachments
    }

    /// Lists the names of a parent reference that are held, and of the others the first ones for which there is room. Yields the first
    /// bound that has too little of it for names that are no copies.
    fn list<'g>(
        &mut self,
        of: ChargedRoute<'a>,
        (shared, hosts): (SharedHosts<'_>, &ListenerHosts<'g, '_>),
        listeners: Vec<usize>,
        (mut held, known): (impl FnMut(usize) -> BTreeSet<HostPattern>, &mut KnownListeners<'g>),
    ) -> (Attachment, Option<NameExcess>) {
        let mut attachment = Attachment::new();
        let mut exceeded: Option<NameExcess> = None;
        // Whether there is a listener for plain HTTP, and another one.
        let (mut has_plain, mut has_leading) = (false, false);
        for listener in listeners {
            let Some(judged) = hosts.gateway.listeners.get(listener) else { continue };
            let held_here = held(listener);
            let port = hosts.gateway.leading_port(listener);
            let is_first = port.is_some_and(|port| known.leading.insert((of.2, port, &judged.host)));
            // It is refused there, whatever else it claims.
            if known.full.contains(&of.2) {
                if !held_here.is_empty() {
                    attachment.push((listener, held_here.into_iter().collect()));
                }
                continue;
            }
            let count = match port {
                Some(_) => shared.count(&judged.host, hosts.below(judged)),
                None => SharedCount { all: 1, own: 0 },
            };
            let own = if is_first { count.own } else { 0 };
            let (new, bound) = self.names.take(of, own.saturating_sub(held_here.len()));
            known.full.extend(bound.map(|_| of.2));
            exceeded = exceeded.or(bound);
            let (copies, _) = self.copies.take(of, count.all.saturating_sub(own));
            let places = NamePlaces { listener, new, copies, has_own: own > 0 };
            let names = match (judged.is_plain(), new.saturating_add(copies)) {
                (true, _) => Vec::new(),
                (false, 0) => held_here.into_iter().collect(),
                (false, _) => first_names(shared, (hosts, judged), places, held_here),
            };
            let has_kind = if judged.is_plain() { &mut has_plain } else { &mut has_leading };
            // Of a parent reference without room for its copies one listener is left, which is no reason to refuse the route.
            let is_left = own == 0 && (!*has_kind || (judged.is_plain() && copies > 0));
            if !names.is_empty() || is_left {
                *has_kind = true;
                attachment.push((listener, names));
            }
        }
        (attachment, exceeded)
    }
}

impl<'a> NameCounts<'a> {
    /// Charges as many of so many host names as the bounds have room for. Returns these, and the first bound that has too little.
    fn take(&mut self, of: ChargedRoute<'a>, wanted: usize) -> (usize, Option<NameExcess>) {
        let (mut room, mut exceeded) = (wanted, None);
        let bounds = self.bounds(of);
        for (used, most, whose) in &bounds {
            let rest = most.saturating_sub(**used);
            if room > rest {
                room = rest;
                exceeded.get_or_insert((*most, *whose));
            }
        }
        bounds.into_iter().for_each(|(used, ..)| *used += room);
        (room, exceeded)
    }

    /// Those that hold for the names of a namespace's route at a Gateway.
    fn bounds(&mut self, (namespace, route, gateway): ChargedRoute<'a>) -> [NameBound<'_>; 4] {
        let at_gateway = self.at_gateways.entry((gateway, namespace)).or_default();
        [
            (self.of_routes.entry(route).or_default(), MAX_OF_ROUTE, "one route"),
            (at_gateway, MAX_AT_GATEWAY, "the routes of one namespace at one Gateway"),
            (self.of_namespaces.entry(namespace).or_default(), MAX_OF_NAMESPACE, "the routes of one namespace"),
            (&mut self.in_all, MAX_IN_ALL, "all routes"),
        ]
    }
}

fn refusal((most, of): NameExcess) -> Rejection {
    let message = format!("spec.hostnames: more than {most} host names, each counted at each listener, of {of}");
    Rejection::new("TooManyHostnames", message)
}

/// The names at a listener that are held, and of the others the first ones for which there are places.
fn first_names(
    shared: SharedHosts<'_>,
    (hosts, listener): (&ListenerHosts<'_, '_>, &JudgedListener<'_>),
    mut places: NamePlaces,
    mut held: BTreeSet<HostPattern>,
) -> Vec<HostPattern> {
    let mut names = Vec::new();
    for host in shared.list(&listener.host) {
        if let Some(host) = held.take(host) {
            names.push(host);
            continue;
        }
        let is_copy = !places.has_own || hosts.narrower(places.listener, host).is_some();
        let rest = if is_copy { &mut places.copies } else { &mut places.new };
        if *rest > 0 {
            *rest = rest.saturating_sub(1);
            names.push(host.clone());
        }
    }
    names
}
