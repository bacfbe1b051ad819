use super::Findings;
use super::cidr::{Cidr, check_ranges};
use super::identity::is_header_name;
use super::listener::ListenerAddresses;
use crate::types::ListenerSettings;

/// The header that Gardener's apiserver-proxy sends.
const HEADER: &str = "x-gardener-destination";

/// The port for HTTP CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The port, unlike all others.
    pub port: u16,
    /// The header that names the cluster, in lower case.
    pub header: String,
    /// The addresses that may open tunnels; all if empty.
    pub sources: Vec<Cidr>,
}

/// Checks the port for HTTP CONNECT beside those of the listener.
pub(super) fn check_tunnel(
    listener: &ListenerSettings,
    addresses: &ListenerAddresses,
    findings: &mut Findings,
) -> Option<Tunnel> {
    let raw = listener.tunnel.as_ref()?;
    let path = "spec.listener.tunnel";
    let proxies = listener.proxy_protocol.as_ref().and_then(|proxies| proxies.port);
    if raw.port == 0 {
        findings.problem(format!("{path}.port"), "must not be 0");
    } else if let Some(field) = addresses.field_of_port(raw.port) {
        findings.problem(format!("{path}.port"), format!("is the same as {field}"));
    } else if Some(raw.port) == proxies {
        findings.problem(format!("{path}.port"), "is the same as listener.proxyProtocol.port");
    }
    let header = raw.header.as_deref().unwrap_or(HEADER).to_ascii_lowercase();
    if !header.starts_with("x-") || !is_header_name(&header) {
        let message = "must be a header name that starts with X- and that nothing else uses";
        findings.problem(format!("{path}.header"), message);
    }
    let sources = check_ranges(&raw.trusted_sources, &format!("{path}.trustedSources"), findings);
    Some(Tunnel { port: raw.port, header, sources })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::listener::check_addresses;
    use super::*;

    fn tunnel(listener: Value) -> Result<Option<Tunnel>, String> {
        let mut findings = Findings::default();
        let listener: ListenerSettings = serde_json::from_value(listener).map_err(|error| error.to_string())?;
        let addresses = check_addresses(&listener, ([0, 0, 0, 0], 6443).into(), &mut findings);
        let tunnel = check_tunnel(&listener, &addresses, &mut findings);
        findings.problems.first().map_or(Ok(tunnel), |problem| Err(problem.to_string()))
    }

    #[test]
    fn tunnel_has_a_port_of_its_own() {
        assert_eq!(tunnel(json!({})), Ok(None));
        let proxies = json!({"port": 6444, "trustedProxies": ["10.0.0.1"]});
        let at = |port: Value| tunnel(json!({"proxyProtocol": proxies, "tunnel": {"port": port}}));
        let own = Tunnel { port: 8443, header: "x-gardener-destination".to_owned(), sources: Vec::new() };
        assert_eq!(at(json!(8443)), Ok(Some(own)));
        assert_eq!(at(json!(0)), Err("spec.listener.tunnel.port: must not be 0".to_owned()));
        assert_eq!(at(json!(6443)), Err("spec.listener.tunnel.port: is the same as listener.port".to_owned()));
        let taken = "spec.listener.tunnel.port: is the same as listener.proxyProtocol.port";
        assert_eq!(at(json!(6444)), Err(taken.to_owned()));
        assert!(tunnel(json!({"tunnel": {}})).is_err());
    }

    #[test]
    fn tunnels_header_is_one_that_means_nothing_else() {
        let of = |header: &str| tunnel(json!({"tunnel": {"port": 1, "header": header}}));
        assert_eq!(of("X-Cluster").map(|tunnel| tunnel.unwrap().header), Ok("x-cluster".to_owned()));
        for wrong in ["", "Host", "X-", "x-envoy-original-dst-host", "X-Forwarded-For", "X-Real-Ip", "x-a\r\nb", ":x"] {
            assert!(of(wrong).unwrap_err().starts_with("spec.listener.tunnel.header: "), "{wrong:?}");
        }
    }

    #[test]
    fn tunnels_sources_are_ranges() {
        let of = |sources: Value| tunnel(json!({"tunnel": {"port": 1, "trustedSources": sources}}));
        assert_eq!(of(json!(["10.0.0.0/8"])).map(|tunnel| tunnel.unwrap().sources.len()), Ok(1));
        let refused = of(json!(["10.0.0.0/8", "10.0.0.1/8"])).unwrap_err();
        assert!(refused.starts_with("spec.listener.tunnel.trustedSources[1]: "), "{refused}");
    }
}
