use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Findings;
use super::address_policy::check_address;
use super::endpoint::{Endpoint, parse_endpoint};
use super::labels::is_label_value;
use crate::bounds::MAX_SERVER_WEIGHT;
use crate::types::{ServerDetails, UpstreamClusterSpec};

/// The weight of a server that is given none.
pub(super) const WITHOUT_WEIGHT: u32 = 1;

/// A kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The address of the server.
    pub endpoint: Endpoint,
    /// Whether it takes requests.
    pub enabled: bool,
    /// The zone of the server; empty if it is not known.
    pub zone: String,
    /// Its share of the requests, in proportion to those of the others: at least 1, which is that of a server without one.
    pub weight: u32,
    /// Whether it is of `spec.portcullis.discovery`, and not of `spec.servers`.
    pub discovered: bool,
}

impl Server {
    /// Whether it has another weight than servers that are given none.
    pub fn has_weight(&self) -> bool {
        self.weight != WITHOUT_WEIGHT
    }
}

/// The servers, each endpoint once, sorted. An endpoint that is listed twice is enabled only if both entries are.
pub(super) fn check_servers(spec: &UpstreamClusterSpec, allow_loopback: bool, findings: &mut Findings) -> Vec<Server> {
    let (raw, discovery) = (&spec.servers, spec.portcullis.discovery.as_ref());
    if raw.is_empty() && discovery.is_none_or(|discovery| discovery.service.is_none() && discovery.srv_record.is_none())
    {
        findings.problem("spec.servers", "at least one server is required");
    }
    let mut servers: BTreeMap<Endpoint, bool> = BTreeMap::new();
    for (index, server) in raw.iter().enumerate() {
        let path = format!("spec.servers[{index}].endpoint");
        let parsed = match parse_endpoint(&server.endpoint) {
            Ok(parsed) => parsed,
            Err(error) => {
                findings.problem(path, error.to_string());
                continue;
            }
        };
        if let Err(error) = check_address(&parsed.endpoint.host, allow_loopback) {
            findings.problem(path, error.to_string());
            continue;
        }
        if parsed.had_path {
            findings.warning(path.clone(), "the path is ignored");
        }
        let enabled = !server.disabled.unwrap_or(false);
        let known = servers.insert(parsed.endpoint.clone(), enabled);
        if let Some(before) = known {
            findings.warning(path, "is listed twice");
            servers.insert(parsed.endpoint, enabled && before);
        }
    }
    if discovery.is_none() && !servers.is_empty() && !servers.values().any(|enabled| *enabled) {
        findings.warning("spec.servers", "every server is disabled: requests are answered 503");
    }
    let server = |(endpoint, enabled)| Server {
        endpoint,
        enabled,
        zone: String::new(),
        weight: WITHOUT_WEIGHT,
        discovered: false,
    };
    servers.into_iter().map(server).collect()
}

/// Puts what `spec.portcullis.servers` says of them into the servers.
pub(super) fn check_details(raw: &[ServerDetails], servers: &mut [Server], findings: &mut Findings) {
    let mut found: BTreeMap<Endpoint, &ServerDetails> = BTreeMap::new();
    for (index, details) in raw.iter().enumerate() {
        let path = format!("spec.portcullis.servers[{index}]");
        if !is_label_value(&details.zone) {
            let message = "must be letters, digits, - _ and . between letters or digits, up to 63";
            findings.problem(format!("{path}.zone"), message);
        }
        check_weight(details.weight, &path, findings);
        let known = parse_endpoint(&details.endpoint).ok().map(|parsed| parsed.endpoint);
        let known = known.filter(|endpoint| servers.iter().any(|server| server.endpoint == *endpoint));
        match known {
            None => findings.problem(format!("{path}.endpoint"), "is not an endpoint of spec.servers"),
            Some(endpoint) if found.insert(endpoint.clone(), details).is_some() => {
                findings.problem(format!("{path}.endpoint"), "is listed twice");
            }
            Some(_) => {}
        }
    }
    for server in servers {
        let Some(details) = found.get(&server.endpoint) else { continue };
        server.zone.clone_from(&details.zone);
        server.weight = details.weight.unwrap_or(WITHOUT_WEIGHT);
    }
}

fn check_weight(weight: Option<u32>, path: &str, findings: &mut Findings) {
    if weight.is_some_and(|weight| !(1..=MAX_SERVER_WEIGHT).contains(&weight)) {
        let message = format!("must be from 1 to {MAX_SERVER_WEIGHT}");
        let hint = "disabled: true in spec.servers takes a server out of balancing".to_owned();
        findings.problem_with_hint(format!("{path}.weight"), &message, hint);
    }
}

/// The addresses, each once.
pub(super) fn check_virtual_ips(raw: &[String], findings: &mut Findings) -> Vec<IpAddr> {
    let mut addresses = Vec::with_capacity(raw.len());
    for (index, text) in raw.iter().enumerate() {
        match virtual_ip(text) {
            Some(ip) if !addresses.contains(&ip) => addresses.push(ip),
            Some(_) => {}
            None => {
                let path = format!("spec.portcullis.virtualIPs[{index}]");
                findings.problem(path, "must be the IP address of one machine");
            }
        }
    }
    addresses
}

/// An address to which a client can connect.
pub(crate) fn virtual_ip(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    let ip = ip.to_canonical();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    (!ip.is_unspecified() && !ip.is_multicast() && !is_broadcast).then_some(ip)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Checked, Cluster, check_cluster};
    use crate::problem::Problem;
    use crate::{MAX_SERVERS, parse_cluster};

    const HINT: &str = "(hint: disabled: true in spec.servers takes a server out of balancing)";

    fn check(policies: &Value, ours: &Value) -> Checked<Cluster> {
        let servers = json!([{"endpoint": "https://10.0.0.1"}, {"endpoint": "https://10.0.0.2", "disabled": true}]);
        let document = json!({
            "apiVersion": crate::CLUSTER_API_VERSION, "kind": crate::CLUSTER_KIND, "metadata": {"name": "a.test"},
            "spec": {
                "servers": servers, "dispatchPolicies": policies, "portcullis": ours,
                "clientConfig": {"insecure": true, "bearerToken": "YQ=="},
            },
        });
        check_cluster(&parse_cluster(&document).unwrap(), false)
    }

    fn everything(strategy: &str) -> Value {
        let rule = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]});
        json!({"rules": [rule], "strategy": strategy})
    }

    fn weight(weight: &Value) -> Value {
        json!({"servers": [{"endpoint": "https://10.0.0.1", "weight": weight}]})
    }

    #[test]
    fn weight_is_read_within_its_bounds() {
        let policies = json!([everything("")]);
        for (written, wanted) in [(json!(null), 1), (json!(1), 1), (json!(7), 7), (json!(128), 128)] {
            let servers = check(&policies, &weight(&written)).outcome.unwrap().servers;
            let weights: Vec<_> = servers.iter().map(|server| (server.weight, server.has_weight())).collect();
            assert_eq!(weights, [(wanted, wanted != 1), (1, false)], "{written}");
        }
        for written in [0, 129, u32::MAX] {
            let problems = check(&policies, &weight(&json!(written))).outcome.unwrap_err();
            let problems: Vec<_> = problems.iter().map(Problem::to_string).collect();
            assert_eq!(
                problems,
                [format!("spec.portcullis.servers[0].weight: must be from 1 to 128 {HINT}")],
                "{written}"
            );
        }
        // Envoy refuses endpoints whose weights exceed this together.
        assert!(MAX_SERVERS * 128 < usize::try_from(u32::MAX).unwrap());
    }

    #[test]
    fn strategies_without_weights_are_named() {
        let by_load = everything("LeastRequest");
        let mut shadow = by_load.clone();
        shadow["portcullis"] = json!({"mode": "Shadow"});
        let policies = json!([everything("RoundRobin"), by_load, shadow, everything("Random"), everything("")]);
        let warned = |ours: &Value| {
            let warnings = check(&policies, ours).warnings;
            let of_weights = warnings.into_iter().filter(|warning| warning.message.contains("weights"));
            of_weights.map(|warning| warning.path).collect::<Vec<_>>()
        };
        let wanted = [1, 2, 3].map(|index| format!("spec.dispatchPolicies[{index}].strategy"));
        assert_eq!(warned(&weight(&json!(3))), wanted);
        assert_eq!(warned(&weight(&json!(1))), [""; 0]);
        assert_eq!(warned(&json!({})), [""; 0]);
        let mut passed_on = weight(&json!(3));
        passed_on["transport"] = json!("TLSPassthrough");
        assert_eq!(warned(&passed_on), [""; 0], "no policy has an effect there");
    }
}
