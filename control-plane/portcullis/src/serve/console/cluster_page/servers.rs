use super::MAX_ROWS;
use crate::serve::console::figures;
use crate::serve::console::html::Html;
use crate::serve::console::layout::{self, close_table, figure, mark, open_table};
use crate::serve::fleet::view::{CertificateView, ServerView};

/// Days before a certificate's end at which it is marked.
const WARNING_DAYS: i64 = 30;
const CRITICAL_DAYS: i64 = 7;

pub(super) fn servers(html: &mut Html, servers: &[ServerView]) {
    if servers.is_empty() {
        html.raw("<p class=\"none\">The object lists no server.</p>\n");
        return;
    }
    // No gateway without an agent reports them.
    let shows_running = servers.iter().any(|server| server.numbers.running > 0);
    let mut columns = vec![("State", false), ("Server", false), ("Zone", false), ("Weight", true), ("Share", true)];
    columns.extend([("Requests/s", true), ("Errors/s", true), ("p50", true), ("p99", true)]);
    columns.extend(shows_running.then_some(("In flight", true)));
    open_table(html, "Servers", &columns);
    for server in servers.iter().take(MAX_ROWS) {
        row(html, server, shows_running);
    }
    close_table(html);
}

fn row(html: &mut Html, server: &ServerView, shows_running: bool) {
    let name = match server.server.as_str() {
        "-" => "answered by the gateway itself",
        "other" => "servers of earlier versions",
        name => name,
    };
    html.raw("<tr><td>");
    match server.unhealthy.as_slice() {
        [] if name == server.server => mark(html, "good", "Healthy"),
        [] => {}
        _ => mark(html, "critical", "Unhealthy"),
    }
    html.raw("</td><th scope=\"row\">").text(name);
    for at in &server.unhealthy {
        html.raw("<span class=\"message\">").text(&at.reason).raw(" at ").text(&at.node).raw(" since ");
        layout::time(html, at.since);
        html.raw("</span>");
    }
    html.raw("</th><td>").text(server.zone.as_deref().unwrap_or("–")).raw("</td>");
    figure(html, &server.weight.map_or_else(|| "–".to_owned(), |weight| weight.to_string()));
    html.raw("<td class=\"n\">");
    bar(html, server.share, "");
    html.text(&figures::share(server.share)).raw("</td>");
    figure(html, &figures::rate(server.numbers.requests_per_second));
    layout::bad_rate(html, server.numbers.errors_per_second, "critical");
    figure(html, &figures::milliseconds(server.numbers.p50));
    figure(html, &figures::milliseconds(server.numbers.p99));
    if shows_running {
        figure(html, &figures::thousands(server.numbers.running.into()));
    }
    html.raw("</tr>\n");
}

/// A part of a whole as a bar; the number beside it says the same.
pub(super) fn bar(html: &mut Html, part: f64, class: &'static str) {
    let width = format!("{:.1}", if part.is_finite() { part.clamp(0.0, 1.0) * 100.0 } else { 0.0 });
    html.raw("<svg class=\"bar ").raw(class);
    html.raw("\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"whole\" width=\"100\" height=\"8\"/>");
    html.raw("<rect class=\"part\" height=\"8\"").attribute("width", &width).raw("/></svg>");
}

pub(super) fn certificates(html: &mut Html, certificates: &[CertificateView]) {
    if certificates.is_empty() {
        html.raw("<p class=\"none\">The object has no certificate.</p>\n");
        return;
    }
    let columns = [("State", false), ("Use", false), ("Subject", false), ("Expires", false), ("Days left", true)];
    open_table(html, "Certificates", &columns);
    let mut certificates: Vec<&CertificateView> = certificates.iter().collect();
    certificates.sort_by_key(|certificate| certificate.not_after);
    for certificate in certificates.into_iter().take(MAX_ROWS) {
        html.raw("<tr><td>");
        match certificate.days_left {
            i64::MIN..0 => mark(html, "critical", "Expired"),
            0..CRITICAL_DAYS => mark(html, "critical", "Ends soon"),
            CRITICAL_DAYS..WARNING_DAYS => mark(html, "warning", "Ends soon"),
            _ => mark(html, "good", "Valid"),
        }
        html.raw("</td><td>").text(usage(&certificate.usage)).raw("</td><th scope=\"row\">");
        html.text(&certificate.subject).raw("</th><td>");
        layout::time(html, certificate.not_after);
        html.raw("</td>");
        figure(html, &certificate.days_left.to_string());
        html.raw("</tr>\n");
    }
    close_table(html);
}

fn usage(usage: &str) -> &str {
    match usage {
        "serving" => "Shown to clients",
        "client" => "Shown to servers",
        "clientCA" => "CA of clients",
        "upstreamCA" => "CA of servers",
        other => other,
    }
}
