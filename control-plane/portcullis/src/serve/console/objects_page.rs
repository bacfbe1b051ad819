//! The parts of the first page that are not about clusters: the state of the source, settings, files, rejected gateways.

use portcullis_api::CLUSTER_KIND;
use portcullis_api::status::{State, sanitize};

use super::html::Html;
use super::layout::{close_table, mark, open_table};
use crate::serve::object_status::ObjectStatus;
use crate::serve::status::{NodeReport, StatusBody};

/// Most rows of a table, and most messages of a row; `portcullis status` has them all.
const MAX_ROWS: usize = 200;
const MAX_MESSAGES: usize = 20;

/// News that an operator needs before everything else: nothing is served, or what is served may be old.
pub(super) fn notices(html: &mut Html, status: &StatusBody) {
    html.raw("<div id=\"notices\" data-live>\n");
    if let Some(since) = &status.source.stale_since {
        let why = status.source.reason.as_deref().unwrap_or("unknown");
        html.raw("<p class=\"notice critical\">The source (").text(status.source.kind).raw(") is stale since ");
        html.text(since).raw(": ").text(&sanitize(why)).raw("</p>\n");
    }
    if status.snapshot.is_empty() {
        html.raw("<p class=\"notice critical\">Nothing is served yet.</p>\n");
    }
    html.raw("</div>\n");
}

/// Settings, files that cannot be used as they are, what gateways reject, and gateways that are rejected.
pub(super) fn others(html: &mut Html, status: &StatusBody) {
    html.raw("<section aria-labelledby=\"others\">\n<h2 id=\"others\">Settings, files and rejections</h2>\n");
    html.raw("<div id=\"other-table\" data-live>\n");
    let others: Vec<&ObjectStatus> =
        status.objects.iter().map(AsRef::as_ref).filter(|object| object.diagnosis.kind != CLUSTER_KIND).collect();
    objects(html, &others);
    rejections(html, status);
    html.raw("<p class=\"none\">Source: ").text(status.source.kind);
    match status.source.leader {
        Some(true) => {
            html.raw("; this replica leads and writes the status to Kubernetes");
        }
        Some(false) => {
            html.raw("; another replica leads");
        }
        None => {}
    }
    if status.source.divides_limits == Some(true) {
        html.raw("; this replica divides limits of all gateways");
    }
    if let Some(reason) = &status.source.limits_reason {
        html.raw("; it cannot take part in the choice of the one that divides limits of all gateways: ").text(reason);
    }
    if !status.snapshot.is_empty() {
        html.raw(". Snapshot <code>").text(status.snapshot.get(..16).unwrap_or(&status.snapshot)).raw("</code>");
    }
    html.raw(". For programs: <a href=\"/status\">/status</a>, <a href=\"/ui/api/fleet\">/ui/api/fleet</a>.</p>\n");
    html.raw("</div>\n</section>\n");
}

fn objects(html: &mut Html, objects: &[&ObjectStatus]) {
    if objects.is_empty() {
        html.raw("<p class=\"none\">No settings: their defaults hold.</p>\n");
        return;
    }
    let mut objects = objects.to_vec();
    objects.sort_by_key(|object| object.diagnosis.accepted);
    open_table(html, "Settings and files", &[("State", false), ("Name", false), ("Kind", false), ("Messages", false)]);
    for object in objects.iter().take(MAX_ROWS) {
        html.raw("<tr><td>");
        match (object.diagnosis.accepted, object.diagnosis.warnings.is_empty()) {
            (true, true) => mark(html, "good", "Accepted"),
            (true, false) => mark(html, "warning", "Accepted"),
            (false, _) => mark(html, "critical", "Not accepted"),
        }
        html.raw("</td><th scope=\"row\">").text(&object.diagnosis.name);
        if let Some(at) = &object.diagnosis.at {
            html.raw("<span class=\"message\">").text(at).raw("</span>");
        }
        html.raw("</th><td>").text(&object.diagnosis.kind).raw("</td><td>");
        messages(html, object);
        html.raw("</td></tr>\n");
    }
    close_table(html);
    if let Some(more) = objects.len().checked_sub(MAX_ROWS).filter(|more| *more > 0) {
        html.raw("<p class=\"none\">").show(more).raw(" more: see <a href=\"/status\">/status</a>.</p>\n");
    }
}

/// The messages of an object's diagnosis.
pub(super) fn messages(html: &mut Html, object: &ObjectStatus) {
    let diagnosis = &object.diagnosis;
    if diagnosis.message.is_empty() && diagnosis.warnings.is_empty() {
        return;
    }
    html.raw("<ul class=\"messages\">");
    if !diagnosis.message.is_empty() {
        html.raw("<li>").text(&sanitize(&diagnosis.message)).raw("</li>");
    }
    for warning in diagnosis.warnings.iter().take(MAX_MESSAGES) {
        html.raw("<li>Warning: ").text(&sanitize(warning)).raw("</li>");
    }
    if let Some(more) = diagnosis.warnings.len().checked_sub(MAX_MESSAGES).filter(|more| *more > 0) {
        html.raw("<li>and ").show(more).raw(" more</li>");
    }
    html.raw("</ul>");
}

/// Resources that gateways reject (NACK), and gateways whose streams are rejected.
fn rejections(html: &mut Html, status: &StatusBody) {
    let nodes: Vec<&NodeReport> =
        status.nodes.iter().filter(|node| node.types.values().any(|one| one.nack.is_some())).collect();
    if nodes.is_empty() && status.rejected_nodes.is_empty() {
        return;
    }
    open_table(html, "Rejections", &[("Gateway", false), ("What", false), ("Message", false)]);
    for node in nodes.iter().take(MAX_ROWS) {
        for (url, one) in &node.types {
            let Some(nack) = &one.nack else { continue };
            html.raw("<tr><th scope=\"row\">").text(&node.id).raw("</th><td>Envoy rejects ");
            html.text(url.rsplit('.').next().unwrap_or(url)).raw("</td><td>").text(nack).raw("</td></tr>\n");
        }
    }
    for node in status.rejected_nodes.iter().take(MAX_ROWS) {
        html.raw("<tr><th scope=\"row\">").text(&node.node).raw("</th><td>").show(node.times);
        html.raw(" streams rejected, from ").text(&node.by).raw("</td><td>").text(&node.reason).raw("</td></tr>\n");
    }
    close_table(html);
}

/// The mark of a condition's status.
pub(super) const fn state_class(state: State) -> &'static str {
    match state {
        State::True => "good",
        State::False => "critical",
        State::Unknown => "unknown",
    }
}
