use std::cmp::Ordering;

use portcullis_api::status::Timestamp;

use super::Order;
use super::gateway_traffic::gateway_traffic;
use super::numbers::{age, duration, rate};
use crate::display_text::one_line;
use crate::serve::fleet::view::{ClusterSummary, FleetView, GatewaySummary, InstanceSummary, Numbers, Severity};
use crate::table::aligned;

/// Most characters of a message.
const MAX_MESSAGE: usize = 100;

/// A line about all, a table of the clusters in this order, one of the instances, and one of the gateways.
pub(super) fn table(view: &mut FleetView, order: Order) -> String {
    let mut text = head(view, order);
    if view.clusters.is_empty() {
        text.push_str("No UpstreamCluster found.\n");
    } else {
        view.clusters.sort_by(|a, b| compare(a, b, order));
        let mut rows = vec![columns(&["NAME", "STATE"], &["SERVERS", "MESSAGE"])];
        rows.extend(view.clusters.iter().map(cluster_row));
        text.push_str(&aligned(&rows, &NUMBERS));
    }
    if !view.instances.is_empty() {
        let mut rows = vec![["INSTANCE", "STATE", "CLUSTERS", "ENVOYS", "MESSAGE"].map(str::to_owned).to_vec()];
        rows.extend(view.instances.iter().map(instance_row));
        text.push('\n');
        text.push_str(&aligned(&rows, &[2, 3]));
    }
    if !view.gateways.is_empty() {
        let mut rows = vec![columns(&["GATEWAY", "STATE"], &["UPTIME", "REPORTED"])];
        rows.extend(view.gateways.iter().map(gateway_row));
        text.push('\n');
        text.push_str(&aligned(&rows, &NUMBERS));
    }
    text.push_str(&gateway_traffic(&view.at_gateways));
    text
}

fn head(view: &FleetView, order: Order) -> String {
    let connected = view.gateways.iter().filter(|gateway| gateway.connected).count();
    let sum = |number: fn(&Numbers) -> f64| view.clusters.iter().map(|one| number(&one.numbers)).sum::<f64>();
    format!(
        "{} {}: {} clusters, {connected} of {} gateways; {} requests/s, {} errors/s, {} refused/s; by {}\n\n",
        one_line(&view.instance),
        Timestamp::from_seconds(view.time),
        view.clusters.len(),
        view.gateways.len(),
        rate(sum(|one| one.requests_per_second)),
        rate(sum(|one| one.errors_per_second)),
        rate(sum(|one| one.refusals_per_second)),
        order.word(),
    )
}

/// The numbers of a row, which end at the same place.
const NUMBERS: [usize; 9] = [2, 3, 4, 5, 6, 7, 8, 9, 10];
const NUMBER_COLUMNS: [&str; 8] =
    ["REQUESTS/S", "ERRORS/S", "REFUSED/S", "P50", "P99", "RUNNING", "WATCHES", "SESSIONS"];

fn columns(before: &[&str], behind: &[&str]) -> Vec<String> {
    [before, &NUMBER_COLUMNS, behind].concat().into_iter().map(str::to_owned).collect()
}

fn number_cells(numbers: &Numbers) -> [String; 8] {
    [
        rate(numbers.requests_per_second),
        rate(numbers.errors_per_second),
        rate(numbers.refusals_per_second),
        duration(numbers.p50),
        duration(numbers.p99),
        numbers.running.to_string(),
        numbers.watches.to_string(),
        numbers.sessions.to_string(),
    ]
}

fn cluster_row(one: &ClusterSummary) -> Vec<String> {
    let mut row = vec![one_line(&one.name), word(one.severity).to_owned()];
    row.extend(number_cells(&one.numbers));
    row.push(format!("{}/{}", one.healthy_servers, one.servers));
    row.push(short(&one.message));
    row
}

fn gateway_row(one: &GatewaySummary) -> Vec<String> {
    let state = match (one.connected, one.in_sync) {
        (false, _) => "Gone",
        (true, false) => "Pending",
        (true, true) => "InSync",
    };
    let mut row = vec![one_line(&one.node), state.to_owned()];
    row.extend(number_cells(&one.numbers));
    let reported = one.reported_seconds_ago;
    row.push(if reported.is_some() { age(one.uptime_seconds) } else { "-".to_owned() });
    row.push(reported.map_or_else(|| "-".to_owned(), |ago| format!("{} ago", age(ago))));
    row
}

fn instance_row(one: &InstanceSummary) -> Vec<String> {
    let bad = one.bad_condition();
    let state = bad.map_or("Ready", |bad| &bad.reason);
    let [clusters, envoys] = [one.counts.clusters, one.counts.envoys].map(|count| count.to_string());
    let message = bad.map(|bad| short(&bad.message)).unwrap_or_default();
    vec![one_line(&one.name), one_line(state), clusters, envoys, message]
}

pub(super) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Good => "Good",
        Severity::Unknown => "Unknown",
        Severity::Warning => "Warning",
        Severity::Critical => "Critical",
    }
}

pub(super) fn short(message: &str) -> String {
    let message = one_line(message);
    if message.chars().count() <= MAX_MESSAGE {
        return message;
    }
    message.chars().take(MAX_MESSAGE - 1).chain(['…']).collect()
}

fn compare(a: &ClusterSummary, b: &ClusterSummary, order: Order) -> Ordering {
    let by = |number: fn(&Numbers) -> f64| number(&b.numbers).total_cmp(&number(&a.numbers));
    let ordering = match order {
        Order::Severity => b.severity.cmp(&a.severity),
        Order::Requests => by(|one| one.requests_per_second),
        Order::Errors => by(|one| one.errors_per_second),
        Order::Refused => by(|one| one.refusals_per_second),
        Order::P50 => by(|one| one.p50.unwrap_or(-1.0)),
        Order::P99 => by(|one| one.p99.unwrap_or(-1.0)),
        Order::Running => b.numbers.running.cmp(&a.numbers.running),
        Order::Watches => b.numbers.watches.cmp(&a.numbers.watches),
        Order::Name => Ordering::Equal,
    };
    ordering.then_with(|| a.name.cmp(&b.name))
}
