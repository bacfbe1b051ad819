//! Requests in flight at each server, on the console and in `portcullis top`.

use std::process::Command;

use portcullis_harness::client::{H2Client, plain};
use portcullis_harness::{deps, wait, write_private};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::fixture::{NAME, PODS};

#[test]
fn requests_in_flight_are_shown_at_their_servers() {
    let fixture = AgentFixture::new("agent-in-flight");
    let other = fixture.pki.stub("stub-1");
    let site = fixture.site("envoy-0").start().unwrap();
    let addresses = [fixture.stub.address(), other.address()].map(|one| one.to_string());
    let servers: Vec<Value> = addresses.iter().map(|one| json!({"endpoint": format!("https://{one}")})).collect();
    let manifest = fixture.manifest().set("/spec/servers", json!(servers));
    let path = site.manifests.join("cluster.yaml");
    write_private(&path, manifest.to_text().as_bytes()).unwrap();
    let alice = H2Client::connect(&fixture.target(site.address)).unwrap();
    let watch = format!("{PODS}?watch=true");
    let stubs = [&fixture.stub, &other];
    let open = || stubs.map(|stub| stub.records_for(PODS).len());
    let mut watches = Vec::new();
    wait::until("each server has a watch", SOON, || {
        watches.push(alice.open("GET", &watch, &[], b"").unwrap());
        (open().iter().all(|count| *count > 0)).then_some(())
    })
    .unwrap();
    let (expected, http) = (open(), site.plane().http_address());
    let page = || plain::get(http, &format!("/ui/api/clusters/{NAME}")).unwrap().json().unwrap();
    let shown = |page: &Value| {
        let of = |server: &String| page["servers"].as_array()?.iter().find(|one| one["server"] == *server).cloned();
        addresses
            .each_ref()
            .map(|server| of(server).and_then(|one| one["numbers"]["running"].as_u64()).unwrap_or_default())
    };
    let until = |expected: [usize; 2]| {
        let found = || {
            let page: Value = page();
            if shown(&page) == expected.map(|count| count as u64) { Ok(()) } else { Err(format!("{page:#}")) }
        };
        wait::until_ok("the servers show their requests", SOON, found).unwrap();
    };
    until(expected);
    let html = plain::get(http, &format!("/ui/clusters/{NAME}")).unwrap().text();
    let servers = html.split("<h2 id=\"servers\">").nth(1).unwrap().split("</table>").next().unwrap();
    assert!(servers.contains("In flight"), "{servers}");
    let address = http.to_string();
    let top =
        Command::new(deps::portcullis().unwrap()).args(["top", "-c", NAME, "--address", &address]).output().unwrap();
    let top = String::from_utf8(top.stdout).unwrap();
    for (server, count) in addresses.iter().zip(expected) {
        let line = top.lines().find(|line| line.starts_with(server.as_str())).unwrap();
        assert!(line.split_whitespace().any(|word| word == count.to_string()), "{top}");
    }
    drop(watches);
    until([0, 0]);
}
