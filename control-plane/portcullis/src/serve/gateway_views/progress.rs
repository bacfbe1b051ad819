use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use portcullis_api::status::sanitize;
use portcullis_attach::{ObjectName, RouteKind, ServedGateway};
use portcullis_translate::{gateway_listener_port, owner_at_gateways, type_urls};
use portcullis_xds::{NodeRefusals, Refused, Registry};

use super::{GatewayClaims, GatewayOutcome, gateway_view};

/// The state of a Gateway at its Envoys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum ProgrammedState {
    /// No Envoy of it is connected.
    #[default]
    NoEnvoy,
    /// None has acknowledged all of it yet.
    Pending,
    /// None serves one of its ports, and one refuses them, with this message.
    Refused(String),
    /// One serves one of its ports at least, and has acknowledged all that it does not refuse.
    Programmed(ServedParts),
}

/// The parts of a programmed Gateway that are not as the rest, and the addresses of the Envoys that serve it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct ServedParts {
    /// The addresses by which clients reach these Envoys, as far as they say so.
    pub(in super::super) addresses: BTreeSet<IpAddr>,
    /// The ports that none of them serves at any address, with a refusal.
    pub(in super::super) refused_ports: BTreeMap<u16, String>,
    /// The owners of resources that all of them refuse, with a refusal. They go on with what they took before.
    pub(in super::super) refused_owners: BTreeMap<String, String>,
    /// How many Envoys refuse something, with the refusal of one; empty if none does.
    pub(in super::super) refusal: String,
}

/// The most owners of refused resources of one Gateway whose statuses say so: Envoys, which may be a tenant's, can refuse thousands.
const MAX_OWNERS: usize = 1_000;

/// The names of a Gateway's listeners in Envoy, by port.
type Ports<'a> = BTreeMap<u16, BTreeSet<&'a str>>;

/// The owner of a route's part of a listener.
pub(in super::super) fn route_owner((kind, route): (RouteKind, &ObjectName)) -> String {
    format!("{kind} {route}")
}

impl ProgrammedState {
    /// Whether an Envoy serves a port, and has the newest version of a route there.
    pub(in super::super) fn serves(&self, port: u16, route: (RouteKind, &ObjectName)) -> bool {
        let Self::Programmed(parts) = self else { return false };
        let is_refused = || !parts.refused_owners.is_empty() && parts.refused_owners.contains_key(&route_owner(route));
        !parts.refused_ports.contains_key(&port) && !is_refused()
    }

    /// The refusal of a cluster, by its name, or of an upstream, by its key.
    pub(in super::super) fn refusal_of(&self, cluster: &str) -> Option<&str> {
        let Self::Programmed(parts) = self else { return None };
        parts.refused_owners.get(&owner_at_gateways(cluster)).map(String::as_str)
    }
}

#[cfg(test)]
impl ProgrammedState {
    /// All of it is served.
    pub(in super::super) fn programmed(addresses: BTreeSet<IpAddr>) -> Self {
        Self::Programmed(ServedParts { addresses, ..ServedParts::default() })
    }
}

/// The state of each Gateway of `wanted`, by what its Envoys have acknowledged. One that the reconciler does not have yet is pending.
pub(in super::super) fn programmed_states(
    wanted: &[Arc<ServedGateway>],
    outcome: &GatewayOutcome,
    claims: &GatewayClaims,
    registry: &Registry,
) -> BTreeMap<ObjectName, ProgrammedState> {
    // Equal ones are mostly one, which costs no comparison.
    let served: BTreeMap<&ObjectName, &Arc<ServedGateway>> =
        outcome.served.iter().map(|one| (&one.gateway, one)).collect();
    let state = |wanted: &Arc<ServedGateway>| {
        let Some(snapshot) = &outcome.snapshot else { return ProgrammedState::Pending };
        let view = gateway_view(&wanted.gateway);
        let nodes = registry.view_refusals(snapshot, &view);
        if nodes.is_empty() {
            return ProgrammedState::NoEnvoy;
        }
        if served.get(&wanted.gateway) != Some(&wanted) {
            return ProgrammedState::Pending;
        }
        let mut ports = Ports::new();
        for name in snapshot.view(&view).into_iter().flat_map(|view| view.names(type_urls::listener())) {
            let Some(port) = gateway_listener_port(name) else { continue };
            ports.entry(port).or_default().insert(name);
        }
        state(&nodes, &ports, |is_serving| claims.addresses(&wanted.gateway, is_serving))
    };
    wanted.iter().map(|one| (one.gateway.clone(), state(one))).collect()
}

/// One Envoy that serves a part is enough: others may still start, or be broken.
fn state(
    nodes: &BTreeMap<String, NodeRefusals>,
    ports: &Ports<'_>,
    addresses: impl FnOnce(&dyn Fn(&str) -> bool) -> BTreeSet<IpAddr>,
) -> ProgrammedState {
    let settled = nodes.iter().filter(|(_, node)| is_settled(node)).map(|(name, node)| (name.as_str(), node));
    let settled: BTreeMap<&str, &NodeRefusals> = settled.collect();
    let serves_some = |node: &NodeRefusals| ports.is_empty() || ports.values().any(|names| serves(node, names));
    let serving: BTreeMap<&str, &NodeRefusals> =
        settled.iter().filter(|(_, node)| serves_some(node)).map(|(name, node)| (*name, *node)).collect();
    if serving.is_empty() {
        let first = settled.iter().find_map(|(name, node)| Some(told(name, node.refused.first()?)));
        return first.map_or(ProgrammedState::Pending, ProgrammedState::Refused);
    }
    // A client may be led to each address for each port. One of an Envoy that refuses something of its own is better than none.
    let is_whole = |node: &NodeRefusals| !node.is_pending && node.refused.iter().all(|one| one.owner.is_some());
    let has_whole = serving.values().any(|node| is_whole(node));
    let has_address = |name: &str| serving.get(name).is_some_and(|node| !has_whole || is_whole(node));
    ProgrammedState::Programmed(ServedParts {
        addresses: addresses(&has_address),
        refused_ports: refused_ports(&serving, ports),
        refused_owners: refused_owners(&serving),
        refusal: refusal(&settled, nodes.len()),
    })
}

/// Whether it is known of an Envoy what it refuses. One that refuses what has no owner does not ask for the rest.
fn is_settled(node: &NodeRefusals) -> bool {
    let has_no_owner = |one: &Refused| one.owner.is_none() && one.type_url != type_urls::listener();
    !node.is_pending || node.refused.iter().any(has_no_owner)
}

fn serves(node: &NodeRefusals, listeners: &BTreeSet<&str>) -> bool {
    listeners.iter().any(|name| refusal_of_listener(node, name).is_none())
}

/// Parts of a listener have owners, and are refused without it.
fn refusal_of_listener<'n>(node: &'n NodeRefusals, name: &str) -> Option<&'n Refused> {
    let is_it = |one: &&Refused| one.owner.is_none() && one.type_url == type_urls::listener() && one.name == name;
    node.refused.iter().find(is_it)
}

fn refused_ports(serving: &BTreeMap<&str, &NodeRefusals>, ports: &Ports<'_>) -> BTreeMap<u16, String> {
    let refused = ports.iter().filter(|(_, names)| !serving.values().any(|node| serves(node, names)));
    let first = |names: &BTreeSet<&str>| {
        let of_node = |(name, node): (&&str, &&NodeRefusals)| {
            Some(told(name, names.iter().find_map(|listener| refusal_of_listener(node, listener))?))
        };
        serving.iter().find_map(of_node)
    };
    refused.filter_map(|(port, names)| Some((*port, first(names)?))).collect()
}

fn owners_of(node: &NodeRefusals) -> BTreeSet<&str> {
    node.refused.iter().filter_map(|one| one.owner.as_deref()).collect()
}

fn refused_owners(serving: &BTreeMap<&str, &NodeRefusals>) -> BTreeMap<String, String> {
    let each: Vec<BTreeSet<&str>> = serving.values().map(|node| owners_of(node)).collect();
    let Some((name, first)) = serving.first_key_value() else { return BTreeMap::new() };
    let mut owners = BTreeMap::new();
    for one in &first.refused {
        let Some(owner) = one.owner.as_deref().filter(|owner| each.iter().all(|all| all.contains(owner))) else {
            continue;
        };
        if !owners.contains_key(owner) {
            owners.insert(owner.to_owned(), told(name, one));
        }
        if owners.len() >= MAX_OWNERS {
            break;
        }
    }
    owners
}

/// `1 of 2 Envoys refuses something: …`.
fn refusal(settled: &BTreeMap<&str, &NodeRefusals>, all: usize) -> String {
    let refusing = || settled.iter().filter_map(|(name, node)| Some((name, node.refused.first()?)));
    let Some((name, first)) = refusing().next() else { return String::new() };
    let count = refusing().count();
    let verb = if count == 1 { "refuses" } else { "refuse" };
    format!("{count} of {all} Envoys {verb} something: {}", told(name, first))
}

/// The words of an Envoy, which may be a tenant's.
fn told(node: &str, refused: &Refused) -> String {
    let of = refused.owner.as_deref().map(|owner| format!(" of {}", sanitize(owner))).unwrap_or_default();
    format!("{}: {}{of}: {}", sanitize(node), sanitize(&refused.name), sanitize(&refused.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(type_url: &str, name: &str, owner: Option<&str>) -> Refused {
        Refused {
            type_url: type_url.to_owned(),
            name: name.to_owned(),
            version: "1".to_owned(),
            message: "no".to_owned(),
            owner: owner.map(str::to_owned),
            is_optional: false,
        }
    }

    const PLAIN: &str = "-/gateway-0.0.0.0-80";
    const TLS: &str = "-/gateway-0.0.0.0-443";
    const TLS6: &str = "-/gateway-::-443";
    const ROUTE: &str = "HTTPRoute a/r";

    fn node(refused: Vec<Refused>) -> NodeRefusals {
        NodeRefusals { is_pending: false, refused }
    }

    fn pending() -> NodeRefusals {
        NodeRefusals { is_pending: true, refused: Vec::new() }
    }

    /// A state in one line: the names of nodes whose addresses count have to be known to the caller.
    fn shown(all: Vec<NodeRefusals>) -> String {
        let nodes = all.into_iter().enumerate().map(|(number, one)| (format!("e{number}"), one)).collect();
        let ports = Ports::from([(80, [PLAIN].into()), (443, [TLS, TLS6].into())]);
        let addresses = |is_serving: &dyn Fn(&str) -> bool| {
            let of = |number: u8| is_serving(&format!("e{number}")).then(|| IpAddr::from([192, 0, 2, number]));
            (0..3).filter_map(of).collect()
        };
        match state(&nodes, &ports, addresses) {
            ProgrammedState::Programmed(parts) => {
                let ServedParts { addresses, refused_ports, refused_owners, refusal } = parts;
                let (ports, owners) = (refused_ports.keys(), refused_owners.keys());
                let (ports, owners): (Vec<_>, Vec<_>) = (ports.collect(), owners.collect());
                format!("{} {ports:?} {owners:?} {refusal}", addresses.len())
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn gateway_is_refused_only_if_all_its_listeners_are() {
        let listener = |name: &str| refused(type_urls::listener(), name, None);
        let part = || refused(type_urls::listener(), TLS, Some(ROUTE));
        let cluster = || refused(type_urls::cluster(), "c", Some("KubernetesUpstream a/u"));
        let secret = || refused(type_urls::secret(), "s", None);
        let one = |name: &str| format!("1 of 1 Envoys refuses something: e0: {name}: no");
        for (nodes, expected) in [
            (vec![node(vec![])], "1 [] [] ".to_owned()),
            (vec![pending()], "Pending".to_owned()),
            (vec![pending(), node(vec![])], "1 [] [] ".to_owned()),
            (vec![node(vec![listener(PLAIN)])], format!("1 [80] [] {}", one(PLAIN))),
            (vec![node(vec![listener(TLS)])], format!("1 [] [] {}", one(TLS))),
            (vec![node(vec![listener(TLS), listener(TLS6)])], format!("1 [443] [] {}", one(TLS))),
            (vec![node(vec![listener(TLS), listener(TLS6), listener(PLAIN)])], format!("Refused(\"e0: {TLS}: no\")")),
            (
                vec![node(vec![listener(PLAIN)]), node(vec![])],
                format!("1 [] [] 1 of 2 Envoys refuses something: e0: {PLAIN}: no"),
            ),
            (
                vec![node(vec![listener(TLS), listener(TLS6), listener(PLAIN)]), node(vec![])],
                format!("1 [] [] 1 of 2 Envoys refuses something: e0: {TLS}: no"),
            ),
            (
                vec![node(vec![listener(PLAIN)]), node(vec![listener(PLAIN)]), pending()],
                format!("2 [80] [] 2 of 3 Envoys refuse something: e0: {PLAIN}: no"),
            ),
            (vec![node(vec![part()])], format!("1 [] [\"{ROUTE}\"] {}", one(&format!("{TLS} of {ROUTE}")))),
            (
                vec![node(vec![part()]), node(vec![])],
                format!("2 [] [] 1 of 2 Envoys refuses something: e0: {TLS} of {ROUTE}: no"),
            ),
            (
                vec![node(vec![cluster()])],
                format!("1 [] [\"KubernetesUpstream a/u\"] {}", one("c of KubernetesUpstream a/u")),
            ),
            (vec![NodeRefusals { is_pending: true, refused: vec![secret()] }], format!("1 [] [] {}", one("s"))),
            (vec![NodeRefusals { is_pending: true, refused: vec![part()] }], "Pending".to_owned()),
        ] {
            assert_eq!(shown(nodes.clone()), expected, "{nodes:?}");
        }
    }

    #[test]
    fn refused_owners_are_bounded() {
        let route = |number: usize| refused(type_urls::listener(), TLS, Some(&format!("HTTPRoute a/r{number}")));
        let all = node((0..3 * MAX_OWNERS).map(route).collect());
        let serving = [("e0", &all), ("e1", &all)].into();
        assert_eq!(refused_owners(&serving).len(), MAX_OWNERS);
    }
}
