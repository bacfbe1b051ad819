//! The frame of every page, and the parts that several pages share.

use portcullis_api::status::Timestamp;

use super::figures;
use super::html::Html;
use crate::serve::fleet::view::{Numbers, Severity};

/// The pages that the navigation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConsolePage {
    Fleet,
    Cluster,
    Explain,
    Login,
}

/// The inputs of the frame.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    pub(super) place: ConsolePage,
    /// The reader's name, and whether a session of the reader's can be ended.
    pub(super) reader: Option<(&'a str, bool)>,
    /// The stream of events at which the page is fetched again.
    pub(super) events: Option<&'a str>,
}

/// A whole page.
pub(super) fn page(frame: &Frame<'_>, content: impl FnOnce(&mut Html)) -> String {
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<title>").text(frame.title);
    html.raw(" · Portcullis</title>\n<link rel=\"icon\" href=\"/ui/icon.svg\" type=\"image/svg+xml\">\n");
    html.raw("<link rel=\"stylesheet\" href=\"/ui/console.css\">\n<script src=\"/ui/console.js\" defer></script>\n");
    html.raw("</head>\n<body");
    if let Some(events) = frame.events {
        html.attribute("data-events", events);
    }
    html.raw(">\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n");
    header(&mut html, frame);
    html.raw("<main id=\"main\" tabindex=\"-1\">\n");
    content(&mut html);
    html.raw("</main>\n<footer>\n<p id=\"connection\" role=\"status\" aria-live=\"polite\"></p>\n");
    if frame.events.is_some() {
        html.raw("<noscript><p>Reload the page for newer numbers: it follows them by itself only with JavaScript.</p></noscript>\n");
    }
    html.raw("<p>Portcullis ").text(env!("CARGO_PKG_VERSION")).raw("</p>\n</footer>\n</body>\n</html>\n");
    html.finish()
}

fn header(html: &mut Html, frame: &Frame<'_>) {
    html.raw("<header>\n<a class=\"brand\" href=\"/ui/\"><img src=\"/ui/icon.svg\" alt=\"\" width=\"22\" height=\"22\">Portcullis</a>\n");
    if frame.place != ConsolePage::Login {
        html.raw("<nav aria-label=\"Console\"><ul>");
        entry(html, "/ui/", "Fleet", frame.place == ConsolePage::Fleet);
        entry(html, "/ui/explain", "Explain", frame.place == ConsolePage::Explain);
        html.raw("</ul></nav>\n");
    }
    if let Some((reader, has_session)) = frame.reader {
        html.raw("<div class=\"reader\"><span class=\"name\">").text(reader).raw("</span>");
        if has_session {
            html.raw("<form method=\"post\" action=\"/ui/logout\"><button>Log out</button></form>");
        }
        html.raw("</div>\n");
    }
    html.raw("</header>\n");
}

fn entry(html: &mut Html, path: &'static str, name: &'static str, is_current: bool) {
    html.raw("<li><a href=\"").raw(path).raw("\"");
    if is_current {
        html.raw(" aria-current=\"page\"");
    }
    html.raw(">").raw(name).raw("</a></li>");
}

/// The class of a severity in the stylesheet, and its word.
pub(super) const fn severity_words(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Good => ("good", "Good"),
        Severity::Unknown => ("unknown", "Unknown"),
        Severity::Warning => ("warning", "Warning"),
        Severity::Critical => ("critical", "Critical"),
    }
}

/// A severity as a mark with its word.
pub(super) fn badge(html: &mut Html, severity: Severity) {
    let (class, word) = severity_words(severity);
    mark(html, class, word);
}

/// A mark of a severity's class with another word.
pub(super) fn mark(html: &mut Html, class: &'static str, word: &str) {
    html.raw("<span class=\"state ").raw(class).raw("\">").text(word).raw("</span>");
}

/// Starts a table in a frame that scrolls; each column is its name and whether it holds numbers.
pub(super) fn open_table(html: &mut Html, name: &'static str, columns: &[(&'static str, bool)]) {
    html.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"").raw(name);
    html.raw("\"><table>\n<thead><tr>");
    for (column, is_number) in columns {
        html.raw(if *is_number { "<th scope=\"col\" class=\"n\">" } else { "<th scope=\"col\">" });
        html.raw(column).raw("</th>");
    }
    html.raw("</tr></thead>\n<tbody>\n");
}

pub(super) fn close_table(html: &mut Html) {
    html.raw("</tbody></table></div>\n");
}

/// A cell with a number.
pub(super) fn figure(html: &mut Html, text: &str) {
    html.raw("<td class=\"n\">").text(text).raw("</td>");
}

/// A rate at which there should be none: marked if there is one.
pub(super) fn bad_rate(html: &mut Html, value: f64, class: &'static str) {
    if value > 0.0 {
        html.raw("<td class=\"n ").raw(class).raw("\">").text(&figures::rate(value)).raw("</td>");
    } else {
        figure(html, "0");
    }
}

/// The columns of [`numbers`].
pub(super) const NUMBERS: [(&str, bool); 8] = [
    ("Requests/s", true),
    ("Errors/s", true),
    ("Refused/s", true),
    ("p50", true),
    ("p99", true),
    ("In flight", true),
    ("Watches", true),
    ("Sessions", true),
];

/// Rates and gauges as cells.
pub(super) fn numbers(html: &mut Html, numbers: &Numbers) {
    figure(html, &figures::rate(numbers.requests_per_second));
    bad_rate(html, numbers.errors_per_second, "critical");
    bad_rate(html, numbers.refusals_per_second, "warning");
    figure(html, &figures::milliseconds(numbers.p50));
    figure(html, &figures::milliseconds(numbers.p99));
    for gauge in [numbers.running, numbers.watches, numbers.sessions] {
        figure(html, &figures::thousands(u64::from(gauge)));
    }
}

/// A number with its name, for the strip at the head of a page.
pub(super) fn tile(html: &mut Html, name: &'static str, value: &str, class: &'static str) {
    html.raw("<div class=\"tile ").raw(class).raw("\"><dt>").raw(name).raw("</dt><dd>").text(value).raw("</dd></div>");
}

/// A point in time.
pub(super) fn time(html: &mut Html, seconds: u64) {
    let text = Timestamp::from_seconds(seconds).to_string();
    html.raw("<time").attribute("datetime", &text).raw(">").text(&text).raw("</time>");
}
