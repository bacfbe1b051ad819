//! Proxies between clients and the gateway.

use super::Findings;
use super::cidr::{Cidr, check_ranges};
use super::listener::ListenerAddresses;
use crate::types::ListenerSettings;

/// Most proxies in a row. Envoy has no bound of its own.
const MAX_TRUSTED_HOPS: u32 = 16;
/// More than a content network, a load balancer and two ingresses is more likely a mistake.
const UNUSUAL_HOPS: u32 = 4;

/// The port for proxies that send a client's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// A port of their own; `None` if all clients come through them.
    pub port: Option<u16>,
    /// The proxies' own addresses, never empty.
    pub trusted: Vec<Cidr>,
}

/// Checks `listener.proxyProtocol`.
pub(super) fn check_proxy_protocol(
    listener: &ListenerSettings,
    addresses: &ListenerAddresses,
    findings: &mut Findings,
) -> Option<ProxyProtocol> {
    let raw = listener.proxy_protocol.as_ref()?;
    let path = "spec.listener.proxyProtocol";
    let trusted = check_ranges(&raw.trusted_proxies, &format!("{path}.trustedProxies"), findings);
    if raw.trusted_proxies.is_empty() {
        findings.problem(format!("{path}.trustedProxies"), "at least one is required: no client could connect");
    }
    if trusted.iter().any(|range| range.length == 0) {
        findings.warning(format!("{path}.trustedProxies"), "every client may claim any address");
    }
    if raw.port == Some(0) {
        findings.problem(format!("{path}.port"), "must not be 0");
    } else if let Some(field) = raw.port.and_then(|port| addresses.field_of_port(port)) {
        let message = format!("is the same as {field}: omit it if all clients come through proxies");
        findings.problem(format!("{path}.port"), message);
    }
    Some(ProxyProtocol { port: raw.port, trusted })
}

/// Checks `listener.trustedHops`.
pub(super) fn check_trusted_hops(listener: &ListenerSettings, findings: &mut Findings) -> u32 {
    let path = "spec.listener.trustedHops";
    let hops = listener.trusted_hops.unwrap_or_default();
    if hops > MAX_TRUSTED_HOPS {
        findings.problem(path, format!("must be at most {MAX_TRUSTED_HOPS}"));
    } else if hops > 0 {
        if hops > UNUSUAL_HOPS {
            findings.warning(path, "is unusually high: clients behind fewer proxies choose the address that is used");
        }
        if !listener.virtual_ips.is_empty() {
            let message = "applies to virtual IPs, too: clients that bypass the proxies choose their address";
            findings.warning(path, message);
        }
        if listener.proxy_protocol.as_ref().is_some_and(|proxies| proxies.port.is_some()) {
            let message = "applies to both ports: clients that bypass the proxies choose their address";
            findings.warning(path, message);
        }
    }
    hops
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check::check_settings;

    fn hops(listener: serde_json::Value) -> (Result<u32, String>, usize) {
        let document = json!({
            "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"},
            "spec": {"listener": listener},
        });
        let checked = check_settings(&crate::parse_settings(&document).unwrap());
        let hops = checked.outcome.map(|settings| settings.trusted_hops);
        (hops.map_err(|problems| problems[0].to_string()), checked.warnings.len())
    }

    #[test]
    fn trusted_hops_are_bounded_and_warned_about() {
        let proxies = |more: serde_json::Value| {
            let mut door = json!({"trustedProxies": ["10.0.0.1"]});
            door.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"trustedHops": 1, "proxyProtocol": door})
        };
        assert_eq!(hops(json!({})), (Ok(0), 0));
        assert_eq!(hops(json!({"trustedHops": 2})), (Ok(2), 0));
        assert_eq!(hops(proxies(json!({}))), (Ok(1), 0), "legal together");
        assert_eq!(hops(proxies(json!({"port": 6444}))), (Ok(1), 1));
        assert_eq!(hops(json!({"trustedHops": 1, "virtualIPs": ["10.0.0.0/8"]})), (Ok(1), 1));
        assert_eq!(hops(json!({"trustedHops": 5})), (Ok(5), 1));
        assert_eq!(hops(json!({"trustedHops": 16})), (Ok(16), 1));
        let refused = "spec.listener.trustedHops: must be at most 16";
        assert_eq!(hops(json!({"trustedHops": 17})), (Err(refused.to_owned()), 0));
    }
}
