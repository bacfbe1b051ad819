use portcullis_api::status::{Condition, ConditionType, State};

use super::{MAX_ROWS, more, urgency};
use crate::serve::status::ObjectStatus;

/// Most warnings of one object that are shown.
const MAX_WARNINGS: usize = 20;

/// The clusters, those that something is wrong with first.
pub(super) fn clusters(html: &mut Html, objects: &[&ObjectStatus]) {
    if objects.is_empty() {
        html.raw("<p>None.</p>\n");
        return;
    }
    let mut objects = objects.to_vec();
    objects.sort_by_key(|object| urgency(object));
    html.head(&["Name", "Accepted", "Programmed", "Ready", "Gateways", "Messages"]);
    for object in objects.iter().take(MAX_ROWS) {
        html.raw("<tr><td>").text(&object.diagnosis.name);
        place(html, object);
        html.raw("</td>");
        for kind in [ConditionType::Accepted, ConditionType::Programmed, ConditionType::Ready] {
            match object.status.condition(kind) {
                Some(condition) => state(html, condition),
                None => drop(html.cell("unsure", "-")),
            }
        }
        gateways(html, object);
        messages(html, object);
        html.raw("</tr>\n");
    }
    html.raw("</table>\n");
    more(html, objects.len());
}

/// Settings, and files that cannot be used as they stand.
pub(super) fn others(html: &mut Html, objects: &[&ObjectStatus]) {
    if objects.is_empty() {
        html.raw("<p>None.</p>\n");
        return;
    }
    html.head(&["Kind", "Name", "Accepted", "Messages"]);
    for object in objects.iter().take(MAX_ROWS) {
        html.raw("<tr><td>").text(&object.diagnosis.kind).raw("</td><td>").text(&object.diagnosis.name);
        place(html, object);
        html.raw("</td>");
        object.status.conditions.iter().for_each(|condition| state(html, condition));
        messages(html, object);
        html.raw("</tr>\n");
    }
    html.raw("</table>\n");
    more(html, objects.len());
}

fn place(html: &mut Html, object: &ObjectStatus) {
    if let Some(at) = &object.diagnosis.at {
        html.raw("<br><small>").text(at).raw("</small>");
    }
    if let Some(generation) = object.status.observed_generation {
        html.raw("<br><small>").text(&format!("generation {generation}")).raw("</small>");
    }
}

fn state(html: &mut Html, condition: &Condition) {
    let class = match condition.status {
        State::True => "good",
        State::False => "bad",
        State::Unknown => "unsure",
    };
    html.raw("<td class=\"").text(class).raw("\">").text(&condition.status.to_string());
    html.raw("<br>").text(&condition.reason);
    html.raw("<br><small>since ").text(&condition.last_transition_time.to_string()).raw("</small></td>");
}

fn gateways(html: &mut Html, object: &ObjectStatus) {
    html.raw("<td><ul>");
    for gateway in &object.status.gateways {
        html.raw("<li>").text(&gateway.name).text(": ").text(&gateway.state);
        if let (Some(healthy), Some(total)) = (gateway.healthy_endpoints, gateway.endpoints) {
            html.text(&format!(", {healthy} of {total} endpoints healthy"));
        }
        for one in &gateway.unhealthy {
            html.raw("<br><small>")
                .text(&format!("{}: {} since {}", one.server, one.reason, one.since))
                .raw("</small>");
        }
        html.raw("</li>");
    }
    if object.status.more_gateways > 0 {
        html.raw("<li>").text(&format!("and {} more", object.status.more_gateways)).raw("</li>");
    }
    html.raw("</ul></td>");
}

fn messages(html: &mut Html, object: &ObjectStatus) {
    html.raw("<td><ul>");
    for condition in &object.status.conditions {
        // The message of Accepted is the diagnosis, which is listed below with its warnings.
        if condition.kind != ConditionType::Accepted && !condition.message.is_empty() {
            html.raw("<li>").text(&condition.message).raw("</li>");
        }
    }
    if !object.diagnosis.message.is_empty() {
        html.raw("<li>").text(&portcullis_api::status::sanitize(&object.diagnosis.message)).raw("</li>");
    }
    for warning in object.diagnosis.warnings.iter().take(MAX_WARNINGS) {
        html.raw("<li>warning: ").text(&portcullis_api::status::sanitize(warning)).raw("</li>");
    }
    html.raw("</ul></td>");
}

/// HTML under construction. Only [`Html::raw`] takes markup, and only static text: markup of this program. Everything else is
/// escaped.
#[derive(Debug, Default)]
pub(super) struct Html {
    text: String,
}

impl Html {
    /// Markup.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.text.push_str(markup);
        self
    }

    /// Any text: names, messages. Characters that control a terminal or the direction of writing are shown as `�`.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for one in text.chars() {
            match one {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                '\n' | '\t' => self.text.push(' '),
                one => self.text.push(crate::plain::plain(one)),
            }
        }
        self
    }

    /// A cell of a table, of a class.
    pub(super) fn cell(&mut self, class: &str, text: &str) -> &mut Self {
        self.raw("<td class=\"").text(class).raw("\">").text(text).raw("</td>")
    }

    /// Starts a table.
    pub(super) fn head(&mut self, names: &[&'static str]) -> &mut Self {
        self.raw("<table>\n<tr>");
        for name in names {
            self.raw("<th>").raw(name).raw("</th>");
        }
        self.raw("</tr>\n")
    }

    /// The whole.
    pub(super) fn finish(self) -> String {
        self.text
    }
}
