//! Watches that go on: what is made is seen in them.

use std::time::Duration;

use portcullis_harness::client::{H2Client, H2Stream, TlsTarget};
use serde_json::json;

use crate::world::PODS;

const SOON: Duration = Duration::from_secs(20);

/// Begins one.
pub(crate) fn watch(client: &H2Client) -> H2Stream<'_> {
    let stream = client.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    assert_eq!(stream.response.status, 200);
    stream
}

/// Creates a pod over a connection of its own, and sees it in the watch.
pub(crate) fn tells(target: &TlsTarget, stream: &mut H2Stream<'_>, name: &str) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}).to_string();
    let client = H2Client::connect(target).unwrap();
    let created = client.request("POST", PODS, &[("content-type", b"application/json")], pod.as_bytes()).unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let mut told = String::new();
    while !told.contains(name) {
        told += &String::from_utf8(stream.next_chunk(SOON).unwrap().unwrap()).unwrap();
    }
}
