//! The first page: all clusters that the reader may see, worst first, the reader's instances with their Envoys, and for operators all
//! gateways and the other objects.

use std::collections::BTreeMap;

use super::figures;
use super::gateway_traffic;
use super::html::Html;
use super::instances_table;
use super::layout::{self, NUMBERS, badge, close_table, open_table, tile};
use crate::serve::fleet::view::{ClusterSummary, FleetView, GatewaySummary, Severity};

/// The number of clusters, and of gateways, that the page lists. Its filter finds the others, and `/ui/api/fleet` has all.
const MAX_ROWS: usize = 200;
/// The number of gateways that a cluster's row shows one by one, the worst.
const MAX_SQUARES: usize = 16;

/// The clusters whose rows match the filter, and the rest of the page's inputs.
#[derive(Debug)]
pub(super) struct FleetPage<'a> {
    pub(super) view: &'a FleetView,
    /// A part of a name or message, or the word of a severity; empty for all.
    pub(super) filter: &'a str,
    /// Whether the reader may see all gateways, and settings.
    pub(super) sees_all: bool,
}

impl FleetPage<'_> {
    /// The parts of the page about clusters and gateways.
    pub(super) fn write(&self, html: &mut Html) {
        html.raw("<h1>Fleet</h1>\n");
        self.summary(html);
        html.raw("<section aria-labelledby=\"clusters\">\n<div class=\"head\"><h2 id=\"clusters\">Clusters</h2>\n");
        html.raw(
            "<form class=\"filter\" method=\"get\" action=\"/ui/\" role=\"search\"><label for=\"q\">Filter</label>",
        );
        html.raw(
            "<input id=\"q\" name=\"q\" type=\"search\" autocomplete=\"off\" placeholder=\"name, message, critical…\"",
        );
        html.attribute("value", self.filter).raw("><button>Filter</button></form></div>\n");
        html.raw("<div id=\"cluster-table\" data-live>\n");
        self.clusters(html);
        html.raw("</div>\n</section>\n");
        instances_table::write(html, &self.view.instances);
        if self.has_gateways() {
            html.raw("<section aria-labelledby=\"gateways\">\n<h2 id=\"gateways\">Gateways</h2>\n");
            html.raw("<div id=\"gateway-table\" data-live>\n");
            gateways(html, &self.view.gateways);
            html.raw("</div>\n</section>\n");
            gateway_traffic::write(html, &self.view.at_gateways);
        }
    }

    fn has_gateways(&self) -> bool {
        self.sees_all || !self.view.gateways.is_empty()
    }

    fn summary(&self, html: &mut Html) {
        let mut counts: BTreeMap<Severity, u64> = BTreeMap::new();
        let (mut requests, mut errors, mut refusals) = (0.0, 0.0, 0.0);
        for cluster in &self.view.clusters {
            *counts.entry(cluster.severity).or_default() += 1;
            requests += cluster.numbers.requests_per_second;
            errors += cluster.numbers.errors_per_second;
            refusals += cluster.numbers.refusals_per_second;
        }
        html.raw("<dl id=\"summary\" class=\"tiles\" data-live data-announce>\n");
        let count = |severity| counts.get(&severity).copied().unwrap_or_default();
        for (severity, name) in [
            (Severity::Critical, "Critical"),
            (Severity::Warning, "Warning"),
            (Severity::Unknown, "Unknown"),
            (Severity::Good, "Good"),
        ] {
            let class = if count(severity) > 0 { layout::severity_words(severity).0 } else { "" };
            tile(html, name, &figures::thousands(count(severity)), class);
        }
        if self.has_gateways() {
            let connected = self.view.gateways.iter().filter(|gateway| gateway.connected).count();
            tile(html, "Gateways", &format!("{connected} of {}", self.view.gateways.len()), "");
        }
        tile(html, "Requests/s", &figures::rate(requests), "");
        tile(html, "Errors/s", &figures::rate(errors), if errors > 0.0 { "critical" } else { "" });
        tile(html, "Refused/s", &figures::rate(refusals), if refusals > 0.0 { "warning" } else { "" });
        html.raw("</dl>\n");
    }

    fn clusters(&self, html: &mut Html) {
        let needle = self.filter.trim().to_lowercase();
        let found: Vec<&ClusterSummary> =
            self.view.clusters.iter().filter(|cluster| matches(cluster, &needle)).collect();
        if found.is_empty() {
            html.raw("<p class=\"none\">");
            html.raw(if needle.is_empty() { "There is no UpstreamCluster." } else { "No cluster matches the filter." });
            html.raw("</p>\n");
            return;
        }
        let mut columns = vec![("State", false), ("Cluster", false), ("Servers", true)];
        columns.extend(NUMBERS);
        columns.extend(self.sees_all.then_some(("Gateways", false)));
        open_table(html, "Clusters, worst first", &columns);
        for cluster in found.iter().take(MAX_ROWS) {
            self.row(html, cluster);
        }
        close_table(html);
        more(html, found.len());
    }

    fn row(&self, html: &mut Html, cluster: &ClusterSummary) {
        html.raw("<tr><td>");
        badge(html, cluster.severity);
        html.raw("</td><th scope=\"row\"><a href=\"").cluster_path(&cluster.name).raw("\">").text(&cluster.name);
        html.raw("</a>");
        if !cluster.message.is_empty() {
            html.raw("<span class=\"message short\"").attribute("title", &cluster.message).raw(">");
            html.text(&cluster.message).raw("</span>");
        }
        html.raw("</th>");
        let lacking = cluster.healthy_servers < cluster.servers;
        let class = match cluster.healthy_servers {
            0 if cluster.servers > 0 => "critical",
            _ if lacking => "warning",
            _ => "",
        };
        html.raw("<td class=\"n ").raw(class).raw("\">").show(cluster.healthy_servers).raw("/").show(cluster.servers);
        html.raw("</td>");
        layout::numbers(html, &cluster.numbers);
        if self.sees_all {
            html.raw("<td>");
            squares(html, cluster, &self.view.gateways);
            html.raw("</td>");
        }
        html.raw("</tr>\n");
    }
}

fn matches(cluster: &ClusterSummary, needle: &str) -> bool {
    needle.is_empty()
        || cluster.name.to_lowercase().contains(needle)
        || cluster.message.to_lowercase().contains(needle)
        || layout::severity_words(cluster.severity).0 == needle
}

/// One square for each gateway, the worst ones; their names are the picture's description.
fn squares(html: &mut Html, cluster: &ClusterSummary, gateways: &[GatewaySummary]) {
    let mut seen: Vec<(Severity, &str)> = (cluster.by_gateway.iter().zip(gateways))
        .filter_map(|(severity, gateway)| Some(((*severity)?, gateway.node.as_str())))
        .collect();
    if seen.is_empty() {
        html.raw("<span class=\"quiet\">none</span>");
        return;
    }
    seen.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    let good = seen.iter().filter(|(severity, _)| *severity == Severity::Good).count();
    let bad = seen.iter().filter(|(severity, _)| *severity != Severity::Good).take(3);
    let bad = bad.map(|(severity, node)| format!(", {node}: {}", layout::severity_words(*severity).0));
    let description = format!("{good} of {} good{}", seen.len(), bad.collect::<String>());
    html.raw("<span class=\"squares\" role=\"img\"").attribute("aria-label", &description);
    html.attribute("title", &description).raw(">");
    for (severity, _) in seen.iter().take(MAX_SQUARES) {
        html.raw("<i class=\"").raw(layout::severity_words(*severity).0).raw("\"></i>");
    }
    if let Some(more) = seen.len().checked_sub(MAX_SQUARES).filter(|more| *more > 0) {
        html.raw("+").show(more);
    }
    html.raw("</span>");
}

fn gateways(html: &mut Html, gateways: &[GatewaySummary]) {
    if gateways.is_empty() {
        html.raw("<p class=\"none\">No gateway has connected.</p>\n");
        return;
    }
    let mut columns = vec![("State", false), ("Gateway", false), ("Last report", true), ("Up for", true)];
    columns.extend(NUMBERS);
    open_table(html, "Gateways", &columns);
    for gateway in gateways.iter().take(MAX_ROWS) {
        html.raw("<tr><td>");
        match (gateway.connected, gateway.in_sync) {
            (true, true) => layout::mark(html, "good", "In sync"),
            (true, false) => layout::mark(html, "warning", "Not in sync"),
            (false, _) => layout::mark(html, "critical", "Not connected"),
        }
        html.raw("</td><th scope=\"row\">").text(&gateway.node).raw("</th>");
        let report = gateway.reported_seconds_ago.map(|seconds| format!("{} ago", figures::span(seconds)));
        layout::figure(html, report.as_deref().unwrap_or("none"));
        let uptime = (gateway.uptime_seconds > 0).then(|| figures::span(gateway.uptime_seconds));
        layout::figure(html, uptime.as_deref().unwrap_or("–"));
        layout::numbers(html, &gateway.numbers);
        html.raw("</tr>\n");
    }
    close_table(html);
    more(html, gateways.len());
}

fn more(html: &mut Html, rows: usize) {
    if let Some(more) = rows.checked_sub(MAX_ROWS).filter(|more| *more > 0) {
        html.raw("<p class=\"none\">").text(&figures::thousands(u64::try_from(more).unwrap_or(u64::MAX)));
        html.raw(
            " more, none of them worse: filter by name, or read <a href=\"/ui/api/fleet\">/ui/api/fleet</a>.</p>\n",
        );
    }
}
