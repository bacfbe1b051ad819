//! kube-apiserver's audit log: what it saw, and as whom.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};

/// Every request at level Metadata, once, when its response is known. A watch is recorded when it starts, too.
pub(super) const POLICY: &str = r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata"}]}"#;

/// All complete events of a log file; a file that is not there yet has none.
pub(super) fn read(path: &Path) -> Result<Vec<Value>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(Error::file("reading", path))?,
    };
    // The last line may be half written.
    let complete = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
    let parse = |line: &str| {
        serde_json::from_str(line).map_err(|source| Error::Json { what: format!("an audit event: {line}"), source })
    };
    complete.lines().map(parse).collect()
}

/// The path of an event's request without its query.
pub(super) fn path(event: &Value) -> Option<&str> {
    event.get("requestURI")?.as_str()?.split('?').next()
}
