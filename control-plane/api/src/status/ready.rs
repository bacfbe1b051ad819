use super::condition::Finding;
use super::names::{listed, many};
use super::{ConditionType, Health, Observation, Served, State};

/// Whether every gateway that reports has a healthy endpoint.
pub(super) fn finding(seen: &Observation<'_>) -> Finding {
    let finding = |status, reason, message: String| Finding::new(ConditionType::Ready, status, reason, message);
    if seen.served == Served::Nothing {
        return finding(State::False, "NotAccepted", "nothing of it is served, because it is not accepted".to_owned());
    }
    let reports: Vec<(&str, Health)> =
        seen.gateways.iter().filter_map(|one| one.health.map(|health| (one.name, health))).collect();
    if reports.is_empty() {
        return finding(State::Unknown, "NoReport", "no gateway reports the health of its endpoints".to_owned());
    }
    let at = many(reports.len(), "gateway");
    if reports.iter().all(|(_, health)| health.total == 0) {
        return finding(State::False, "NoHealthyEndpoints", "no server is enabled".to_owned());
    }
    let dead: Vec<&str> = reports.iter().filter(|(_, health)| health.healthy == 0).map(|(name, _)| *name).collect();
    if !dead.is_empty() {
        let message = format!("no endpoint is healthy at {} of {at} ({})", dead.len(), listed(dead.iter().copied()));
        return finding(State::False, "NoHealthyEndpoints", message);
    }
    let lame: Vec<_> = reports.iter().filter(|(_, health)| health.healthy < health.total).collect();
    match lame.iter().min_by_key(|(_, health)| health.healthy) {
        None => finding(State::True, "EndpointsHealthy", format!("every endpoint is healthy at {at}")),
        Some((name, health)) => {
            let message = format!(
                "some endpoints are not healthy at {} of {at}; {name} has {} of {}",
                lame.len(),
                health.healthy,
                health.total
            );
            finding(State::True, "SomeUnhealthy", message)
        }
    }
}
