//! The condition of a route that lists the host names that it holds. A control plane that starts reads it: names stay where they are.

use std::collections::BTreeMap;

use crate::claim_rights::{Holder, Site};
use crate::claims::HostClaims;
use crate::condition::ConditionVerdict;
use crate::gateway::JudgedGateway;
use crate::held_list::{HOSTNAMES_HELD, ListedAtPort, message};
use crate::host::HostPattern;
use crate::route::Attachment;

/// The condition of a route at a parent, by the indices of route and Gateway. Without host names that could be its own there is none.
/// `is_cut` is whether the attachment may be without some that the route claims.
pub(crate) fn held(
    (route, gateway_index): (usize, usize),
    (attachment, is_cut): (&Attachment, bool),
    gateways: &[JudgedGateway<'_>],
    claims: &HostClaims<'_>,
) -> Option<ConditionVerdict> {
    let gateway = gateways.get(gateway_index)?;
    let mut ports: BTreeMap<u16, ListedAtPort<'_>> = BTreeMap::new();
    let mut has_all = true;
    for (index, hosts) in attachment {
        let Some(port) = gateway.leading_port(*index) else { continue };
        for host in hosts.iter().filter(|host| **host != HostPattern::Any) {
            let names = ports.entry(port).or_default();
            match held_site(route, (gateway_index, *index, host.clone()), claims) {
                Some(site) => drop(names.insert((!claims.is_held_before(&site), host))),
                None => has_all = false,
            }
        }
    }
    let (status, reason) = match (has_all, is_cut) {
        (true, false) => (true, "Held"),
        (true, true) => (false, "TooManyHostnames"),
        (false, _) => (false, "HeldByOthers"),
    };
    // Its message is longer than others.
    let condition = || ConditionVerdict { kind: HOSTNAMES_HELD, status, reason, message: message(&ports) };
    (!ports.is_empty()).then(condition)
}

/// The place at which a route holds a name: a listener, or the narrower one that has it.
fn held_site(route: usize, site: Site, claims: &HostClaims<'_>) -> Option<Site> {
    let site = match claims.holders.get(&site)? {
        Holder::Listener(narrower) => (site.0, *narrower, site.2),
        Holder::Route(_) | Holder::Wider(_) | Holder::Cluster(_) => site,
    };
    (claims.holders.get(&site) == Some(&Holder::Route(route))).then_some(site)
}
