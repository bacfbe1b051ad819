//! The conditions Accepted, Programmed and Ready, each from an [`StatusInput`]: the diagnosis of the object, and the progress and
//! health of each gateway.

use std::collections::{BTreeMap, BTreeSet};

use super::condition::Finding;
use super::counted::{listed, many};
use super::{
    Acceptance, ConditionType, Gateway, GatewayProgress, Health, Served, State, StatusInput, UnhealthyServer,
    gateway_health, unhealthy_at,
};
use crate::kind::PolicyKind;

/// Whether every gateway that is connected has acknowledged what the object says.
pub(super) fn programmed_finding(seen: &StatusInput<'_>) -> Finding {
    let finding = |status, reason, message| Finding::new(ConditionType::Programmed, status, reason, message);
    if seen.served == Served::Nothing {
        return finding(State::False, "NotAccepted", "it is not served, because it is not accepted".to_owned());
    }
    let version = version(seen);
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        seen.gateways.iter().partition(|one| one.progress != GatewayProgress::Elsewhere);
    let others = match elsewhere.len() {
        0 => String::new(),
        count => format!("; not known of {} of other replicas ({})", many(count, "gateway"), names(&elsewhere)),
    };
    if here.is_empty() && elsewhere.is_empty() {
        return finding(State::False, "NoGateways", format!("{version}: no gateway is connected"));
    }
    if here.is_empty() {
        let message = format!("{version}: no gateway is connected to the replica that writes this{others}");
        return finding(State::Unknown, "OtherReplicas", message);
    }
    let refusing: Vec<_> = here.iter().filter_map(|one| refusal(one)).collect();
    if let Some((_, message)) = refusing.first() {
        let (count, of, names) = (refusing.len(), here.len(), listed(refusing.iter().map(|(name, _)| *name)));
        let message =
            format!("{version}: refused by {count} of {of} ({names}), which keeps what it had: {message}{others}");
        return finding(State::False, "Refused", message);
    }
    let waiting: Vec<_> = here.iter().filter(|one| one.progress == GatewayProgress::Pending).copied().collect();
    if !waiting.is_empty() {
        let message =
            format!("{version}: waiting for {} ({}){others}", many(waiting.len(), "gateway"), names(&waiting));
        return finding(State::False, "Pending", message);
    }
    let message = format!("{version}: acknowledged by {} ({}){others}", many(here.len(), "gateway"), names(&here));
    match seen.served {
        Served::Older(_) => finding(State::False, "OlderVersion", message),
        _ => finding(State::True, "Programmed", message),
    }
}

fn names(gateways: &[&Gateway<'_>]) -> String {
    listed(gateways.iter().map(|one| one.name))
}

/// Which version the gateways are asked about.
fn version(seen: &StatusInput<'_>) -> String {
    let hash = seen.content_hash;
    let generation = |number: Option<i64>| number.map(|number| format!(" (generation {number})")).unwrap_or_default();
    match seen.served {
        Served::Older(number) => {
            let older = generation(number);
            format!("the version that was accepted last{older} is served, content {hash}")
        }
        _ => match seen.generation {
            Some(number) => format!("generation {number}, content {hash}"),
            None => format!("content {hash}"),
        },
    }
}

fn refusal<'a>(gateway: &'a Gateway<'_>) -> Option<(&'a str, &'a str)> {
    match &gateway.progress {
        GatewayProgress::Refused { message } => Some((gateway.name, message)),
        _ => None,
    }
}

/// The policies of a kind that are attached to an object.
pub(super) fn affected_finding(kind: PolicyKind, which: &str) -> Finding {
    let kind = match kind {
        PolicyKind::Dispatch => ConditionType::DispatchPolicyAffected,
        PolicyKind::FlowControl => ConditionType::FlowControlPolicyAffected,
        PolicyKind::UpstreamIdentity => ConditionType::UpstreamIdentityPolicyAffected,
    };
    Finding::new(kind, State::True, "PolicyAffected", which)
}

/// Whether an object is valid and owns its names, with its warnings.
pub(super) fn accepted_finding(acceptance: &Acceptance<'_>) -> Finding {
    let status = if acceptance.accepted { State::True } else { State::False };
    let mut message = acceptance.message.to_owned();
    for warning in acceptance.warnings {
        message.push_str(if message.is_empty() { "warning: " } else { "; warning: " });
        message.push_str(warning);
    }
    Finding::new(ConditionType::Accepted, status, acceptance.reason, message)
}

/// The one condition of an object that is no `UpstreamCluster`: of settings, or of a file.
pub fn accepted(
    acceptance: &Acceptance<'_>,
    generation: Option<i64>,
    before: &[super::Condition],
    now: &super::Timestamp,
) -> super::Condition {
    accepted_finding(acceptance).stamp(generation, before, now)
}

/// Whether every gateway that reports has a healthy endpoint: among all servers ([`Gateway::health`]), and in the subset of each
/// policy that has one ([`Gateway::lost_subsets`]). Envoys of Gateways decide about what no other one has.
pub(super) fn ready_finding(seen: &StatusInput<'_>) -> Finding {
    if seen.served == Served::Nothing {
        let message = "it is not served, because it is not accepted";
        return Finding::new(ConditionType::Ready, State::False, "NotAccepted", message);
    }
    let alone = seen.gateways.is_empty().then(|| gateway_health::ready_finding(&seen.at_gateways)).flatten();
    alone.unwrap_or_else(|| own_ready_finding(seen).with(&unhealthy_at(&seen.at_gateways)))
}

fn own_ready_finding(seen: &StatusInput<'_>) -> Finding {
    let finding = |status, reason, message: String| Finding::new(ConditionType::Ready, status, reason, message);
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
        let mut message = format!("no endpoint is healthy at {} of {at} ({names}){}", dead.len(), named(": "));
        if dead.len() == reports.len() {
            message.push_str("; to bring them back without all clients at once: portcullis freeze --stage heartbeats");
        }
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

/// The servers that gateways name, each once, after the text `before`: `10.0.0.1:6443 (HealthCheckTimedOut since
/// 2026-01-01T00:00:00Z, at 2 of 3 gateways)`, with the reason of the gateway that saw it first. The count is left out if only
/// one gateway reports. Empty if no server is named.
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
    let named = servers.values().map(|(first, names)| {
        let places = if reporting > 1 { format!(", at {} of {of}", names.len()) } else { String::new() };
        format!("{} ({} since {}{places})", first.server, first.reason, first.since)
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { String::new() } else { format!("{before}{}", listed(named.iter().map(String::as_str))) }
}
