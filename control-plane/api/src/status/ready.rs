use std::collections::{BTreeMap, BTreeSet};

use super::condition::Finding;
use super::names::{listed, many};
use super::{ConditionType, Gateway, Health, Observation, Served, State, UnhealthyServer};

/// Whether every gateway that reports has a healthy endpoint, for each policy.
pub(super) fn finding(seen: &Observation<'_>) -> Finding {
    let finding = |status, reason, message: String| Finding::new(ConditionType::Ready, status, reason, message);
    if seen.served == Served::Nothing {
        return finding(State::False, "NotAccepted", "nothing of it is served, because it is not accepted".to_owned());
    }
    let reports: Vec<(&str, &Health)> =
        seen.gateways.iter().filter_map(|one| one.health.as_ref().map(|health| (one.name, health))).collect();
    if reports.is_empty() {
        return finding(State::Unknown, "NoReport", "no gateway reports the health of its endpoints".to_owned());
    }
    let at = many(reports.len(), "gateway");
    if reports.iter().all(|(_, health)| health.total == 0) {
        return finding(State::False, "NoHealthyEndpoints", "no server is enabled".to_owned());
    }
    let named = |before| named(before, &seen.gateways, reports.len());
    let dead: Vec<&str> = reports.iter().filter(|(_, health)| health.healthy == 0).map(|(name, _)| *name).collect();
    if !dead.is_empty() {
        let names = listed(dead.iter().copied());
        let message = format!("no endpoint is healthy at {} of {at} ({names}){}", dead.len(), named(": "));
        return finding(State::False, "NoHealthyEndpoints", message);
    }
    let is_lost = |one: &&Gateway<'_>| !one.lost_subsets.is_empty();
    let lost: Vec<&Gateway<'_>> = seen.gateways.iter().filter(is_lost).collect();
    if !lost.is_empty() {
        let is_empty = lost.iter().flat_map(|one| &one.lost_subsets).all(|health| health.total == 0);
        let message = if is_empty {
            format!("no server of a policy's upstreamSubset is enabled{}", named("; unhealthy: "))
        } else {
            let names = listed(lost.iter().map(|one| one.name));
            format!(
                "no server of a policy's upstreamSubset is healthy at {} of {at} ({names}){}",
                lost.len(),
                named(": ")
            )
        };
        return finding(State::False, "SubsetUnhealthy", message);
    }
    let lame: Vec<_> = reports.iter().filter(|(_, health)| health.healthy < health.total).collect();
    match lame.iter().min_by_key(|(_, health)| health.healthy) {
        None => finding(State::True, "EndpointsHealthy", format!("every endpoint is healthy at {at}")),
        Some((name, health)) => {
            let message = format!(
                "some endpoints are not healthy at {} of {at}; {name} has {} of {}{}",
                lame.len(),
                health.healthy,
                health.total,
                named("; unhealthy: ")
            );
            finding(State::True, "SomeUnhealthy", message)
        }
    }
}

/// The servers that gateways name, each once, behind `before`: `10.0.0.1:6443 (HealthCheckTimedOut since
/// 2026-01-01T00:00:00Z, at 2 of 3 gateways)`, with the reason of the gateway that saw it first. Of `reporting` gateways only one needs no count. Nothing
/// where no server is named.
fn named(before: &str, gateways: &[Gateway<'_>], reporting: usize) -> String {
    let mut servers: BTreeMap<&str, (&UnhealthyServer, BTreeSet<&str>)> = BTreeMap::new();
    for gateway in gateways {
        for one in gateway.health.iter().chain(&gateway.lost_subsets).flat_map(|health| &health.unhealthy) {
            let (first, names) = servers.entry(&one.server).or_insert_with(|| (one, BTreeSet::new()));
            if (&one.since, &one.reason) < (&first.since, &first.reason) {
                *first = one;
            }
            names.insert(gateway.name);
        }
    }
    let of = many(reporting, "gateway");
    let told = servers.values().map(|(first, names)| {
        let places = if reporting > 1 { format!(", at {} of {of}", names.len()) } else { String::new() };
        format!("{} ({} since {}{places})", first.server, first.reason, first.since)
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { String::new() } else { format!("{before}{}", listed(told.iter().map(String::as_str))) }
}
