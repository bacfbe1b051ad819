//! The addresses and ports for clients. Envoy binds each with SO_REUSEPORT, so that the system would give connections to one of two
//! sockets that overlap, and no error says so.

use std::net::{IpAddr, SocketAddr};

use super::Findings;
use crate::bounds::MAX_ADDITIONAL_ADDRESSES;
use crate::types::ListenerSettings;

/// The addresses and ports for clients, each with the name of its field; never empty.
#[derive(Debug)]
pub(super) struct ListenerAddresses(Vec<(String, SocketAddr)>);

impl ListenerAddresses {
    /// The first, and all others.
    pub(super) fn parts(&self, default: SocketAddr) -> (SocketAddr, Vec<SocketAddr>) {
        let mut all = self.0.iter().map(|(_, address)| *address);
        (all.next().unwrap_or(default), all.collect())
    }

    /// The field that has the port, if one has.
    pub(super) fn field_of_port(&self, port: u16) -> Option<String> {
        let (name, _) = self.0.iter().find(|(_, address)| address.port() == port)?;
        Some(if name == FIRST { "listener.port".to_owned() } else { format!("{name}.port") })
    }
}

/// The field of the first address.
const FIRST: &str = "listener.address";

/// Checks `listener.address`, `port` and `additionalAddresses`.
pub(super) fn check_addresses(
    listener: &ListenerSettings,
    default: SocketAddr,
    findings: &mut Findings,
) -> ListenerAddresses {
    let ip = check_ip(listener.address.as_deref(), default.ip(), "spec.listener.address", findings);
    let ip = ip.unwrap_or(default.ip());
    let first = SocketAddr::new(ip, listener.port.unwrap_or(default.port()));
    if first.port() == 0 {
        findings.problem("spec.listener.port", "must not be 0");
    }
    let path = "spec.listener.additionalAddresses";
    if listener.additional_addresses.len() > MAX_ADDITIONAL_ADDRESSES {
        findings.problem(path, format!("must be at most {MAX_ADDITIONAL_ADDRESSES}"));
    }
    let mut all = vec![(FIRST.to_owned(), first)];
    for (index, raw) in listener.additional_addresses.iter().take(MAX_ADDITIONAL_ADDRESSES).enumerate() {
        let path = format!("{path}[{index}]");
        let ip = check_ip(raw.address.as_deref(), first.ip(), &format!("{path}.address"), findings);
        let Some(ip) = ip else { continue };
        let address = SocketAddr::new(ip, raw.port.unwrap_or(first.port()));
        if raw.port == Some(0) {
            findings.problem(format!("{path}.port"), "must not be 0");
        }
        if let Some(problem) = all.iter().find_map(|(name, other)| overlap(address, *other, name)) {
            findings.problem(&path, problem);
        }
        all.push((format!("listener.additionalAddresses[{index}]"), address));
    }
    ListenerAddresses(all)
}

fn check_ip(text: Option<&str>, default: IpAddr, path: &str, findings: &mut Findings) -> Option<IpAddr> {
    let message = match text.map(str::parse) {
        None => return Some(default),
        // Sockets for IPv6 are for nothing else.
        Some(Ok(IpAddr::V6(ip))) if ip.to_ipv4_mapped().is_some() => {
            "must be written as the address of IPv4 that it is"
        }
        Some(Ok(ip)) => return Some(ip),
        Some(Err(_)) => "must be an IP address",
    };
    findings.problem(path, message);
    None
}

/// The reason why an address cannot be beside the one of that field.
fn overlap(address: SocketAddr, other: SocketAddr, field: &str) -> Option<String> {
    if address == other {
        return Some(format!("is the same address and port as {field}"));
    }
    let wide = if address.ip().is_unspecified() { address.ip() } else { other.ip() };
    let is_one = address.port() == other.port() && contains(address.ip(), other.ip());
    let family = if wide.is_ipv4() { "IPv4" } else { "IPv6" };
    is_one.then(|| format!("overlaps with {field} at the same port: {wide} is every address of {family}"))
}

/// Whether one is every address of the other's family.
fn contains(one: IpAddr, other: IpAddr) -> bool {
    one.is_ipv4() == other.is_ipv4() && (one.is_unspecified() || other.is_unspecified())
}

/// The addresses, each once, without those that an unspecified one of them contains.
pub(super) fn distinct(all: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut ips: Vec<IpAddr> = Vec::new();
    for ip in all {
        if !ips.iter().any(|other| *other == ip || (other.is_unspecified() && contains(*other, ip))) {
            ips.retain(|other| !(ip.is_unspecified() && contains(ip, *other)));
            ips.push(ip);
        }
    }
    ips
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check::check_settings;

    fn checked(listener: &Value) -> Result<(Vec<String>, Vec<String>), Vec<String>> {
        let document = json!({
            "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"},
            "spec": {"listener": listener},
        });
        let texts = |problems: Vec<crate::Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        let settings = check_settings(&crate::parse_settings(&document).unwrap()).outcome.map_err(texts)?;
        let all = settings.addresses().iter().map(ToString::to_string).collect();
        Ok((all, settings.ips().iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn further_addresses_take_what_they_omit_from_the_first() {
        for (listener, all, ips) in [
            (json!({}), vec!["0.0.0.0:6443"], vec!["0.0.0.0"]),
            (json!({"additionalAddresses": []}), vec!["0.0.0.0:6443"], vec!["0.0.0.0"]),
            (
                json!({"additionalAddresses": [{"address": "::"}]}),
                vec!["0.0.0.0:6443", "[::]:6443"],
                vec!["0.0.0.0", "::"],
            ),
            (
                json!({"address": "10.0.0.1", "port": 443, "additionalAddresses": [{"port": 6443}, {"address": "fd00::1"}]}),
                vec!["10.0.0.1:443", "10.0.0.1:6443", "[fd00::1]:443"],
                vec!["10.0.0.1", "fd00::1"],
            ),
            (
                json!({"address": "10.0.0.1", "additionalAddresses": [{"address": "0.0.0.0", "port": 443}, {"address": "10.0.0.2"}]}),
                vec!["10.0.0.1:6443", "0.0.0.0:443", "10.0.0.2:6443"],
                vec!["0.0.0.0"],
            ),
        ] {
            let (found, found_ips) = checked(&listener).unwrap();
            assert_eq!(
                (found, found_ips),
                (all.iter().map(ToString::to_string).collect(), ips.iter().map(ToString::to_string).collect()),
                "{listener}"
            );
        }
    }

    #[test]
    fn addresses_that_cannot_be_bound_together_are_refused() {
        let more = |more: Value| json!({"additionalAddresses": more});
        let at = "spec.listener.additionalAddresses";
        for (listener, problem) in [
            (more(json!([{}])), format!("{at}[0]: is the same address and port as listener.address")),
            (
                more(json!([{"port": 1}, {"address": "0.0.0.0", "port": 1}])),
                format!("{at}[1]: is the same address and port as listener.additionalAddresses[0]"),
            ),
            (
                more(json!([{"address": "10.0.0.1"}])),
                format!("{at}[0]: overlaps with listener.address at the same port: 0.0.0.0 is every address of IPv4"),
            ),
            (
                more(json!([{"address": "fd00::1"}, {"address": "::"}])),
                format!(
                    "{at}[1]: overlaps with listener.additionalAddresses[0] at the same port: :: is every address of IPv6"
                ),
            ),
            (more(json!([{"address": "localhost"}])), format!("{at}[0].address: must be an IP address")),
            (
                more(json!([{"address": "::ffff:10.0.0.1"}])),
                format!("{at}[0].address: must be written as the address of IPv4 that it is"),
            ),
            (more(json!([{"port": 0}])), format!("{at}[0].port: must not be 0")),
            (
                json!({"address": "::ffff:0.0.0.0"}),
                "spec.listener.address: must be written as the address of IPv4 that it is".to_owned(),
            ),
            (json!({"port": 0}), "spec.listener.port: must not be 0".to_owned()),
        ] {
            assert_eq!(checked(&listener).unwrap_err().first(), Some(&problem), "{listener}");
        }
    }

    #[test]
    fn ports_of_all_addresses_are_taken() {
        let more = json!([{"port": 443}]);
        let proxies = |port: u16| json!({"port": port, "trustedProxies": ["10.0.0.1"]});
        for (listener, problem) in [
            (
                json!({"proxyProtocol": proxies(443)}),
                "proxyProtocol.port: is the same as listener.additionalAddresses[0].port: omit it if all clients come through proxies",
            ),
            (
                json!({"proxyProtocol": proxies(6443)}),
                "proxyProtocol.port: is the same as listener.port: omit it if all clients come through proxies",
            ),
            (json!({"tunnel": {"port": 443}}), "tunnel.port: is the same as listener.additionalAddresses[0].port"),
            (json!({"tunnel": {"port": 6443}}), "tunnel.port: is the same as listener.port"),
        ] {
            let mut listener = listener;
            listener["additionalAddresses"] = more.clone();
            assert_eq!(checked(&listener).unwrap_err(), [format!("spec.listener.{problem}")]);
        }
    }

    #[test]
    fn number_of_addresses_is_bounded() {
        let of = |number: u16| {
            checked(&json!({"additionalAddresses": (1..=number).map(|port| json!({"port": port})).collect::<Vec<_>>()}))
        };
        assert_eq!(of(16).unwrap().0.len(), 17);
        assert_eq!(of(17).unwrap_err(), ["spec.listener.additionalAddresses: must be at most 16"]);
    }
}
