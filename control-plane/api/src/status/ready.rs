use super::condition::Finding;
use super::names::{listed, many};
use super::{ConditionType, Health, Observation, Served, State};

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
    let dead: Vec<_> = reports.iter().filter(|(_, health)| health.healthy == 0).collect();
    if let Some((_, health)) = dead.first() {
        let names = listed(dead.iter().map(|(name, _)| *name));
        let message = format!("no endpoint is healthy at {} of {at} ({names}){}", dead.len(), named(health));
        return finding(State::False, "NoHealthyEndpoints", message);
    }
    let lost = seen.gateways.iter().filter_map(|one| one.lost_subsets.first().map(|health| (one.name, health)));
    let lost: Vec<(&str, &Health)> = lost.collect();
    if let Some((_, health)) = lost.first() {
        let names = listed(lost.iter().map(|(name, _)| *name));
        let message = format!(
            "no server of a policy's upstreamSubset is healthy at {} of {at} ({names}){}",
            lost.len(),
            named(health)
        );
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
                named(health)
            );
            finding(State::True, "SomeUnhealthy", message)
        }
    }
}

/// `: 10.0.0.1:6443 (HealthCheckTimedOut since 2026-01-01T00:00:00Z)`; nothing where no server is named.
fn named(health: &Health) -> String {
    let servers: Vec<_> =
        health.unhealthy.iter().map(|one| format!("{} ({} since {})", one.server, one.reason, one.since)).collect();
    if servers.is_empty() { String::new() } else { format!(": {}", listed(servers.iter().map(String::as_str))) }
}
