//! The health of an object's servers at Gateways of the Gateway API. Tenants may run their Envoys: what these report names servers, and
//! decides about `Ready` only of an object that no other Envoy has, and only where all Gateways agree.

use std::collections::BTreeMap;

use super::condition::Finding;
use super::counted::{listed, many};
use super::{ConditionType, Health, State, UnhealthyServer};

/// Most servers that are kept of one Gateway.
const MAX_SERVERS: usize = 16;
/// Most Gateways, and servers of each, that a message names.
const MAX_NAMED: usize = 3;

/// The servers of an object as the Envoys of one Gateway find them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayHealth {
    /// `NAMESPACE/NAME`.
    name: String,
    /// The fewest and the most servers that an Envoy finds healthy; `None` if none reports.
    healthy: Option<(u32, u32)>,
    /// Whether an Envoy finds a server that is not healthy.
    is_ill: bool,
    /// Those servers, as far as they are named, since they were first so.
    unhealthy: BTreeMap<String, UnhealthyServer>,
}

impl GatewayHealth {
    /// A Gateway, as `NAMESPACE/NAME`, whose Envoys have the object. None of them has reported yet.
    pub fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Takes the servers as an Envoy finds them: all of them, or those of a policy's subset.
    pub fn add(&mut self, seen: &Health, are_all: bool) {
        if are_all {
            let (fewest, most) = self.healthy.unwrap_or((seen.healthy, seen.healthy));
            self.healthy = Some((fewest.min(seen.healthy), most.max(seen.healthy)));
        }
        self.is_ill |= seen.healthy < seen.total;
        for one in &seen.unhealthy {
            let has_room = self.unhealthy.len() < MAX_SERVERS;
            match self.unhealthy.get_mut(&one.server) {
                Some(first) if (&one.since, &one.reason) < (&first.since, &first.reason) => *first = one.clone(),
                None if has_room => drop(self.unhealthy.insert(one.server.clone(), one.clone())),
                Some(_) | None => {}
            }
        }
    }

    /// `NAMESPACE/NAME`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its Envoys report, and none of them finds a healthy server.
    pub fn is_dead(&self) -> bool {
        self.healthy.is_some_and(|(_, most)| most == 0)
    }

    /// Whether it says the same as another one but for the names of servers, their times and their numbers: no condition has another
    /// status or reason by it.
    pub fn decides_as(&self, other: &Self) -> bool {
        let decides = |one: &Self| (one.healthy.is_some(), one.is_dead(), one.is_ill());
        self.name == other.name && decides(self) == decides(other)
    }

    fn is_ill(&self) -> bool {
        self.is_ill || self.is_dead()
    }

    fn servers(&self) -> String {
        let one = |one: &UnhealthyServer| format!("{} ({} since {})", one.server, one.reason, one.since);
        let named: Vec<String> = self.unhealthy.values().take(MAX_NAMED).map(one).collect();
        match self.unhealthy.len().saturating_sub(named.len()) {
            0 if named.is_empty() => "servers without a name".to_owned(),
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    }
}

/// The servers that Gateways' Envoys find unhealthy, as the end of a message: Gateways without a healthy one come first. Empty if there is
/// none.
pub fn unhealthy_at(gateways: &[GatewayHealth]) -> String {
    let mut ill: Vec<&GatewayHealth> = gateways.iter().filter(|one| one.is_ill()).collect();
    ill.sort_by_key(|one| !one.is_dead());
    let named = ill.iter().take(MAX_NAMED).map(|one| format!("; unhealthy at Gateway {}: {}", one.name, one.servers()));
    let named: String = named.collect();
    match ill.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named}; and at {}", many(more, "more Gateway")),
    }
}

/// Whether an object that Gateways' Envoys alone have is ready, by these. `None` if none of them reports.
pub(super) fn ready_finding(gateways: &[GatewayHealth]) -> Option<Finding> {
    let finding = |status, reason, message: String| Some(Finding::new(ConditionType::Ready, status, reason, message));
    let reporting = gateways.iter().filter(|one| one.healthy.is_some()).count();
    if reporting == 0 {
        return None;
    }
    let (at, unhealthy) = (many(reporting, "Gateway"), unhealthy_at(gateways));
    let dead: Vec<&str> = gateways.iter().filter(|one| one.is_dead()).map(GatewayHealth::name).collect();
    let names = listed(dead.iter().copied());
    match dead.len() {
        0 if unhealthy.is_empty() => {
            finding(State::True, "EndpointsHealthy", format!("every endpoint is healthy at {at}"))
        }
        0 => finding(State::True, "SomeUnhealthy", format!("some endpoints are not healthy at {at}{unhealthy}")),
        all if all == gateways.len() => {
            finding(State::False, "NoHealthyEndpoints", format!("no endpoint is healthy at {at} ({names}){unhealthy}"))
        }
        some => {
            let all = many(gateways.len(), "Gateway");
            let message =
                format!("no endpoint is healthy at {some} of {all} ({names}), which others do not confirm{unhealthy}");
            finding(State::Unknown, "GatewaysDiffer", message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClusterStatus, Gateway, GatewayProgress, Served, StatusInput, Timestamp};
    use super::*;

    fn server(server: &str, since: u64) -> UnhealthyServer {
        let reason = "HealthCheckFailed".to_owned();
        UnhealthyServer { server: server.to_owned(), reason, since: Timestamp::from_seconds(since) }
    }

    fn health(healthy: u32, total: u32, unhealthy: &[&str]) -> Health {
        Health { healthy, total, unhealthy: unhealthy.iter().map(|one| server(one, 0)).collect() }
    }

    fn gateway(name: &str, envoys: &[Health]) -> GatewayHealth {
        let mut found = GatewayHealth::new(name.to_owned());
        envoys.iter().for_each(|seen| found.add(seen, true));
        found
    }

    fn ready(own: Option<Option<Health>>, at_gateways: Vec<GatewayHealth>) -> String {
        let progress = GatewayProgress::Acknowledged;
        let own = own.map(|health| Gateway { name: "own", progress, health, lost_subsets: Vec::new() });
        let gateways = own.into_iter().collect();
        let seen = StatusInput { served: Served::Newest, gateways, at_gateways, ..StatusInput::default() };
        let status = ClusterStatus::of(&seen, &[], &Timestamp::from_seconds(0));
        let ready = status.condition(ConditionType::Ready).unwrap();
        format!("{} {} {}", ready.status, ready.reason, ready.message)
    }

    const SINCE: &str = "HealthCheckFailed since 1970-01-01T00:00:00Z";

    #[test]
    fn gateways_decide_about_objects_that_they_alone_have() {
        let (good, lame, dead) = (|| health(2, 2, &[]), || health(1, 2, &["a:1"]), || health(0, 2, &["a:1", "b:1"]));
        let (edge, own) = (|seen: Health| gateway("infra/edge", &[seen]), |seen: Health| gateway("team/own", &[seen]));
        let silent = || GatewayHealth::new("team/silent".to_owned());
        let both = format!("unhealthy at Gateway infra/edge: a:1 ({SINCE}), b:1 ({SINCE})");
        for (gateways, expected) in [
            (vec![], "Unknown NoReport no gateway reports the health of its endpoints".to_owned()),
            (vec![silent()], "Unknown NoReport no gateway reports the health of its endpoints".to_owned()),
            (vec![edge(good())], "True EndpointsHealthy every endpoint is healthy at 1 Gateway".to_owned()),
            (
                vec![edge(lame()), own(good())],
                format!(
                    "True SomeUnhealthy some endpoints are not healthy at 2 Gateways; unhealthy at Gateway infra/edge: a:1 ({SINCE})"
                ),
            ),
            (
                vec![edge(dead())],
                format!("False NoHealthyEndpoints no endpoint is healthy at 1 Gateway (infra/edge); {both}"),
            ),
            // One of them may be another tenant's, and say what it likes.
            (
                vec![edge(dead()), own(good())],
                format!(
                    "Unknown GatewaysDiffer no endpoint is healthy at 1 of 2 Gateways (infra/edge), which others do not confirm; {both}"
                ),
            ),
            (
                vec![edge(dead()), silent()],
                format!(
                    "Unknown GatewaysDiffer no endpoint is healthy at 1 of 2 Gateways (infra/edge), which others do not confirm; {both}"
                ),
            ),
            (
                vec![gateway("infra/edge", &[dead(), good()])],
                format!("True SomeUnhealthy some endpoints are not healthy at 1 Gateway; {both}"),
            ),
        ] {
            assert_eq!(ready(None, gateways), expected);
        }
    }

    #[test]
    fn gateways_never_decide_where_another_envoy_has_the_object() {
        let dead = || gateway("infra/edge", &[health(0, 1, &["a:1"])]);
        let named = format!("; unhealthy at Gateway infra/edge: a:1 ({SINCE})");
        for (own, expected) in [
            (None, "Unknown NoReport no gateway reports the health of its endpoints"),
            (Some(health(1, 1, &[])), "True EndpointsHealthy every endpoint is healthy at 1 gateway"),
        ] {
            assert_eq!(ready(Some(own.clone()), vec![dead()]), format!("{expected}{named}"));
            assert_eq!(ready(Some(own), vec![gateway("infra/edge", &[health(1, 1, &[])])]), expected);
        }
        let found = ready(Some(Some(health(0, 1, &[]))), vec![gateway("infra/edge", &[health(1, 1, &[])])]);
        assert!(found.starts_with("False NoHealthyEndpoints"), "{found}");
    }

    #[test]
    fn servers_and_gateways_of_a_message_are_bounded() {
        let names: Vec<String> = (0..100).map(|number| format!("10.0.0.{number:03}:1")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let many = |name: String| gateway(&name, &[health(1, 101, &names)]);
        let mut all: Vec<GatewayHealth> = (0..9).map(|number| many(format!("infra/e{number}"))).collect();
        assert!(all.iter().all(|one| one.unhealthy.len() == MAX_SERVERS));
        all.push(gateway("team/dead", &[health(0, 1, &[])]));
        let found = unhealthy_at(&all);
        assert!(found.starts_with("; unhealthy at Gateway team/dead: servers without a name; unhealthy"), "{found}");
        assert!(found.contains("10.0.0.002:1") && !found.contains("10.0.0.003:1"), "{found}");
        assert!(found.contains(" and 13 more") && found.ends_with("; and at 7 more Gateways"), "{found}");
    }

    #[test]
    fn server_is_unhealthy_since_an_envoy_found_it_first() {
        let at = |since| Health { healthy: 0, total: 1, unhealthy: vec![server("a:1", since)] };
        let mut found = GatewayHealth::new("infra/edge".to_owned());
        [at(60), at(0), at(90)].iter().for_each(|seen| found.add(seen, false));
        assert_eq!(found.servers(), format!("a:1 ({SINCE})"));
        assert!(!found.is_dead(), "a subset is not all servers");
    }
}
