use std::time::Duration;

use portcullis_harness::client::{H2Client, H2Stream, TlsTarget};
use portcullis_harness::{Error, Result};
use serde_json::json;

use crate::fixture::PODS;

/// How long a watch may take to show a change.
const SHOWN: Duration = Duration::from_secs(20);

/// Creates a pod at the stub.
pub(crate) fn create_pod(client: &H2Client, name: &str) -> Result<()> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}).to_string();
    let created = client.request("POST", PODS, &[("content-type", b"application/json")], pod.as_bytes())?;
    assert_eq!(created.status, 201, "{}", created.text());
    Ok(())
}

/// Reads a watch until it has shown the text. An error if it ends before.
pub(crate) fn read_until(watch: &mut H2Stream<'_>, text: &str) -> Result<()> {
    let mut shown = String::new();
    while !shown.contains(text) {
        let chunk = watch.next_chunk(SHOWN)?.ok_or(Error::Http { step: "watching", reason: "the end".to_owned() })?;
        shown += &String::from_utf8(chunk).unwrap();
    }
    Ok(())
}

/// Creates a pod over a connection of its own, and reads the watch until it shows it.
pub(crate) fn watch_shows(target: &TlsTarget, watch: &mut H2Stream<'_>, name: &str) -> Result<()> {
    create_pod(&H2Client::connect(target)?, name)?;
    read_until(watch, name)
}
