//! The routes that hold host names, from one judgement to the next.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use crate::CONTROLLER_NAME;
use crate::held_list::{HOSTNAMES_HELD, cut_ports, read};
use crate::host::HostPattern;
use crate::name::{ObjectName, RouteKind};

/// The host names that routes hold, each as long as it claims them. Ports count, and not the names of listeners: clients connect to a
/// port, so that a listener may be renamed or divided, and no name moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormerHolders(BTreeMap<(RouteKind, ObjectName), FormerRoute>);

/// A route as it was judged before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FormerRoute {
    /// A successor of the same name has nothing of it.
    uid: Option<String>,
    /// By Gateway and port.
    names: BTreeMap<ObjectName, NamesByPort>,
}

/// A host name of a route.
pub(crate) struct HeldName<'a> {
    pub(crate) route: &'a (RouteKind, ObjectName),
    pub(crate) uid: Option<&'a str>,
    /// Gateway, port and name.
    pub(crate) place: (&'a ObjectName, u16, &'a HostPattern),
}

/// The host names that a route held at a Gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FormerNames<'a>(&'a NamesByPort);

/// Host names by their ports.
pub(crate) type NamesByPort = BTreeMap<u16, BTreeSet<HostPattern>>;

/// The namespaces of the routes that held host names, by Gateway, port and name.
pub(crate) type HolderNamespaces<'a> = HashMap<&'a ObjectName, BTreeMap<u16, HashMap<&'a HostPattern, &'a str>>>;

impl FormerHolders {
    /// Adds those that the status of a route lists, by the UID that the status is of.
    pub fn add_status(&mut self, kind: RouteKind, name: &ObjectName, uid: Option<&str>, status: &Value) {
        self.add_entries((kind, name, uid), status, |entry| listed_in(entry).collect());
    }

    /// Adds all that a route claims at ports for which its list is too long, if the status says that all of them are the route's. It
    /// must be of the newest version of the route: an edit would add what others have.
    pub fn add_unlisted(&mut self, kind: RouteKind, name: &ObjectName, uid: Option<&str>, status: &Value) {
        let has_all = |condition: &Value| condition.get("status").and_then(Value::as_str) == Some("True");
        // Of one parent reference others may have names that it claims by another one.
        if !all_lists_in(status).all(has_all) {
            return;
        }
        self.add_entries((kind, name, uid), status, |entry| {
            let messages = lists_in(entry).filter_map(|one| one.get("message")?.as_str());
            messages.flat_map(cut_ports).map(|port| (port, HostPattern::Any)).collect()
        });
    }

    fn add_entries(
        &mut self,
        (kind, name, uid): (RouteKind, &ObjectName, Option<&str>),
        status: &Value,
        names_in: impl Fn(&Value) -> Vec<(u16, HostPattern)>,
    ) {
        let entries = status.get("parents").and_then(Value::as_array).into_iter().flatten();
        for entry in entries.filter(is_ours) {
            let parent = |field: &str| entry.get("parentRef")?.get(field)?.as_str();
            let Some(gateway) = parent("name") else { continue };
            let gateway = ObjectName::new(parent("namespace").unwrap_or(&name.namespace), gateway);
            for (port, host) in names_in(entry) {
                let names = self.at(kind, name, uid).entry(gateway.clone()).or_default();
                names.entry(port).or_default().insert(host);
            }
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `other` has all of them.
    pub fn is_part_of(&self, other: &Self) -> bool {
        self.each().all(|name| other.has(&name))
    }

    /// Takes out those of a route.
    #[must_use]
    pub fn take(&mut self, kind: RouteKind, name: &ObjectName) -> Self {
        Self(self.0.remove_entry(&(kind, name.clone())).into_iter().collect())
    }

    /// Adds those of routes that are not here.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Those that `other` does not have.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.only(|name| !other.has(name))
    }

    /// Those that `other` has, too.
    #[must_use]
    pub fn also_in(&self, other: &Self) -> Self {
        self.only(|name| other.has(name))
    }

    /// Those that no other route has in `others`.
    #[must_use]
    pub fn unless_of_other_routes(&self, others: &Self) -> Self {
        let wanted: HashSet<_> = self.each().map(|name| name.place).collect();
        let holders: HashMap<_, _> =
            others.each().filter(|name| wanted.contains(&name.place)).map(|name| (name.place, name.route)).collect();
        self.only(|name| holders.get(&name.place).is_none_or(|holder| *holder == name.route))
    }

    /// Adds each name of `others`.
    pub fn add_all(&mut self, others: &Self) {
        others.each().for_each(|name| self.add_name(&name));
    }

    fn only(&self, is_wanted: impl Fn(&HeldName<'_>) -> bool) -> Self {
        let mut found = Self::default();
        self.each().filter(is_wanted).for_each(|name| found.add_name(&name));
        found
    }

    /// The namespaces of the holders. Of two routes with a name the first one counts.
    pub(crate) fn namespaces(&self) -> HolderNamespaces<'_> {
        let mut all = HolderNamespaces::new();
        for ((_, route), former) in &self.0 {
            for (gateway, ports) in &former.names {
                let at_gateway = all.entry(gateway).or_default();
                for (port, hosts) in ports {
                    let at_port = at_gateway.entry(*port).or_default();
                    for host in hosts {
                        at_port.entry(host).or_insert(route.namespace.as_str());
                    }
                }
            }
        }
        all
    }

    /// Those at some ports of Gateways.
    pub(crate) fn at_ports(&self, is_wanted: impl Fn(&ObjectName, u16) -> bool) -> Vec<HeldName<'_>> {
        let mut found = Vec::new();
        for (route, former) in &self.0 {
            let uid = former.uid.as_deref();
            for (gateway, names) in &former.names {
                for (port, hosts) in names.iter().filter(|(port, _)| is_wanted(gateway, **port)) {
                    found.extend(hosts.iter().map(|host| HeldName { route, uid, place: (gateway, *port, host) }));
                }
            }
        }
        found
    }

    /// Adds one.
    pub(crate) fn add_name(&mut self, name: &HeldName<'_>) {
        let ((kind, route), (gateway, port, host)) = (name.route, name.place);
        let ports = self.at(*kind, route, name.uid).entry(gateway.clone()).or_default();
        ports.entry(port).or_default().insert(host.clone());
    }

    /// Each of them.
    pub(crate) fn each(&self) -> impl Iterator<Item = HeldName<'_>> {
        self.0.iter().flat_map(|(route, former)| {
            let uid = former.uid.as_deref();
            let ports = former.names.iter().flat_map(|(gateway, ports)| ports.iter().map(move |one| (gateway, one)));
            ports.flat_map(move |(gateway, (port, hosts))| {
                hosts.iter().map(move |host| HeldName { route, uid, place: (gateway, *port, host) })
            })
        })
    }

    /// Whether the same route has the same name here.
    pub(crate) fn has(&self, HeldName { route, uid, place: (gateway, port, host) }: &HeldName<'_>) -> bool {
        let names = self.0.get(route).filter(|former| former.uid.as_deref() == *uid);
        names.and_then(|former| former.names.get(*gateway)).is_some_and(|names| FormerNames(names).has(*port, host))
    }

    /// Adds those of a route at a Gateway.
    pub(crate) fn add(
        &mut self,
        kind: RouteKind,
        (name, uid): (&ObjectName, Option<&str>),
        gateway: &ObjectName,
        names: NamesByPort,
    ) {
        self.at(kind, name, uid).insert(gateway.clone(), names);
    }

    /// Those of a route at a Gateway.
    pub(crate) fn names(
        &self,
        kind: RouteKind,
        name: &ObjectName,
        uid: Option<&str>,
        gateway: &ObjectName,
    ) -> Option<FormerNames<'_>> {
        let former = self.0.get(&(kind, name.clone()))?;
        former.names.get(gateway).filter(|_| former.uid.as_deref() == uid).map(FormerNames)
    }

    /// Whether there are some of a route of this name.
    pub(crate) fn has_any(&self, kind: RouteKind, name: &ObjectName) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(kind, name.clone()))
    }

    fn at(&mut self, kind: RouteKind, name: &ObjectName, uid: Option<&str>) -> &mut BTreeMap<ObjectName, NamesByPort> {
        let new = || FormerRoute { uid: uid.map(str::to_owned), names: BTreeMap::new() };
        &mut self.0.entry((kind, name.clone())).or_insert_with(new).names
    }
}

impl<'a> FormerNames<'a> {
    /// Those at a port; `Any` among them is for all that the route claims.
    pub(crate) fn at(self, port: u16) -> Option<&'a BTreeSet<HostPattern>> {
        self.0.get(&port)
    }

    /// Whether the route held a name at a port. `Any` is none that a route can hold; it is here for all that the route claims.
    pub(crate) fn has(self, port: u16, host: &HostPattern) -> bool {
        self.at(port).is_some_and(|names| names.contains(host) || names.contains(&HostPattern::Any))
    }
}

/// Whether the lists in the status of a route are about this version of it.
pub fn lists_are_newest(status: &Value, generation: Option<i64>) -> bool {
    let observed = |condition: &Value| condition.get("observedGeneration").and_then(Value::as_i64);
    all_lists_in(status).all(|condition| observed(condition) == generation)
}

/// The conditions of a route that list names.
fn all_lists_in(status: &Value) -> impl Iterator<Item = &Value> {
    let entries = status.get("parents").and_then(Value::as_array).into_iter().flatten();
    entries.filter(is_ours).flat_map(lists_in)
}

/// Whether an entry of `status.parents` is of this controller.
fn is_ours(entry: &&Value) -> bool {
    entry.get("controllerName").and_then(Value::as_str) == Some(CONTROLLER_NAME)
}

/// The conditions of an entry that list names.
fn lists_in(entry: &Value) -> impl Iterator<Item = &Value> {
    let conditions = entry.get("conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.filter(|one| one.get("type").and_then(Value::as_str) == Some(HOSTNAMES_HELD))
}

/// The names that an entry of `status.parents` lists, with their ports.
fn listed_in(entry: &Value) -> impl Iterator<Item = (u16, HostPattern)> {
    lists_in(entry).filter_map(|one| one.get("message")?.as_str()).flat_map(read)
}
