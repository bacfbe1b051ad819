//! The status as a page for people: read-only, without scripts, whole in a text browser.

mod objects;

use portcullis_api::CLUSTER_KIND;
use portcullis_api::status::sanitize;

use super::source::SourceStatus;
use super::status::{NodeReport, ObjectStatus, StatusBody};
use objects::Html;

/// Most rows of a table; `portcullis status` has them all.
const MAX_ROWS: usize = 500;

const STYLE: &str = "body{font:15px/1.4 system-ui,sans-serif;margin:2em;max-width:110em;color:#222;background:#fff}\
table{border-collapse:collapse;margin:.5em 0 2em}th,td{border:1px solid #ccc;padding:.25em .6em;text-align:left;\
vertical-align:top}td{overflow-wrap:anywhere}th{background:#eee}.bad{background:#fdd}.unsure{background:#ffd}\
.good{background:#dfd}ul{margin:0;padding-left:1.2em}code{font-size:.9em}";

/// The page.
pub(super) fn page(status: &StatusBody) -> String {
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Portcullis</title><style>");
    html.raw(STYLE).raw("</style></head>\n<body>\n<h1>Portcullis</h1>\n");
    summary(&mut html, status);
    let (clusters, others): (Vec<_>, Vec<_>) =
        status.objects.iter().partition(|object| object.diagnosis.kind == CLUSTER_KIND);
    html.raw("<h2>UpstreamClusters</h2>\n");
    objects::clusters(&mut html, &clusters);
    html.raw("<h2>Settings and sources</h2>\n");
    objects::others(&mut html, &others);
    html.raw("<h2>Gateways</h2>\n");
    nodes(&mut html, &status.nodes);
    html.raw("</body></html>\n");
    html.finish()
}

fn summary(html: &mut Html, status: &StatusBody) {
    let connected = status.nodes.iter().filter(|node| node.connected).count();
    let refused = status.objects.iter().filter(|object| !object.diagnosis.accepted).count();
    html.raw("<p>");
    html.text(&format!("Objects: {}, not accepted: {refused}. ", status.objects.len()));
    html.text(&format!("Gateways connected: {connected}. "));
    if status.snapshot.is_empty() {
        html.text("Nothing is served yet.");
    } else {
        html.text("Snapshot: ").raw("<code>").text(&status.snapshot).raw("</code>.");
    }
    html.raw("</p>\n<p>");
    source(html, &status.source);
    html.raw("</p>\n<p>The same for programs: <a href=\"/status\">/status</a>.</p>\n");
}

fn source(html: &mut Html, source: &SourceStatus) {
    html.text(&format!("Source: {}. ", source.kind));
    match &source.stale_since {
        None => html.text("This page is current."),
        Some(since) => {
            let why = source.reason.as_deref().unwrap_or("unknown");
            html.raw("<strong class=\"bad\">").text(&format!("Stale since {since}: {}", sanitize(why))).raw("</strong>")
        }
    };
    match source.leader {
        Some(true) => drop(html.text(" This replica leads: it writes the status to Kubernetes.")),
        Some(false) => drop(html.text(" Another replica leads.")),
        None => {}
    }
}

fn nodes(html: &mut Html, nodes: &[NodeReport]) {
    if nodes.is_empty() {
        html.raw("<p>None has connected.</p>\n");
        return;
    }
    html.head(&["Gateway", "Connected", "Has the snapshot", "Types"]);
    for node in nodes.iter().take(MAX_ROWS) {
        html.raw("<tr><td>").text(&node.id).raw("</td>");
        let yes = |html: &mut Html, holds: bool, class: &str| {
            html.cell(if holds { "good" } else { class }, if holds { "yes" } else { "no" });
        };
        yes(html, node.connected, "unsure");
        yes(html, node.in_sync, "unsure");
        html.raw("<td><ul>");
        for (url, one) in &node.types {
            let name = url.rsplit('.').next().unwrap_or(url);
            html.raw("<li>").text(name).text(if one.acked == one.sent { ": acknowledged " } else { ": sent " });
            html.raw("<code>").text(one.sent.get(..12).unwrap_or(&one.sent)).raw("</code>");
            if let Some(nack) = &one.nack {
                html.raw(" <span class=\"bad\">refused: ").text(nack).raw("</span>");
            }
            html.raw("</li>");
        }
        html.raw("</ul></td></tr>\n");
    }
    html.raw("</table>\n");
    more(html, nodes.len());
}

fn more(html: &mut Html, rows: usize) {
    if let Some(more) = rows.checked_sub(MAX_ROWS).filter(|more| *more > 0) {
        html.raw("<p>").text(&format!("And {more} more: see `portcullis status` or /status.")).raw("</p>\n");
    }
}

/// How much an object wants to be looked at: lower is more.
fn urgency(object: &ObjectStatus) -> usize {
    use portcullis_api::status::State;
    let holds = object.status.conditions.iter().take_while(|one| one.status == State::True).count();
    if object.status.conditions.len() == holds { usize::MAX } else { holds }
}

#[cfg(test)]
mod tests;
