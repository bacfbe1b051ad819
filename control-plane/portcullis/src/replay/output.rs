//! The report as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::outcome::MetOutcome;
use super::tally::{Difference, DifferenceKey, LineExample, SchemaCount, Tally};
use crate::display_text::{self, one_line};
use crate::explain::ExplainCall;
use crate::output::OutputError;
use crate::table::aligned;

/// Users that are named for each difference.
const USERS: usize = 5;

/// The report for people.
pub(super) fn text(tally: &Tally, notes: &[String], show: usize) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "lines: {} read, {} the same ({} of them by a policy of another number), {} different, {} unknown, {} not judged",
        tally.lines,
        tally.same,
        tally.renumbered,
        tally.different,
        tally.undecided(),
        tally.unjudged.values().sum::<u64>(),
    );
    write_differences(&mut text, tally, show);
    if !tally.unknown.is_empty() {
        text.push_str("\nunknown: what the log does not have could decide\n");
        for (reason, (count, example)) in &tally.unknown {
            let _ = writeln!(text, "  {count}: {reason}; the first is line {}: {}", example.line, request(example));
        }
    }
    if !tally.unjudged.is_empty() {
        text.push_str("\nnot judged\n");
        for (reason, count) in &tally.unjudged {
            let _ = writeln!(text, "  {count}: {reason}");
        }
        for (name, count) in &tally.strangers {
            let _ = writeln!(text, "  {count} of them: cluster {}", one_line(name));
        }
    }
    let changed: Vec<_> = tally.schemas.iter().filter(|(_, count)| count.then != count.now).collect();
    if !changed.is_empty() {
        text.push_str("\nflow control: requests that schemas count (limits are not replayed)\n");
        let mut rows = vec![["CLUSTER", "SCHEMA", "THEN", "REFUSED THEN", "NOW"].map(str::to_owned).to_vec()];
        rows.extend(changed.into_iter().map(|((cluster, schema), SchemaCount { then, limited, now })| {
            vec![one_line(cluster), one_line(schema), then.to_string(), limited.to_string(), now.to_string()]
        }));
        text.push_str(&aligned(&rows, &[2, 3, 4]));
    }
    for note in notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn write_differences(text: &mut String, tally: &Tally, show: usize) {
    let differences = tally.differences();
    for (key, difference) in differences.iter().take(show) {
        let _ = writeln!(text, "\n{}: {}", difference.count, one_line(&key.cluster));
        let limited = match difference.limited {
            0 => String::new(),
            limited => format!("; {limited} of them were refused by a limit"),
        };
        let _ = writeln!(text, "  then: {}{limited}", outcome(&key.then));
        let _ = writeln!(text, "  now:  {}", outcome(&key.now));
        let (users, others) = difference.top_users(USERS);
        let mut named: Vec<String> =
            users.into_iter().map(|(user, count)| format!("{} ({count})", user_name(user))).collect();
        if others > 0 || difference.others > 0 {
            let more = if difference.others > 0 { " or more" } else { "" };
            named.push(format!("and {others}{more} others"));
        }
        let _ = writeln!(text, "  users: {}", named.join(", "));
        let call = call(key, &difference.example).shell("FILES");
        let _ = writeln!(text, "  line {}: {call}", difference.example.line);
    }
    let hidden = differences.len().saturating_sub(show);
    let lines: u64 = differences.iter().skip(show).map(|(_, difference)| difference.count).sum::<u64>();
    if hidden > 0 || tally.unnamed > 0 {
        let more = if tally.unnamed > 0 { " or more" } else { "" };
        let _ =
            writeln!(text, "\n{hidden}{more} further differences: {} requests", lines.saturating_add(tally.unnamed));
    }
}

/// The outcome in words.
fn outcome(met: &MetOutcome) -> String {
    let mut text = match met.policy {
        Some(policy) => format!("policy {policy}"),
        None if met.refused.is_none() => "no policy's number".to_owned(),
        None => String::new(),
    };
    let mut add = |part: &str| {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(part);
    };
    if let Some(refused) = met.refused {
        add(&format!("refused: {refused}"));
        if let Some(message) = &met.message {
            add(&one_line(message));
        }
        return text;
    }
    match met.server_group.as_deref() {
        Some("all") => add("all servers"),
        Some(group) => add(&format!("servers {}", one_line(group))),
        None => {}
    }
    match &met.schema {
        Some(schema) => add(&format!("schema {}", one_line(schema))),
        None => add("no schema"),
    }
    text
}

fn user_name(user: &str) -> String {
    if user.is_empty() { "unknown".to_owned() } else { one_line(user) }
}

fn request(example: &LineExample) -> String {
    let acting = match example.impersonated_user.as_str() {
        "" => String::new(),
        name => format!(" as {}", one_line(name)),
    };
    format!("{} {} by {}{acting}", one_line(&example.method), one_line(&example.path), user_name(&example.user))
}

fn call(key: &DifferenceKey, example: &LineExample) -> ExplainCall {
    let filled = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let query = if example.verb == "watch" { "?watch=true" } else { "" };
    let client = filled(&example.client).map(|client| ("X-Forwarded-For".to_owned(), client));
    let agent = filled(&example.user_agent).map(|agent| ("User-Agent".to_owned(), agent));
    ExplainCall {
        host: key.cluster.clone(),
        method: example.method.clone(),
        target: format!("{}{query}", example.path),
        user: filled(&example.user),
        groups: example.groups.clone(),
        impersonated: filled(&example.impersonated_user),
        headers: client.into_iter().chain(agent).collect(),
    }
}

/// The report for programs.
pub(super) fn json(tally: &Tally, notes: &[String], show: usize) -> Result<String, OutputError> {
    let differences = tally.differences();
    let shown: Result<Vec<Value>, serde_json::Error> =
        differences.iter().take(show).map(|(key, difference)| entry(key, difference)).collect();
    let hidden: u64 = differences.iter().skip(show).map(|(_, difference)| difference.count).sum::<u64>();
    let unknown: Vec<Value> = tally
        .unknown
        .iter()
        .map(|(reason, (count, example))| json!({"reason": reason, "count": count, "example": example}))
        .collect();
    let schemas: Vec<Value> = tally
        .schemas
        .iter()
        .map(|((cluster, schema), count)| {
            json!({"cluster": cluster, "schema": schema, "then": count.then, "refusedThen": count.limited, "now": count.now})
        })
        .collect();
    let value = json!({
        "lines": tally.lines,
        "same": tally.same,
        "renumbered": tally.renumbered,
        "different": tally.different,
        "unknown": unknown,
        "notJudged": tally.unjudged,
        "otherClusters": tally.strangers,
        "differences": shown?,
        "differentElsewhere": hidden.saturating_add(tally.unnamed),
        "flowControl": schemas,
        "notes": notes,
    });
    Ok(display_text::json(&value))
}

fn entry(key: &DifferenceKey, difference: &Difference) -> Result<Value, serde_json::Error> {
    let (users, others) = difference.top_users(USERS);
    let users: Vec<Value> = users.into_iter().map(|(name, count)| json!({"name": name, "count": count})).collect();
    let mut example = serde_json::to_value(&difference.example)?;
    if let Value::Object(example) = &mut example {
        example.insert("explain".to_owned(), json!(call(key, &difference.example).words()));
    }
    Ok(json!({
        "cluster": key.cluster,
        "then": key.then,
        "now": key.now,
        "count": difference.count,
        "refusedByLimits": difference.limited,
        "users": users,
        "otherUsers": others,
        "example": example,
    }))
}
