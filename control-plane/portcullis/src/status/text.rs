//! The status as text: a table of all objects, or everything about one.

use std::fmt::Write;

use portcullis_api::status::ConditionType;

use super::report::{Object, StatusReport};
use crate::display_text::one_line;
use crate::table::aligned;

/// Most characters of a message in a table.
const MAX_MESSAGE: usize = 100;

/// A table of the clusters, one of what else is not accepted, and one line about the gateways.
pub(super) fn table(report: &StatusReport, wide: bool) -> String {
    let clusters: Vec<&Object> = report.objects.iter().filter(|object| object.is_cluster()).collect();
    let mut text = if clusters.is_empty() {
        "No UpstreamCluster found.\n".to_owned()
    } else {
        let mut rows = vec![head(wide)];
        rows.extend(clusters.into_iter().map(|object| row(object, wide)));
        aligned(&rows, &[])
    };
    let others: Vec<&Object> =
        report.objects.iter().filter(|object| !object.is_cluster() && (wide || !object.accepted)).collect();
    if !others.is_empty() {
        let mut rows = vec![["KIND", "NAME", "ACCEPTED", "MESSAGE"].map(str::to_owned).to_vec()];
        rows.extend(others.into_iter().map(|object| {
            let place = object.at.as_deref().unwrap_or(&object.name);
            vec![object.kind.clone(), one_line(place), accepted(object), short(object.headline())]
        }));
        text.push('\n');
        text.push_str(&aligned(&rows, &[]));
    }
    let connected = report.nodes.iter().filter(|node| node.connected);
    let (all, synced) = (connected.clone().count(), connected.filter(|node| node.in_sync).count());
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\nGateways: {all} connected, {synced} with everything acknowledged");
    if let Some(since) = &report.source.stale_since {
        let why = report.source.reason.as_deref().unwrap_or("unknown");
        let _ = writeln!(text, "The source is stale since {}: {}", one_line(since), one_line(why));
    }
    if wide {
        for node in &report.nodes {
            let state = if node.connected { "connected" } else { "gone" };
            let _ = writeln!(text, "  {} {state}", one_line(&node.id));
        }
    }
    text
}

fn head(wide: bool) -> Vec<String> {
    let short = ["NAME", "ACCEPTED", "PROGRAMMED", "READY"].map(str::to_owned);
    let more = ["REASONS", "GENERATION", "CONTENT", "AT"].map(str::to_owned);
    let more = more.into_iter().filter(|_| wide);
    short.into_iter().chain(more).chain(["MESSAGE".to_owned()]).collect()
}

fn row(object: &Object, wide: bool) -> Vec<String> {
    let kinds = [ConditionType::Accepted, ConditionType::Programmed, ConditionType::Ready];
    let condition = |kind| object.status.condition(kind);
    let state = |kind| condition(kind).map_or_else(|| "-".to_owned(), |one| one.status.to_string());
    let mut row = vec![one_line(&object.name)];
    row.extend(kinds.map(state));
    if wide {
        let reasons = kinds.into_iter().filter_map(condition).map(|one| one_line(&one.reason)).collect::<Vec<_>>();
        row.push(reasons.join(","));
        row.push(object.status.observed_generation.map_or_else(|| "-".to_owned(), |number| number.to_string()));
        let hash = object.status.content_hash.as_deref().unwrap_or("-");
        row.push(one_line(hash.get(..12).unwrap_or(hash)));
        row.push(one_line(object.at.as_deref().unwrap_or("-")));
    }
    row.push(short(object.headline()));
    row
}

fn accepted(object: &Object) -> String {
    if object.accepted { "True" } else { "False" }.to_owned()
}

fn short(message: &str) -> String {
    let message = one_line(message);
    if message.chars().count() <= MAX_MESSAGE {
        return message;
    }
    message.chars().take(MAX_MESSAGE - 1).chain(['…']).collect()
}

/// Everything about one cluster or instance.
pub(super) fn detail(object: &Object) -> String {
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<13}{}", format!("{name}:"), one_line(value));
    };
    field("Name", &object.name);
    if let Some(at) = &object.at {
        field("At", at);
    }
    if let Some(generation) = object.status.observed_generation {
        field("Generation", &generation.to_string());
    }
    if let Some(hash) = &object.status.content_hash {
        field("Content", hash);
    }
    if let Some(counts) = &object.counts {
        field("Gateways", &counts.gateways.to_string());
        field("Clusters", &counts.clusters.to_string());
        field("Envoys", &counts.envoys.to_string());
        field("Of Gateways", &counts.gateway_envoys.to_string());
    }
    text.push_str("Conditions:\n");
    for condition in &object.status.conditions {
        let (kind, state) = (condition.kind.to_string(), condition.status.to_string());
        let (reason, since) = (one_line(&condition.reason), one_line(&condition.last_transition_time.to_string()));
        let _ = writeln!(text, "  {kind:<11} {state:<8} {reason:<18} since {since}");
        // Warnings are listed below.
        let is_accepted = condition.kind == ConditionType::Accepted;
        let message = if is_accepted && object.is_cluster() { &object.message } else { &condition.message };
        if !message.is_empty() {
            let _ = writeln!(text, "    {}", one_line(message));
        }
    }
    gateways(&mut text, object);
    if !object.warnings.is_empty() {
        text.push_str("Warnings:\n");
        for warning in &object.warnings {
            let _ = writeln!(text, "  {}", one_line(warning));
        }
    }
    text
}

fn gateways(text: &mut String, object: &Object) {
    if object.status.gateways.is_empty() {
        return;
    }
    text.push_str("Gateways:\n");
    for gateway in &object.status.gateways {
        let health = match (gateway.healthy_endpoints, gateway.endpoints) {
            (Some(healthy), Some(total)) => format!(", {healthy} of {total} endpoints healthy"),
            _ => String::new(),
        };
        let message = gateway.message.as_deref().map(|message| format!(": {}", one_line(message))).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {}: {}{health}{message}", one_line(&gateway.name), one_line(&gateway.state));
        for one in &gateway.unhealthy {
            let (server, reason, since) = (one_line(&one.server), one_line(&one.reason), one.since.to_string());
            let _ = writeln!(text, "    {server}: {reason} since {}", one_line(&since));
        }
    }
    if object.status.more_gateways > 0 {
        let _ = writeln!(text, "  and {} more", object.status.more_gateways);
    }
}
