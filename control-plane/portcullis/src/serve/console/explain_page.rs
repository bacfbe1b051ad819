//! The form for a request, and the gateway's treatment of it.

use super::html::Html;
use super::layout::{close_table, mark, open_table};
use super::question::{Explained, Question};
use crate::explain::{DispatchAnswer, InstanceAnswer, PolicyAnswer, RequestInfoAnswer, ShadowAnswer};

/// The form, and below it the answer or the reason for which there is none.
pub(super) fn write(html: &mut Html, question: &Question, outcome: Option<&Result<Explained, String>>) {
    html.raw("<h1>Explain a request</h1>\n");
    html.raw("<p>How does the gateway treat it, by which policy, and why not by another? The answer comes from the filter's own code; no request is sent.</p>\n");
    form(html, question);
    match outcome {
        None => {}
        Some(Err(error)) => {
            html.raw("<p class=\"notice critical\" role=\"alert\">").text(error).raw("</p>\n");
        }
        Some(Ok(answer)) => result(html, answer),
    }
}

fn form(html: &mut Html, question: &Question) {
    html.raw("<form class=\"question\" method=\"post\" action=\"/ui/explain\">\n");
    html.raw("<div class=\"field\"><label for=\"text\">Request</label>\n");
    html.raw("<p id=\"forms\" class=\"hint\"><code>GET /api/v1/pods</code>, what <code>kubectl -v=8</code> prints, a <code>curl</code> command, or a line of the access log. Tokens are not read.</p>\n");
    html.raw("<textarea id=\"text\" name=\"text\" rows=\"5\" maxlength=\"16384\" spellcheck=\"false\" required aria-describedby=\"forms\">\n");
    html.lines(&without_tokens(&question.text)).raw("</textarea></div>\n<div class=\"row\">\n");
    field(html, "user", "User", "that of the log line, or anonymous", &question.user);
    field(html, "groups", "Groups, separated by commas", "dev, system:masters", &question.groups);
    field(html, "cluster", "Cluster", "found by the host", &question.cluster);
    html.raw("</div>\n<button class=\"primary\">Explain</button>\n</form>\n");
}

fn field(html: &mut Html, name: &'static str, label: &'static str, placeholder: &'static str, value: &str) {
    html.raw("<div class=\"field\"><label for=\"")
        .raw(name)
        .raw("\">")
        .raw(label)
        .raw("</label><input id=\"")
        .raw(name);
    html.raw("\" name=\"")
        .raw(name)
        .raw("\" autocomplete=\"off\" spellcheck=\"false\" placeholder=\"")
        .raw(placeholder);
    html.raw("\"").attribute("value", value).raw("></div>\n");
}

/// The text as it was pasted, with its tokens replaced: the page may be printed or photographed.
fn without_tokens(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    // ASCII letters keep their length in lower case.
    while let Some(at) = rest.to_ascii_lowercase().find("bearer ") {
        let (before, token) = rest.split_at(at + "bearer ".len());
        kept.push_str(before);
        let token = token.trim_start_matches(' ');
        let end = token.find(|one: char| one.is_whitespace() || "'\"".contains(one)).unwrap_or(token.len());
        kept.push_str(if end > 0 { "<masked>" } else { "" });
        rest = token.get(end..).unwrap_or_default();
    }
    kept.push_str(rest);
    kept
}

fn result(html: &mut Html, answer: &Explained) {
    let explanation = &answer.explanation;
    html.raw("<section aria-labelledby=\"answer\" class=\"answer\">\n<h2 id=\"answer\" tabindex=\"-1\">");
    match (&explanation.error, &explanation.refusal) {
        (Some(error), _) => {
            mark(html, "critical", "No answer");
            html.raw("</h2>\n<p class=\"notice critical\">").text(error).raw("</p>\n");
        }
        (None, Some(refusal)) => {
            mark(html, "critical", &format!("Refused: {} {}", refusal.code, refusal.reason));
            html.raw("</h2>\n<p>").text(&refusal.message).raw("</p>\n");
        }
        (None, None) => match explanation.passed_on {
            Some(passed_on) => {
                mark(html, "unknown", "Passed on, not judged");
                html.raw("</h2>\n<p>").text(passed_on).raw("</p>\n");
            }
            None => {
                mark(html, "good", "Forwarded");
                html.raw("</h2>\n");
            }
        },
    }
    html.raw("<dl class=\"facts\">\n");
    fact(html, "Request", |html| {
        html.raw("<code>").text(&answer.method).raw(" ").text(&answer.target).raw("</code>");
    });
    fact(html, "Identity", |html| identity(html, answer));
    fact(html, "Cluster", |html| {
        html.raw("<a href=\"").cluster_path(&answer.cluster).raw("\">").text(&answer.cluster).raw("</a>");
    });
    if let Some(instance) = &explanation.instance {
        fact(html, "Instance", |html| of_instance(html, instance));
    }
    if let Some(info) = &explanation.request_info {
        fact(html, "Meaning", |html| meaning(html, info));
    }
    if let Some(dispatch) = &explanation.dispatch {
        policy(html, dispatch);
    }
    if !explanation.policies.is_empty() {
        fact(html, "Attached", |html| attached(html, &explanation.policies));
    }
    if let Some(shadow) = &explanation.shadow {
        fact(html, "Shadow", |html| verdict(html, shadow));
    }
    html.raw("</dl>\n");
    remarks(html, answer);
    if let Some(dispatch) = explanation.dispatch.as_ref().filter(|dispatch| !dispatch.trace.is_empty()) {
        html.raw("<h3>Why not another policy</h3>\n<ol start=\"0\" class=\"trace\">\n");
        for mismatch in &dispatch.trace {
            html.raw("<li>").text(mismatch).raw("</li>\n");
        }
        html.raw("</ol>\n");
    }
    headers(html, explanation.upstream_headers.as_deref());
    if let Some(shadow) = &explanation.shadow {
        beside(html, shadow);
    }
    html.raw("</section>\n");
}

/// Whether the shadow would forward the request, in a few words.
fn verdict(html: &mut Html, shadow: &ShadowAnswer) {
    match &shadow.refusal {
        Some(refusal) => html.raw("would refuse it: ").show(refusal.code).raw(" ").text(refusal.reason),
        None => html.raw("would forward it"),
    };
}

/// The answer if what only reports decided.
fn beside(html: &mut Html, shadow: &ShadowAnswer) {
    html.raw("<h3 id=\"shadow\">If the shadow decided</h3>\n");
    if let Some(refusal) = &shadow.refusal {
        html.raw("<p>").text(&refusal.message).raw("</p>\n");
    }
    if let Some(dispatch) = &shadow.dispatch {
        html.raw("<dl class=\"facts\">\n");
        policy(html, dispatch);
        html.raw("</dl>\n");
    }
}

fn fact(html: &mut Html, name: &'static str, value: impl FnOnce(&mut Html)) {
    html.raw("<div><dt>").raw(name).raw("</dt><dd>");
    value(html);
    html.raw("</dd></div>\n");
}

fn identity(html: &mut Html, answer: &Explained) {
    match &answer.user {
        None => {
            html.raw("anonymous: no user is given");
        }
        Some(user) => {
            html.raw("<code>").text(user).raw("</code>, groups ");
            for (number, group) in answer.groups.iter().enumerate() {
                html.raw(if number > 0 { ", " } else { "" }).raw("<code>").text(group).raw("</code>");
            }
        }
    }
}

fn of_instance(html: &mut Html, instance: &InstanceAnswer) {
    match &instance.name {
        Some(name) => html.raw("<code>").text(name).raw("</code>"),
        None => html.raw("none"),
    };
    match &instance.settings {
        Some(settings) => html.raw(", by its settings <code>").text(settings).raw("</code>"),
        None => html.raw(", by the settings of all gateways"),
    };
}

/// Policies that are attached to the cluster, and what they do there.
fn attached(html: &mut Html, policies: &[PolicyAnswer]) {
    for (number, one) in policies.iter().enumerate() {
        html.raw(if number > 0 { "; " } else { "" }).text(one.kind).raw(" <code>").text(&one.policy).raw("</code> ");
        html.text(one.role.unwrap_or("has no effect")).raw(": ").text(&one.reason);
    }
}

fn meaning(html: &mut Html, info: &RequestInfoAnswer) {
    html.raw("<code>").text(&info.verb).raw("</code> ");
    if !info.is_resource_request {
        html.raw("of the path <code>").text(&info.path).raw("</code>");
        return;
    }
    html.raw("<code>").text(&info.resource);
    if !info.subresource.is_empty() {
        html.raw("/").text(&info.subresource);
    }
    html.raw("</code>");
    for (word, value) in [(" named ", &info.name), (" in namespace ", &info.namespace), (" of group ", &info.api_group)]
    {
        if !value.is_empty() {
            html.raw(word).raw("<code>").text(value).raw("</code>");
        }
    }
    html.raw(", version <code>").text(&info.api_version).raw("</code>");
    if info.long_running {
        html.raw(", long-running");
    }
}

fn policy(html: &mut Html, dispatch: &DispatchAnswer) {
    fact(html, "Policy", |html| match (dispatch.policy, dispatch.rule) {
        (Some(policy), Some(rule)) => {
            html.raw("policy ").show(policy).raw(", rule ").show(rule);
        }
        _ => {
            html.raw("none matches");
        }
    });
    if !dispatch.matched {
        return;
    }
    fact(html, "Limit", |html| match &dispatch.flow_control_schema {
        Some(schema) => {
            html.raw("schema <code>").text(schema).raw("</code>");
        }
        None => {
            html.raw("none");
        }
    });
    if let Some(flow) = &dispatch.flow {
        fact(html, "Flow", |html| {
            match flow.name.as_str() {
                "" => html.raw("the one of all requests without a flow of their own"),
                name => html.raw("<code>").text(name).raw("</code>"),
            };
            match flow.seats {
                0 => html.raw(", never waits"),
                seats => html.raw(", takes ").show(seats).raw(" of the seats"),
            };
        });
    }
    fact(html, "Destination", |html| {
        match &dispatch.upstream_subset {
            Some(subset) => {
                html.raw("the servers ");
                for (number, server) in subset.iter().enumerate() {
                    html.raw(if number > 0 { ", " } else { "" }).raw("<code>").text(server).raw("</code>");
                }
            }
            None => {
                html.raw("all servers");
            }
        }
        if let Some(strategy) = dispatch.strategy {
            html.raw(" by <code>").raw(strategy).raw("</code>");
        }
    });
}

fn remarks(html: &mut Html, answer: &Explained) {
    for problem in &answer.problems {
        html.raw("<p class=\"notice warning\">").text(problem).raw("</p>\n");
    }
    html.raw("<ul class=\"hint\">\n");
    for note in &answer.notes {
        html.raw("<li>").raw(note).raw("</li>\n");
    }
    html.raw("</ul>\n");
}

fn headers(html: &mut Html, headers: Option<&[(String, String)]>) {
    let Some(headers) = headers.filter(|headers| !headers.is_empty()) else { return };
    html.raw("<details id=\"upstream-headers\"><summary>Headers to the server</summary>\n");
    open_table(html, "Headers to the server", &[("Name", false), ("Value", false)]);
    for (name, value) in headers {
        html.raw("<tr><th scope=\"row\">").text(name).raw("</th><td>").text(value).raw("</td></tr>\n");
    }
    close_table(html);
    html.raw("</details>\n");
}

#[cfg(test)]
mod tests {
    use super::without_tokens;

    #[test]
    fn tokens_of_the_pasted_text_are_not_shown_again() {
        for (text, shown) in [
            ("Authorization: Bearer abc.def\nX: y", "Authorization: Bearer <masked>\nX: y"),
            ("curl -H 'authorization: BEARER  abc' x", "curl -H 'authorization: BEARER <masked>' x"),
            (
                "-H \"Authorization: Bearer a\" -H \"Authorization: bearer b\"",
                "-H \"Authorization: Bearer <masked>\" -H \"Authorization: bearer <masked>\"",
            ),
            ("GET /bearer ", "GET /bearer "),
            ("ä İbearer x", "ä İbearer <masked>"),
            ("", ""),
        ] {
            assert_eq!(without_tokens(text), shown);
        }
    }
}
