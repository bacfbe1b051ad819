use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use portcullis_api::{DiscoveredServer, MAX_ZONE, SlicePort};

/// Most addresses that are taken from the slices of a source. Of them an object uses as many as it may have servers.
const MAX_ADDRESSES: usize = 2_000;
/// Most findings about a source that are named one by one.
pub(super) const MAX_FINDINGS: usize = 8;

/// The servers of a source, sorted, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SliceServers {
    pub(super) servers: Vec<DiscoveredServer>,
    /// Parts of the slices that are not used, and why.
    pub(super) unused: Vec<String>,
}

/// Whether an endpoint gets requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndpointState {
    Ready,
    /// It ends and answers still: better than nothing, as kube-proxy has it.
    Ending,
    Unready,
}

/// Reads slices: the endpoints that are ready, or, if none is, those that end and still serve.
pub(super) fn servers_of<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>, port: &SlicePort) -> SliceServers {
    let (mut ready, mut ending, mut unused) = (Vec::new(), Vec::new(), Vec::new());
    for slice in slices {
        let endpoints = slice.endpoints.as_deref().unwrap_or_default();
        if endpoints.is_empty() {
            continue;
        }
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        if slice.address_type != "IPv4" && slice.address_type != "IPv6" {
            unused.push(format!("EndpointSlice {name} holds no IP addresses"));
            continue;
        }
        let number = match number_of(port, slice.ports.as_deref().unwrap_or_default()) {
            Ok(number) => number,
            Err(why) => {
                unused.push(format!("EndpointSlice {name} {why}"));
                continue;
            }
        };
        for endpoint in endpoints {
            let into = match state_of(endpoint) {
                EndpointState::Ready => &mut ready,
                EndpointState::Ending => &mut ending,
                EndpointState::Unready => continue,
            };
            match server_of(endpoint, number, &slice.address_type) {
                Some(server) => into.push(server),
                None => unused.push(format!("EndpointSlice {name} has an endpoint without an {}", slice.address_type)),
            }
        }
    }
    let mut servers = if ready.is_empty() { ending } else { ready };
    servers.sort();
    servers.dedup_by_key(|server| (server.ip, server.port));
    if servers.len() > MAX_ADDRESSES {
        unused.push(format!("{} addresses are more than {MAX_ADDRESSES}", servers.len()));
        servers.truncate(MAX_ADDRESSES);
    }
    unused.sort();
    unused.dedup();
    unused.truncate(MAX_FINDINGS);
    SliceServers { servers, unused }
}

/// Whether a slice may be of the Service with this UID. One that names another UID was left by a Service that had the same name.
pub(super) fn is_of_service(slice: &EndpointSlice, uid: Option<&str>) -> bool {
    let mut owners = slice.metadata.owner_references.iter().flatten().filter(|owner| owner.kind == "Service");
    uid.is_none_or(|uid| owners.all(|owner| owner.uid == uid))
}

/// A condition that is not there counts as the API has it: ready unless it is denied, serving as it is ready.
fn state_of(endpoint: &Endpoint) -> EndpointState {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let is_ready = conditions.ready.unwrap_or(true);
    match (is_ready, conditions.serving.unwrap_or(is_ready), conditions.terminating.unwrap_or(false)) {
        (true, _, _) => EndpointState::Ready,
        (false, true, true) => EndpointState::Ending,
        (false, _, _) => EndpointState::Unready,
    }
}

/// The first address: all of an endpoint are the same server.
fn server_of(endpoint: &Endpoint, port: u16, family: &str) -> Option<DiscoveredServer> {
    let ip: std::net::IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let zone = endpoint.zone.clone().filter(|zone| zone.len() <= MAX_ZONE).unwrap_or_default();
    (ip.is_ipv4() == (family == "IPv4")).then_some(DiscoveredServer { ip, port, zone })
}

/// The number of the wanted one of a slice's ports.
fn number_of(wanted: &SlicePort, ports: &[EndpointPort]) -> Result<u16, String> {
    let tcp = ports.iter().filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP");
    let with_numbers: Vec<(u16, &str)> =
        tcp.filter_map(|port| Some((valid(port.port?)?, port.name.as_deref().unwrap_or_default()))).collect();
    match (wanted, with_numbers.as_slice()) {
        (SlicePort::Only, [(number, _)]) => Ok(*number),
        (SlicePort::Only, ports) => Err(format!("has {} TCP ports, and neither port nor portName is set", ports.len())),
        (SlicePort::Number(wanted), ports) if ports.iter().any(|(number, _)| number == wanted) => Ok(*wanted),
        (SlicePort::Number(wanted), _) => Err(format!("has no TCP port {wanted}")),
        (SlicePort::Name(wanted), ports) => {
            let named = ports.iter().find(|(_, name)| name == wanted).map(|(number, _)| *number);
            named.ok_or_else(|| format!("has no TCP port of the name {wanted}"))
        }
    }
}

fn valid(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port != 0)
}
