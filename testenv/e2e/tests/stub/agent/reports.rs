//! The control plane hears how endpoints are.

use portcullis_stub_apiserver::{Action, Fault};

use super::site::{Grounds, SOON, Site};
use crate::world::NAME;

#[test]
fn the_control_plane_hears_of_endpoints_that_fail_and_recover() {
    let grounds = Grounds::new("agent-reports");
    let site = Site::start(&grounds, "envoy-0", |_| ());
    let seen = |healthy: u64| {
        move |status: &serde_json::Value| {
            let seen = &status["endpoints"][format!("e2e/-/{NAME}/all.h2")]["envoy-0"];
            seen["total"] == 1 && seen["healthy"] == healthy
        }
    };
    site.plane.wait_status("the endpoint is healthy", SOON, seen(1)).unwrap();
    let failing = Fault::new("/readyz", Action::Respond { status: 500, headers: Vec::new(), body: String::new() });
    grounds.stub.fault(failing);
    site.plane.wait_status("the endpoint has failed", SOON * 2, seen(0)).unwrap();
    grounds.stub.clear_faults();
    site.plane.wait_status("the endpoint has recovered", SOON * 2, seen(1)).unwrap();
}
