//! Traffic at Gateways of the Gateway API, on the pages of the fleet and of a cluster.

use super::figures;
use super::html::Html;
use super::layout::{close_table, figure, open_table};
use crate::serve::fleet::view::GatewayTraffic;

/// Most Gateways in the table.
const MAX_ROWS: usize = 200;

/// A table of the Gateways whose Envoys report; nothing without any.
pub(super) fn write(html: &mut Html, lines: &[GatewayTraffic]) {
    html.raw("<div id=\"at-gateways\" data-live>\n");
    if !lines.is_empty() {
        html.raw("<h2>At Gateways of the Gateway API</h2>\n");
        html.raw("<p class=\"none\">As their own Envoys report it. No other number has a part of it.</p>\n");
        table(html, lines);
    }
    html.raw("</div>\n");
}

fn table(html: &mut Html, lines: &[GatewayTraffic]) {
    let columns = [
        ("Gateway", false),
        ("Envoys", true),
        ("Requests/s", true),
        ("Errors", true),
        ("In flight", true),
        ("Watches", true),
        ("Sessions", true),
    ];
    open_table(html, "At Gateways of the Gateway API", &columns);
    for line in lines.iter().take(MAX_ROWS) {
        html.raw("<tr><th scope=\"row\">");
        html.text(if line.gateway.is_empty() { "another one" } else { &line.gateway }).raw("</th>");
        figure(html, &figures::thousands(line.envoys.into()));
        figure(html, &figures::rate(line.numbers.requests_per_second));
        figure(html, &line.error_ratio.map_or_else(|| "–".to_owned(), figures::share));
        figure(html, &figures::thousands(line.numbers.running.into()));
        figure(html, &figures::thousands(line.numbers.watches.into()));
        figure(html, &figures::thousands(line.numbers.sessions.into()));
        html.raw("</tr>\n");
    }
    close_table(html);
    if let Some(more) = lines.len().checked_sub(MAX_ROWS).filter(|more| *more > 0) {
        html.raw("<p class=\"none\">").show(more).raw(" more: see <code>/ui/api</code>.</p>\n");
    }
}
