//! The host names that routes hold at a Gateway's listeners for HTTPS, to which plain HTTP may lead. Holders to which TLS is passed on own
//! names as well, and have no requests of plain HTTP. The same holds for those whose listener leads nowhere for now.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::claim_rights::{Holder, Site};
use crate::claims::HostClaims;
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::host_index::HostIndex;
use crate::idle_ports::KeptNames;
use crate::listener::ListenerProtocol;
use crate::route::JudgedRoute;

/// The host names of a Gateway, in their order.
pub(crate) struct HttpsNames<'a>(Vec<HttpsName<'a>>);

/// A host name that a route holds.
pub(crate) struct HttpsName<'a> {
    pub(crate) host: &'a HostPattern,
    /// The holder to which requests for it are redirected, if they are. `None`: TLS ends for none of its holders.
    pub(crate) to: Option<HeldAt>,
    /// The narrowest wildcard above it, by its index among these.
    pub(crate) above: Option<usize>,
    /// Whether routes of several namespaces have it at different ports, by itself or by a wildcard above it: none of these is its owner at
    /// all of them, so that plain HTTP leads to none.
    pub(crate) is_of_several: bool,
}

/// A route that holds a host name.
#[derive(Clone, Copy)]
pub(crate) struct HeldAt {
    pub(crate) port: u16,
    /// The listener there at which TLS ends, by its index. `None`: TLS is passed on, or the listener leads nowhere for now.
    pub(crate) listener: Option<usize>,
    /// The route, by its index.
    pub(crate) route: usize,
    /// That of the route, by a number.
    namespace: usize,
}

/// Those that hold a host name, of which there is one at least.
type HostAtPorts<'a> = (&'a HostPattern, Vec<HeldAt>);

/// The namespaces that have the names below a wildcard, by port.
type NamespacesByPort = BTreeMap<u16, usize>;

/// Wildcards.
struct Wildcards<'a> {
    index: HostIndex<&'a HostPattern>,
    /// By what is behind `*.`, with their indices among all names.
    by_suffix: HashMap<&'a str, usize>,
}

/// The host names that are claimed at a listener, and their holders.
pub(crate) fn held<'a>(
    claims: &'a HostClaims<'a>,
    gateway: usize,
    listener: usize,
) -> impl Iterator<Item = (&'a HostPattern, &'a Holder<'a>)> {
    let first: Site = (gateway, listener, HostPattern::Any);
    let held = claims.holders.range(first..).take_while(move |(site, _)| (site.0, site.1) == (gateway, listener));
    held.map(|((_, _, host), holder)| (host, holder))
}

impl<'a> HttpsNames<'a> {
    /// Those of a Gateway, which comes with its index.
    pub(crate) fn of(
        (index, gateway): (usize, &JudgedGateway<'_>),
        (claims, kept): (&'a HostClaims<'a>, &KeptNames<'a>),
        routes: &[JudgedRoute<'_>],
    ) -> Self {
        let names = held_names((index, gateway), (claims, kept), routes);
        let of_several = of_several(&names);
        // One without HTTPS has no redirect, and is here only to be kept from the wildcards of others.
        let is_needed = |((_, holders), is_of_several): &(HostAtPorts<'a>, bool)| {
            *is_of_several || holders.iter().any(|one| one.listener.is_some())
        };
        let names: Vec<(HostAtPorts<'a>, bool)> = names.into_iter().zip(of_several).filter(is_needed).collect();
        let hosts: Vec<&HostPattern> = names.iter().map(|((host, _), _)| *host).collect();
        let above = Wildcards::of(&hosts).above_each(&hosts);
        let name = |(((host, holders), is_of_several), above): ((HostAtPorts<'a>, bool), Option<usize>)| HttpsName {
            host,
            to: preferred(&holders),
            above,
            is_of_several,
        };
        Self(names.into_iter().zip(above).map(name).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &HttpsName<'a>> {
        self.0.iter()
    }

    /// The narrowest wildcard above a name.
    pub(crate) fn above(&self, name: &HttpsName<'_>) -> Option<&HttpsName<'a>> {
        self.0.get(name.above?)
    }

    pub(crate) fn get(&self, host: &HostPattern) -> Option<&HttpsName<'a>> {
        let found = self.0.binary_search_by(|name| name.host.cmp(host)).ok()?;
        self.0.get(found)
    }
}

/// The holder to which plain HTTP leads. 443 needs no port in the location of a redirect; of others the lowest is as good as any.
fn preferred(holders: &[HeldAt]) -> Option<HeldAt> {
    holders.iter().copied().filter(|one| one.listener.is_some()).min_by_key(|one| (one.port != 443, one.port))
}

/// All host names that routes hold, in their order.
fn held_names<'a>(
    (index, gateway): (usize, &JudgedGateway<'_>),
    (claims, kept): (&'a HostClaims<'a>, &KeptNames<'a>),
    routes: &[JudgedRoute<'_>],
) -> Vec<HostAtPorts<'a>> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut held_at = |port: u16, listener: Option<usize>, route: usize| {
        let of = routes.get(route)?;
        let next = numbers.len();
        let namespace = *numbers.entry(&of.name.namespace).or_insert(next);
        Some(HeldAt { port, listener, route, namespace })
    };
    let mut names: BTreeMap<&HostPattern, Vec<HeldAt>> = BTreeMap::new();
    for (listener, judged) in gateway.listeners.iter().enumerate() {
        let is_https = match judged.protocol {
            Some(ListenerProtocol::Https) => true,
            Some(ListenerProtocol::Passthrough) => false,
            Some(ListenerProtocol::Http) | None => continue,
        };
        for (host, holder) in held(claims, index, listener) {
            let Holder::Route(route) = *holder else { continue };
            let Some(at) = held_at(judged.spec.port, is_https.then_some(listener), route) else { continue };
            names.entry(host).or_default().push(at);
        }
    }
    // A wrong protocol or mode of a listener must not lead the clients of its routes to those at other ports.
    for (port, host, route) in kept.at(&gateway.name).iter().copied() {
        let Some(at) = held_at(port, None, route) else { continue };
        names.entry(host).or_default().push(at);
    }
    names.into_iter().collect()
}

/// Whether several namespaces have a name at different ports, of each name. At a port a name is that of its narrowest holder.
fn of_several(names: &[HostAtPorts<'_>]) -> Vec<bool> {
    let mut holders = names.iter().flat_map(|(_, holders)| holders).map(|one| one.namespace);
    let first = holders.next();
    if holders.all(|one| Some(one) == first) {
        return vec![false; names.len()];
    }
    let hosts: Vec<&HostPattern> = names.iter().map(|(host, _)| *host).collect();
    let wildcards = Wildcards::of(&hosts);
    let above = wildcards.above_each(&hosts);
    let namespaces = wildcards.namespaces(names, &above);
    let is_of_several = |((_, holders), above): (&HostAtPorts<'_>, &Option<usize>)| {
        let Some(first) = holders.first().map(|one| one.namespace) else { return false };
        let is_own = |port: u16| holders.iter().any(|one| one.port == port);
        let above = above.and_then(|above| namespaces.get(&above));
        holders.iter().any(|one| one.namespace != first)
            || above.is_some_and(|above| above.iter().any(|(port, namespace)| *namespace != first && !is_own(*port)))
    };
    names.iter().zip(&above).map(is_of_several).collect()
}

impl<'a> Wildcards<'a> {
    /// Those among all names.
    fn of(hosts: &[&'a HostPattern]) -> Self {
        let wildcard = |(index, host): (usize, &&'a HostPattern)| match *host {
            HostPattern::Wildcard(suffix) => Some((suffix.as_str(), index)),
            HostPattern::Exact(_) | HostPattern::Any => None,
        };
        let wildcards = hosts.iter().copied().filter(|host| matches!(host, HostPattern::Wildcard(_)));
        Self { index: HostIndex::of(wildcards), by_suffix: hosts.iter().enumerate().filter_map(wildcard).collect() }
    }

    /// The narrowest one above each name.
    fn above_each(&self, hosts: &[&HostPattern]) -> Vec<Option<usize>> {
        hosts.iter().map(|host| self.above(host)).collect()
    }

    /// The narrowest one above a name.
    fn above(&self, host: &HostPattern) -> Option<usize> {
        match self.index.narrowest_above(host)? {
            HostPattern::Wildcard(suffix) => self.by_suffix.get(suffix.as_str()).copied(),
            HostPattern::Exact(_) | HostPattern::Any => None,
        }
    }

    /// The namespaces at the ports of each wildcard, those of wider ones among them. Each is made of the one above it, however many there
    /// are, and shares its allocation if it is the same.
    fn namespaces(&self, names: &[HostAtPorts<'_>], above: &[Option<usize>]) -> HashMap<usize, Rc<NamespacesByPort>> {
        let mut widest_first: Vec<(&str, usize)> =
            self.by_suffix.iter().map(|(suffix, index)| (*suffix, *index)).collect();
        widest_first.sort_by_key(|(suffix, _)| suffix.len());
        let mut all: HashMap<usize, Rc<NamespacesByPort>> = HashMap::new();
        for (_, index) in widest_first {
            let own = names.get(index).map(|(_, holders)| holders.as_slice()).unwrap_or_default();
            let above = above.get(index).copied().flatten().and_then(|above| all.get(&above));
            let is_same =
                |above: &Rc<NamespacesByPort>| own.iter().all(|one| above.get(&one.port) == Some(&one.namespace));
            let of_wildcard = match above {
                Some(above) if is_same(above) => Rc::clone(above),
                _ => {
                    let mut namespaces = above.map(|above| (**above).clone()).unwrap_or_default();
                    namespaces.extend(own.iter().map(|one| (one.port, one.namespace)));
                    Rc::new(namespaces)
                }
            };
            all.insert(index, of_wildcard);
        }
        all
    }
}
