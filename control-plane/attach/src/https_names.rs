//! The host names that routes hold at a Gateway's listeners for HTTPS, to which plain HTTP may lead.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::claims::{Holder, HostClaims, Site};
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::host_index::HostIndex;
use crate::listener::ListenerProtocol;
use crate::route::JudgedRoute;

/// The host names of a Gateway, in their order.
pub(crate) struct HttpsNames<'a>(Vec<HttpsName<'a>>);

/// A host name that a route holds.
pub(crate) struct HttpsName<'a> {
    pub(crate) host: &'a HostPattern,
    /// The port to which requests for it are redirected, if they are.
    pub(crate) port: u16,
    /// The listener there, by its index.
    pub(crate) listener: usize,
    /// The route that holds it there, by its index.
    pub(crate) route: usize,
    /// The narrowest wildcard above it that a route holds, by its index among these.
    pub(crate) above: Option<usize>,
    /// Whether routes of several namespaces have it at different ports, by itself or by a wildcard above it: none of these is its owner at
    /// all of them, so that plain HTTP leads to none.
    pub(crate) is_of_several: bool,
}

/// A route that holds a host name.
struct HeldAt {
    port: u16,
    listener: usize,
    route: usize,
    /// That of the route, by a number.
    namespace: usize,
}

/// Those that hold a host name, of which there is one at least.
type HeldName<'a> = (&'a HostPattern, Vec<HeldAt>);

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
        claims: &'a HostClaims<'a>,
        routes: &[JudgedRoute<'_>],
    ) -> Self {
        let names = held_names((index, gateway), claims, routes);
        let wildcards = Wildcards::of(&names);
        let above: Vec<Option<usize>> = names.iter().map(|(host, _)| wildcards.above(host)).collect();
        let of_several = of_several(&names, &above, &wildcards);
        let name = |(((host, holders), above), is_of_several): ((HeldName<'a>, Option<usize>), bool)| {
            let preferred = holders
                .into_iter()
                .reduce(|one, other| if preferred(one.port, other.port) == one.port { one } else { other })?;
            let HeldAt { port, listener, route, .. } = preferred;
            Some(HttpsName { host, port, listener, route, above, is_of_several })
        };
        // Each has a holder, so that none is left out and indices stay what they are.
        Self(names.into_iter().zip(above).zip(of_several).filter_map(name).collect())
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

/// 443 needs no port in the location of a redirect; of others the lowest is as good as any.
fn preferred(one: u16, other: u16) -> u16 {
    if [one, other].contains(&443) { 443 } else { one.min(other) }
}

/// All host names that routes hold, in their order.
fn held_names<'a>(
    (index, gateway): (usize, &JudgedGateway<'_>),
    claims: &'a HostClaims<'a>,
    routes: &[JudgedRoute<'_>],
) -> Vec<HeldName<'a>> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut names: BTreeMap<&HostPattern, Vec<HeldAt>> = BTreeMap::new();
    let https = gateway.listeners.iter().enumerate();
    for (listener, judged) in https.filter(|(_, one)| one.protocol == Some(ListenerProtocol::Https)) {
        for (host, holder) in held(claims, index, listener) {
            let Holder::Route(route) = *holder else { continue };
            let Some(of) = routes.get(route) else { continue };
            let next = numbers.len();
            let namespace = *numbers.entry(&of.name.namespace).or_insert(next);
            names.entry(host).or_default().push(HeldAt { port: judged.spec.port, listener, route, namespace });
        }
    }
    names.into_iter().collect()
}

/// Whether several namespaces have a name at different ports, of each name. At a port a name is that of its narrowest holder.
fn of_several(names: &[HeldName<'_>], above: &[Option<usize>], wildcards: &Wildcards<'_>) -> Vec<bool> {
    let mut holders = names.iter().flat_map(|(_, holders)| holders).map(|one| one.namespace);
    let first = holders.next();
    if holders.all(|one| Some(one) == first) {
        return vec![false; names.len()];
    }
    let namespaces = wildcards.namespaces(names, above);
    let is_of_several = |((_, holders), above): (&HeldName<'_>, &Option<usize>)| {
        let Some(first) = holders.first().map(|one| one.namespace) else { return false };
        let is_own = |port: u16| holders.iter().any(|one| one.port == port);
        let above = above.and_then(|above| namespaces.get(&above));
        holders.iter().any(|one| one.namespace != first)
            || above.is_some_and(|above| above.iter().any(|(port, namespace)| *namespace != first && !is_own(*port)))
    };
    names.iter().zip(above).map(is_of_several).collect()
}

impl<'a> Wildcards<'a> {
    fn of(names: &[HeldName<'a>]) -> Self {
        let wildcard = |(index, (host, _)): (usize, &HeldName<'a>)| match *host {
            HostPattern::Wildcard(suffix) => Some((suffix.as_str(), index)),
            HostPattern::Exact(_) | HostPattern::Any => None,
        };
        let hosts = names.iter().map(|(host, _)| *host).filter(|host| matches!(host, HostPattern::Wildcard(_)));
        Self { index: HostIndex::of(hosts), by_suffix: names.iter().enumerate().filter_map(wildcard).collect() }
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
    fn namespaces(&self, names: &[HeldName<'_>], above: &[Option<usize>]) -> HashMap<usize, Rc<NamespacesByPort>> {
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
