use std::fmt::Write;

use portcullis_api::status::ConditionType;

use super::report::Object;
use crate::plain::line;

/// Everything about one cluster.
pub(super) fn render(object: &Object) -> String {
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<13}{}", format!("{name}:"), line(value));
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
    text.push_str("Conditions:\n");
    for condition in &object.status.conditions {
        let (kind, state) = (condition.kind.to_string(), condition.status.to_string());
        let (reason, since) = (line(&condition.reason), line(&condition.last_transition_time.to_string()));
        let _ = writeln!(text, "  {kind:<11} {state:<8} {reason:<18} since {since}");
        // Warnings stand below, one by one.
        let is_accepted = condition.kind == ConditionType::Accepted;
        let message = if is_accepted { &object.message } else { &condition.message };
        if !message.is_empty() {
            let _ = writeln!(text, "    {}", line(message));
        }
    }
    gateways(&mut text, object);
    if !object.warnings.is_empty() {
        text.push_str("Warnings:\n");
        for warning in &object.warnings {
            let _ = writeln!(text, "  {}", line(warning));
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
        let message = gateway.message.as_deref().map(|message| format!(": {}", line(message))).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {}: {}{health}{message}", line(&gateway.name), line(&gateway.state));
        for one in &gateway.unhealthy {
            let (server, reason, since) = (line(&one.server), line(&one.reason), one.since.to_string());
            let _ = writeln!(text, "    {server}: {reason} since {}", line(&since));
        }
    }
    if object.status.more_gateways > 0 {
        let _ = writeln!(text, "  and {} more", object.status.more_gateways);
    }
}
