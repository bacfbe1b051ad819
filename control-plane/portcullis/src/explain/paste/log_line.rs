use serde::Deserialize;

use super::{PasteError, PastedRequest};

/// The members of a line of the access log that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LogLine {
    cluster: Option<String>,
    method: String,
    path: String,
    verb: String,
    user: Option<String>,
    groups: Vec<String>,
    more_groups: u64,
    impersonated_user: Option<String>,
    user_agent: Option<String>,
    client: Option<String>,
}

/// Reads the first line.
pub(super) fn read(text: &str) -> Result<PastedRequest, PasteError> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let line: LogLine = lines
        .next()
        .and_then(|line| serde_json::from_str(line).ok())
        // One object over several lines, as `jq` prints it.
        .or_else(|| serde_json::from_str(text).ok())
        .filter(|line: &LogLine| !line.method.is_empty() && line.path.starts_with('/'))
        .ok_or(PasteError::LogLine)?;
    let mut request = PastedRequest { method: line.method, target: line.path, ..PastedRequest::default() };
    if line.verb.eq_ignore_ascii_case("watch") {
        request.target.push_str("?watch=true");
    }
    request
        .notes
        .push("Log lines do not hold the query: policies do not match it, but the answer lacks its selectors.");
    if line.more_groups > 0 {
        request.notes.push("The log line names a part of the user's groups: the others are missing here.");
    }
    if let Some(name) = line.impersonated_user {
        request.headers.push(("Impersonate-User".to_owned(), name));
        request.notes.push("Log lines do not hold the groups of an impersonated user.");
    }
    request.headers.extend(line.user_agent.map(|agent| ("User-Agent".to_owned(), agent)));
    // For access lists: Envoy writes the client's address there.
    request.headers.extend(line.client.map(|address| ("X-Forwarded-For".to_owned(), address)));
    (request.cluster, request.user, request.groups) = (line.cluster, line.user, line.groups);
    Ok(request)
}
