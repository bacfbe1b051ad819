//! Everything about one cluster.

use std::fmt::Write;

use portcullis_api::status::Timestamp;
use portcullis_filter_config::activity::Talker;

use super::fleet_text::word;
use super::gateway_traffic::gateway_traffic;
use super::numbers::{bytes, duration, percent, rate};
use crate::display_text::one_line;
use crate::serve::fleet::view::{CertificateView, ClusterView, LimitView, PolicyView, ServerView};
use crate::table::aligned;

/// Most changes of conditions that are printed.
const MAX_TRANSITIONS: usize = 5;

pub(super) fn detail(view: &ClusterView) -> String {
    let mut text = head(view);
    section(&mut text, servers(&view.servers), &[2, 3, 4, 5, 6, 7, 8]);
    section(&mut text, policies(&view.policies), &[1]);
    text.push_str(&gateway_traffic(&view.at_gateways));
    section(&mut text, limits(&view.limits), &[2, 3, 4, 5]);
    if let Some(top) = &view.top {
        for (kind, talkers) in [("USER", &top.users), ("GROUP", &top.groups), ("USER AGENT", &top.user_agents)] {
            section(&mut text, clients(kind, talkers), &[1, 2, 3, 4]);
        }
    }
    section(&mut text, certificates(&view.certificates), &[2]);
    conditions(&mut text, view);
    text
}

fn head(view: &ClusterView) -> String {
    let (summary, numbers) = (&view.summary, &view.summary.numbers);
    let mut text =
        format!("{} {}: {}\n", one_line(&summary.name), Timestamp::from_seconds(view.time), word(summary.severity));
    if !summary.message.is_empty() {
        text.push_str(&format!("{}\n", one_line(&summary.message)));
    }
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{} requests/s, {} errors/s, {} refused/s; p50 {}, p99 {}; {} running, {} watches, {} sessions; {} of {} servers healthy",
        rate(numbers.requests_per_second),
        rate(numbers.errors_per_second),
        rate(numbers.refusals_per_second),
        duration(numbers.p50),
        duration(numbers.p99),
        numbers.running,
        numbers.watches,
        numbers.sessions,
        summary.healthy_servers,
        summary.servers,
    );
    text
}

/// Adds a table, if it has more than its head.
fn section(text: &mut String, rows: Vec<Vec<String>>, numbers: &[usize]) {
    if rows.len() > 1 {
        text.push('\n');
        text.push_str(&aligned(&rows, numbers));
    }
}

fn titles<const N: usize>(titles: [&str; N]) -> Vec<Vec<String>> {
    vec![titles.map(str::to_owned).to_vec()]
}

fn servers(servers: &[ServerView]) -> Vec<Vec<String>> {
    let mut rows =
        titles(["SERVER", "ZONE", "WEIGHT", "SHARE", "REQUESTS/S", "ERRORS/S", "P50", "P99", "IN FLIGHT", "HEALTH"]);
    // No gateway without an agent reports them.
    let is_known = servers.iter().any(|one| one.numbers.running > 0);
    rows.extend(servers.iter().map(|one| {
        let numbers = &one.numbers;
        vec![
            one_line(&one.server),
            one_line(one.zone.as_deref().unwrap_or("-")),
            one.weight.map_or_else(|| "-".to_owned(), |weight| weight.to_string()),
            percent(one.share),
            rate(numbers.requests_per_second),
            rate(numbers.errors_per_second),
            duration(numbers.p50),
            duration(numbers.p99),
            if is_known { numbers.running.to_string() } else { "-".to_owned() },
            health(one),
        ]
    }));
    rows
}

fn health(server: &ServerView) -> String {
    let Some(first) = server.unhealthy.iter().min_by_key(|one| one.since) else { return "healthy".to_owned() };
    let (reason, since) = (one_line(&first.reason), Timestamp::from_seconds(first.since));
    match server.unhealthy.len() {
        1 => format!("{reason} since {since} at {}", one_line(&first.node)),
        several => format!("{reason} since {since} at {several} gateways"),
    }
}

fn policies(policies: &[PolicyView]) -> Vec<Vec<String>> {
    let mut rows = titles(["POLICY", "FORWARDED/S", "REFUSED/S", "FIRST RULE"]);
    rows.extend(policies.iter().map(|one| {
        let refused =
            one.refused_per_second.iter().map(|(reason, number)| format!("{} {}", one_line(reason), rate(*number)));
        let refused = refused.collect::<Vec<_>>().join(", ");
        let refused = if refused.is_empty() { "0".to_owned() } else { refused };
        vec![one_line(&one.policy), rate(one.forwarded_per_second), refused, one_line(&one.rule)]
    }));
    rows
}

fn limits(limits: &[LimitView]) -> Vec<Vec<String>> {
    let mut rows = titles(["LIMIT", "GATEWAY", "USED", "LIMIT", "OF ALL", "REFUSED/S", "KIND"]);
    for one in limits {
        for (position, at) in one.by_gateway.iter().enumerate() {
            // Of all gateways together, so only once.
            let refused = if position == 0 { rate(one.refused_per_second) } else { String::new() };
            let kind =
                if at.rate > 0 { format!("tokens, {} a second", at.rate) } else { "requests in flight".to_owned() };
            let kind = if at.local { format!("{kind}, its own limit") } else { kind };
            let (used, limit) = (at.used.to_string(), at.limit.to_string());
            let of_all = one.global.as_ref().map_or_else(|| "-".to_owned(), |global| global.limit.to_string());
            rows.push(vec![one_line(&one.schema), one_line(&at.node), used, limit, of_all, refused, kind]);
        }
    }
    rows
}

fn clients(kind: &str, talkers: &[Talker]) -> Vec<Vec<String>> {
    let mut rows = titles([kind, "REQUESTS", "LISTS", "REFUSED", "BYTES"]);
    rows.extend(talkers.iter().map(|one| {
        let requests =
            if one.error > 0 { format!("{} (-{})", one.requests, one.error) } else { one.requests.to_string() };
        vec![one_line(&one.name), requests, one.lists.to_string(), one.refusals.to_string(), bytes(one.bytes)]
    }));
    rows
}

fn certificates(certificates: &[CertificateView]) -> Vec<Vec<String>> {
    let mut rows = titles(["CERTIFICATE", "SUBJECT", "DAYS LEFT", "UNTIL"]);
    rows.extend(certificates.iter().map(|one| {
        let (days, until) = (one.days_left.to_string(), Timestamp::from_seconds(one.not_after).to_string());
        vec![one_line(&one.usage), one_line(&one.subject), days, until]
    }));
    rows
}

fn conditions(text: &mut String, view: &ClusterView) {
    let mut rows = titles(["CONDITION", "STATUS", "REASON", "SINCE"]);
    rows.extend(view.conditions.iter().map(|one| {
        let since = one_line(&one.last_transition_time.to_string());
        vec![one.kind.to_string(), one.status.to_string(), one_line(&one.reason), since]
    }));
    section(text, rows, &[]);
    let mut rows = titles(["CHANGED", "CONDITION", "STATUS", "REASON"]);
    rows.extend(view.transitions.iter().take(MAX_TRANSITIONS).map(|one| {
        let time = Timestamp::from_seconds(one.time).to_string();
        vec![time, one_line(&one.condition), one_line(&one.status), one_line(&one.reason)]
    }));
    section(text, rows, &[]);
}
