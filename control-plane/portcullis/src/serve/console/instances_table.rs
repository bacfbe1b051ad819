use portcullis_api::status::{Condition, ConditionType, State, sanitize};

use super::figures;
use super::html::Html;
use super::layout::{self, close_table, mark, open_table};
use crate::serve::fleet::view::InstanceSummary;

/// The number of instances that the page lists; `/ui/api/fleet` has all.
const MAX_ROWS: usize = 200;

/// The part of the first page about instances, if there is one.
pub(super) fn write(html: &mut Html, instances: &[InstanceSummary]) {
    html.raw("<div id=\"instance-table\" data-live>\n");
    if !instances.is_empty() {
        html.raw("<section aria-labelledby=\"instances\">\n<h2 id=\"instances\">Instances</h2>\n");
        open_table(html, "Instances", &[("State", false), ("Instance", false), ("Clusters", true), ("Envoys", true)]);
        instances.iter().take(MAX_ROWS).for_each(|instance| row(html, instance));
        close_table(html);
        html.raw("</section>\n");
    }
    html.raw("</div>\n");
}

fn row(html: &mut Html, instance: &InstanceSummary) {
    let bad = instance.bad_condition();
    let (class, word) = match bad.map(|bad| (bad.kind, bad.status)) {
        None => ("good", "Ready"),
        Some((ConditionType::Accepted, _)) => ("critical", "Not accepted"),
        Some((_, State::Unknown)) => ("unknown", "Not known"),
        Some((ConditionType::Conflicted, _)) => ("warning", "Conflicted"),
        Some(_) => ("warning", "Not ready"),
    };
    html.raw("<tr><td>");
    mark(html, class, word);
    html.raw("</td><th scope=\"row\">").text(&instance.name);
    if let Some(Condition { message, .. }) = bad.filter(|bad| !bad.message.is_empty()) {
        html.raw("<span class=\"message\">").text(&sanitize(message)).raw("</span>");
    }
    html.raw("</th>");
    for count in [instance.counts.clusters, instance.counts.envoys] {
        layout::figure(html, &figures::thousands(u64::try_from(count).unwrap_or(u64::MAX)));
    }
    html.raw("</tr>\n");
}
