use portcullis_filter_config::activity::{Talker, TopTalkers};

use super::MAX_ROWS;
use super::servers::bar;
use crate::serve::console::figures;
use crate::serve::console::html::Html;
use crate::serve::console::layout::{bad_rate, close_table, figure, open_table};
use crate::serve::fleet::view::{LimitView, PolicyView};

/// The share of a limit from which its use is marked.
const NEARLY: f64 = 0.8;
/// Most clients of each list.
const MAX_CLIENTS: usize = 20;

pub(super) fn policies(html: &mut Html, policies: &[PolicyView]) {
    if policies.is_empty() {
        html.raw("<p class=\"none\">No gateway has reported decisions yet.</p>\n");
        return;
    }
    let most = policies.iter().map(|policy| policy.forwarded_per_second).fold(0.0, f64::max);
    let columns = [
        ("Policy", false),
        ("First rule", false),
        ("Forwarded/s", true),
        ("Refused/s", true),
        ("Refused because", false),
    ];
    open_table(html, "Policies", &columns);
    for policy in policies.iter().take(MAX_ROWS) {
        let refused: f64 = policy.refused_per_second.iter().map(|(_, rate)| rate).sum();
        html.raw("<tr><th scope=\"row\">");
        if policy.policy == "-" {
            html.raw("none")
        } else {
            html.text(&policy.policy)
        };
        html.raw("</th><td>").text(&policy.rule).raw("</td><td class=\"n\">");
        bar(html, if most > 0.0 { policy.forwarded_per_second / most } else { 0.0 }, "");
        html.text(&figures::rate(policy.forwarded_per_second)).raw("</td>");
        bad_rate(html, refused, "warning");
        html.raw("<td>");
        for (number, (reason, rate)) in policy.refused_per_second.iter().filter(|(_, rate)| *rate > 0.0).enumerate() {
            html.raw(if number > 0 { ", " } else { "" });
            html.text(reason).raw(" ").text(&figures::rate(*rate)).raw("/s");
        }
        html.raw("</td></tr>\n");
    }
    close_table(html);
    rest(html, policies.len(), MAX_ROWS);
}

pub(super) fn limits(html: &mut Html, limits: &[LimitView]) {
    if limits.is_empty() {
        html.raw("<p class=\"none\">The object has no flow control schema that limits.</p>\n");
        return;
    }
    let columns =
        [("Schema", false), ("Gateway", false), ("In use", true), ("Limit", true), ("Refused/s, all gateways", true)];
    open_table(html, "Limits", &columns);
    for limit in limits.iter().take(MAX_ROWS) {
        let rows = limit.by_gateway.len().clamp(1, MAX_CLIENTS);
        for (number, at) in limit.by_gateway.iter().take(rows).enumerate() {
            html.raw("<tr>");
            if number == 0 {
                html.raw("<th scope=\"rowgroup\"").attribute("rowspan", &rows.to_string()).raw(">").text(&limit.schema);
                of_all(html, limit);
                html.raw("</th>");
            }
            let part = if at.limit > 0 { f64::from(at.used) / f64::from(at.limit) } else { 0.0 };
            html.raw("<td>").text(&at.node).raw("</td><td class=\"n\">");
            bar(html, part, if part >= NEARLY { "warning" } else { "" });
            html.show(at.used).raw("</td><td class=\"n\">").show(at.limit);
            if at.rate > 0 {
                html.raw(" tokens, ").show(at.rate).raw("/s");
            } else {
                html.raw(" in flight");
            }
            if at.local {
                html.raw(", its own limit");
            }
            html.raw("</td>");
            if number == 0 {
                html.raw("<td class=\"n\"").attribute("rowspan", &rows.to_string()).raw(">");
                html.text(&figures::rate(limit.refused_per_second)).raw("</td>");
            }
            html.raw("</tr>\n");
        }
        if limit.by_gateway.is_empty() {
            html.raw("<tr><th scope=\"row\">").text(&limit.schema);
            of_all(html, limit);
            html.raw("</th><td>none reports it</td><td class=\"n\">–</td><td class=\"n\">–</td><td class=\"n\">–</td></tr>\n");
        }
    }
    close_table(html);
    rest(html, limits.len(), MAX_ROWS);
}

/// The limit that gateways share. The rows do not add up to it: a gateway without a part shows its local limit, and one with tokens of
/// a rate that is counted shows the whole rate.
fn of_all(html: &mut Html, limit: &LimitView) {
    let Some(global) = &limit.global else { return };
    html.raw("<br><small>").text(&global.strategy).raw(": ");
    match global.rate {
        0 => html.show(global.limit).raw(" in flight"),
        rate => html.show(rate).raw("/s"),
    };
    html.raw(" of all gateways</small>");
}

/// The clients with the most requests, if the object asks for them.
pub(super) fn clients(html: &mut Html, top: Option<&TopTalkers>) {
    let Some(top) = top else {
        html.raw(
            "<p class=\"none\">Clients are not counted. <code>metrics.users</code> of the GatewaySettings turns it on;",
        );
        html.raw(" names are personal data.</p>\n");
        return;
    };
    html.raw("<div class=\"columns\">\n");
    talkers(
        html,
        "Users",
        &[("User", false), ("Requests", true), ("Lists", true), ("Bytes", true), ("Refused", true)],
        &top.users,
    );
    talkers(
        html,
        "Groups",
        &[("Group", false), ("Requests", true), ("Lists", true), ("Bytes", true), ("Refused", true)],
        &top.groups,
    );
    talkers(
        html,
        "User agents",
        &[("User agent", false), ("Requests", true), ("Lists", true), ("Bytes", true), ("Refused", true)],
        &top.user_agents,
    );
    html.raw("</div>\n");
}

fn talkers(html: &mut Html, name: &'static str, columns: &[(&'static str, bool)], talkers: &[Talker]) {
    html.raw("<div><h3>").raw(name).raw("</h3>\n");
    if talkers.is_empty() {
        html.raw("<p class=\"none\">None yet.</p></div>\n");
        return;
    }
    let most = talkers.iter().map(|talker| talker.requests).max().unwrap_or_default().max(1) as f64;
    open_table(html, name, columns);
    for talker in talkers.iter().take(MAX_CLIENTS) {
        html.raw("<tr><th scope=\"row\">").text(&talker.name).raw("</th><td class=\"n\">");
        bar(html, talker.requests as f64 / most, "");
        if talker.error > 0 {
            html.raw("≤ ");
        }
        html.text(&figures::thousands(talker.requests)).raw("</td>");
        figure(html, &figures::thousands(talker.lists));
        figure(html, &figures::bytes(talker.bytes));
        figure(html, &figures::thousands(talker.refusals));
        html.raw("</tr>\n");
    }
    close_table(html);
    rest(html, talkers.len(), MAX_CLIENTS);
    html.raw("</div>\n");
}

fn rest(html: &mut Html, rows: usize, most: usize) {
    if let Some(more) = rows.checked_sub(most).filter(|more| *more > 0) {
        html.raw("<p class=\"none\">").show(more).raw(" more: see <code>/ui/api/clusters/</code>.</p>\n");
    }
}
