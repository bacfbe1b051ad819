use std::collections::BTreeMap;

use super::Findings;
use super::endpoint::{Endpoint, parse_endpoint};
use super::servers::Server;
use crate::types::ServerDetails;

/// Longest name of a zone, as of a label's value.
pub(crate) const MAX_ZONE: usize = 63;

/// Puts what `spec.portcullis.servers` says of them into the servers.
pub(super) fn check_details(raw: &[ServerDetails], servers: &mut [Server], findings: &mut Findings) {
    let mut zones: BTreeMap<Endpoint, &str> = BTreeMap::new();
    for (index, details) in raw.iter().enumerate() {
        let path = format!("spec.portcullis.servers[{index}]");
        if !is_zone(&details.zone) {
            let message = "must be letters, digits, - _ and . between letters or digits, up to 63";
            findings.problem(format!("{path}.zone"), message);
        }
        let known = parse_endpoint(&details.endpoint).ok().map(|parsed| parsed.endpoint);
        let known = known.filter(|endpoint| servers.iter().any(|server| server.endpoint == *endpoint));
        match known {
            None => findings.problem(format!("{path}.endpoint"), "is not an endpoint of spec.servers"),
            Some(endpoint) if zones.insert(endpoint.clone(), &details.zone).is_some() => {
                findings.problem(format!("{path}.endpoint"), "is listed twice");
            }
            Some(_) => {}
        }
    }
    for server in servers {
        server.zone = zones.get(&server.endpoint).map(|zone| (*zone).to_owned()).unwrap_or_default();
    }
}

fn is_zone(text: &str) -> bool {
    let ends = |c: u8| c.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    text.len() <= MAX_ZONE
        && bytes.iter().all(|c| ends(*c) || b"-_.".contains(c))
        && [bytes.first(), bytes.last()].into_iter().flatten().all(|c| ends(*c))
}
