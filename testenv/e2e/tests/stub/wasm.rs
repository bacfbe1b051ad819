//! What is particular to portcullis.wasm. Everything else runs with it, too: `PORTCULLIS_FILTER=wasm`.

use std::path::PathBuf;
use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::{deps, project_root, wait};

use crate::world::{NAME, PODS, World};

const SOON: Duration = Duration::from_secs(20);

fn with(file: PathBuf) -> GatewayOptions {
    GatewayOptions { wasm: Some(file), ..GatewayOptions::default() }
}

fn get(target: &TlsTarget, headers: &str) -> Option<(u16, String)> {
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{headers}\r\n");
    let response = target.raw_request(request.as_bytes()).ok()?;
    Some((response.status, response.text()))
}

#[test]
fn a_panic_fails_closed_and_the_vm_comes_back() {
    let world = World::start("wasm-panic", &with(project_root().join("target/wasm/faulty.wasm")));
    let target = world.gateway.target(NAME).identity(&world.pki.alice);
    for place in ["decide", "decided"] {
        assert_eq!(get(&target, "").unwrap().0, 200);
        world.stub.clear();
        let (status, body) = get(&target, &format!("X-Fault-Injection: {place}\r\n")).unwrap();
        assert_eq!(status, 503, "{place}: {body}");
        assert!(body.contains("\"kind\":\"Status\""), "{place}: {body}");
        assert!(world.client_records().is_empty(), "{place}");
        // Every worker, and so several times in a row.
        let mut in_a_row = 0;
        let serves = || {
            in_a_row = if get(&target, "").is_some_and(|(status, _)| status == 200) { in_a_row + 1 } else { 0 };
            (in_a_row >= 12).then_some(())
        };
        wait::until("the VM comes back", SOON, serves).unwrap();
        for record in world.client_records() {
            assert_eq!(record.header("impersonate-user").as_deref(), Some("alice"), "{place}: {record:?}");
        }
    }
}

#[test]
fn without_the_file_nothing_is_served() {
    let world = World::without_cluster("no-wasm", &with(PathBuf::from("/nowhere/portcullis.wasm")));
    world.gateway.write(&world.manifest()).unwrap();
    let plane = world.gateway.plane();
    plane
        .wait_status("Envoy refuses the listener", SOON, |status| {
            status.to_string().contains("/nowhere/portcullis.wasm")
        })
        .unwrap();
    assert_eq!(get(&world.gateway.target(NAME).identity(&world.pki.alice), ""), None);
    assert!(world.client_records().is_empty());
}

#[test]
fn the_user_is_told_by_the_vm_and_not_by_the_module() {
    let world = World::start("wasm-runs", &with(deps::wasm().unwrap()));
    let target = world.gateway.target(NAME).identity(&world.pki.alice);
    assert_eq!(get(&target, "").unwrap().0, 200);
    let records = world.client_records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].header("impersonate-user").as_deref(), Some("alice"));
    let stats = world.gateway.envoy().admin().get("/stats?filter=wasm").unwrap().text();
    assert!(stats.contains("wasm.envoy.wasm.runtime.v8.active"), "{stats}");
}
