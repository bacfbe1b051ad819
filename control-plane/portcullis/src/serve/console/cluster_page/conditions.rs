use super::MAX_ROWS;
use crate::serve::console::html::Html;
use crate::serve::console::layout::{self, close_table, mark, open_table};
use crate::serve::console::objects_page::{messages, state_class};
use crate::serve::fleet::view::ClusterView;
use crate::serve::object_status::ObjectStatus;

/// The conditions, what the source says of the object, and the changes of conditions, newest first.
pub(super) fn conditions(html: &mut Html, view: &ClusterView, object: Option<&ObjectStatus>) {
    open_table(
        html,
        "Conditions",
        &[("Condition", false), ("Status", false), ("Since", false), ("Reason and message", false)],
    );
    for condition in &view.conditions {
        html.raw("<tr><th scope=\"row\">").show(condition.kind).raw("</th><td>");
        mark(html, state_class(condition.status), &condition.status.to_string());
        html.raw("</td><td>").text(&condition.last_transition_time.to_string()).raw("</td><td>");
        html.text(&condition.reason);
        if !condition.message.is_empty() {
            html.raw("<span class=\"message\">").text(&condition.message).raw("</span>");
        }
        html.raw("</td></tr>\n");
    }
    close_table(html);
    if let Some(object) = object {
        of_object(html, object);
    }
    html.raw("<h3>Changes</h3>\n");
    if view.transitions.is_empty() {
        html.raw("<p class=\"none\">None since this control plane started.</p>\n");
        return;
    }
    let columns = [("Time", false), ("Condition", false), ("Status", false), ("Reason and message", false)];
    open_table(html, "Changes of conditions", &columns);
    for change in view.transitions.iter().take(MAX_ROWS) {
        html.raw("<tr><td>");
        layout::time(html, change.time);
        html.raw("</td><th scope=\"row\">").text(&change.condition).raw("</th><td>");
        let class = match change.status.as_str() {
            "True" => "good",
            "False" => "critical",
            _ => "unknown",
        };
        mark(html, class, &change.status);
        html.raw("</td><td>").text(&change.reason);
        if !change.message.is_empty() {
            html.raw("<span class=\"message\">").text(&change.message).raw("</span>");
        }
        html.raw("</td></tr>\n");
    }
    close_table(html);
}

fn of_object(html: &mut Html, object: &ObjectStatus) {
    messages(html, object);
    if object.diagnosis.at.is_none() && object.status.observed_generation.is_none() {
        return;
    }
    html.raw("<p class=\"none\">");
    if let Some(at) = &object.diagnosis.at {
        html.raw("From ").text(at).raw(". ");
    }
    if let Some(generation) = object.status.observed_generation {
        html.raw("Generation ").show(generation).raw(". ");
    }
    if let Some(hash) = &object.status.content_hash {
        html.raw("Content <code>").text(hash.get(..16).unwrap_or(hash)).raw("</code>.");
    }
    html.raw("</p>\n");
}
