//! One cluster: its numbers and their last hour, servers, policies, limits, clients, certificates and conditions.

mod conditions;
mod servers;
mod traffic;

use super::figures;
use super::gateway_traffic;
use super::html::Html;
use super::layout::{badge, tile};
use super::sparkline::sparkline;
use crate::serve::fleet::view::{ClusterView, HistoryPoint, Numbers, Severity};
use crate::serve::object_status::ObjectStatus;

/// Most rows of each table.
const MAX_ROWS: usize = 200;

/// The whole content of the page. `object` is what the source says of the cluster.
pub(super) fn write(html: &mut Html, view: &ClusterView, object: Option<&ObjectStatus>) {
    html.raw("<p class=\"trail\"><a href=\"/ui/\">Fleet</a></p>\n<div id=\"head\" data-live data-announce>\n<h1>");
    html.text(&view.summary.name).raw(" ");
    badge(html, view.summary.severity);
    html.raw("</h1>\n");
    if !view.summary.message.is_empty() {
        let class = match view.summary.severity {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Good | Severity::Unknown => "unknown",
        };
        html.raw("<p class=\"notice ").raw(class).raw("\">").text(&view.summary.message).raw("</p>\n");
    }
    html.raw("</div>\n");
    numbers(html, view);
    section(html, "servers", "Servers", |html| servers::servers(html, &view.servers));
    section(html, "policies", "Policies", |html| traffic::policies(html, &view.policies));
    gateway_traffic::write(html, &view.at_gateways);
    section(html, "limits", "Limits", |html| traffic::limits(html, &view.limits));
    section(html, "clients", "Clients", |html| traffic::clients(html, view.top.as_ref()));
    section(html, "certificates", "Certificates", |html| servers::certificates(html, &view.certificates));
    section(html, "conditions", "Conditions", |html| conditions::conditions(html, view, object));
}

fn section(html: &mut Html, id: &'static str, title: &'static str, content: impl FnOnce(&mut Html)) {
    html.raw("<section aria-labelledby=\"").raw(id).raw("\">\n<h2 id=\"").raw(id).raw("\">").raw(title);
    html.raw("</h2>\n<div id=\"").raw(id).raw("-part\" data-live>\n");
    content(html);
    html.raw("</div>\n</section>\n");
}

fn numbers(html: &mut Html, view: &ClusterView) {
    let now = &view.summary.numbers;
    html.raw("<dl id=\"numbers\" class=\"tiles\" data-live>\n");
    let errors = if now.errors_per_second > 0.0 { "critical" } else { "" };
    let refusals = if now.refusals_per_second > 0.0 { "warning" } else { "" };
    chart(html, "Requests/s", &figures::rate(now.requests_per_second), "", view, |one| Some(one.requests_per_second));
    chart(html, "Errors/s", &figures::rate(now.errors_per_second), errors, view, |one| Some(one.errors_per_second));
    chart(html, "Refused/s", &figures::rate(now.refusals_per_second), refusals, view, |one| {
        Some(one.refusals_per_second)
    });
    chart(html, "p50", &figures::milliseconds(now.p50), "", view, |one| one.p50);
    chart(html, "p99", &figures::milliseconds(now.p99), "", view, |one| one.p99);
    chart(html, "In flight", &figures::thousands(now.running.into()), "", view, |one| Some(f64::from(one.running)));
    chart(html, "Watches", &figures::thousands(now.watches.into()), "", view, |one| Some(f64::from(one.watches)));
    tile(html, "Sessions", &figures::thousands(now.sessions.into()), "");
    html.raw("</dl>\n");
}

/// A number with its last hour.
fn chart(
    html: &mut Html,
    name: &'static str,
    value: &str,
    class: &'static str,
    view: &ClusterView,
    of: impl Fn(&Numbers) -> Option<f64>,
) {
    html.raw("<div class=\"tile ").raw(class).raw("\"><dt>").raw(name).raw("</dt><dd>").text(value);
    let values: Vec<Option<f64>> = view.history.iter().map(|HistoryPoint { numbers, .. }| of(numbers)).collect();
    if values.len() > 1 {
        let most = values.iter().flatten().copied().fold(0.0, f64::max);
        let most = if name.starts_with('p') { figures::milliseconds(Some(most)) } else { figures::rate(most) };
        sparkline(html, &values, &format!("{name}, the last hour: at most {most}"));
    }
    html.raw("</dd></div>\n");
}
