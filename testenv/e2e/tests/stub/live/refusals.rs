//! No response of a server takes the server out.

use std::time::Duration;

use portcullis_harness::client::{ClientPool, Outgoing};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};

use super::failures::more;
use super::site::Site;
use crate::fixture::PODS;

/// A service behind a server, which any user may make fail.
const BROKEN: &str = "/api/v1/namespaces/default/services/broken/proxy/";
const STORM: usize = 10_000;
/// Longer than a slow start.
const EASED_IN: Duration = Duration::from_secs(40);

#[test]
fn ten_thousand_upstream_503s_eject_nothing() {
    let site = Site::start("refusals");
    let crowd = ClientPool::new(2).unwrap();
    for stub in &site.stubs {
        let body = "the service is broken".to_owned();
        stub.fault(Fault::new(BROKEN, Action::Respond { status: 503, headers: Vec::new(), body }));
    }
    let regular = crowd.steady(&site.lanes(), &[PODS], 20.0).unwrap();
    let client = crowd.connect(&site.target().identity(&site.pki.alice)).unwrap();
    let answers = client.burst(vec![Outgoing::get(BROKEN, &[]); STORM], 50);
    let regular = regular.stop().unwrap();
    eprintln!("beside the storm: {regular}");
    for answer in answers {
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (503, "the service is broken"));
    }
    assert_eq!(regular.failed, 0, "{regular}");

    let ejections = site.gateway.envoy().admin().stats("outlier_detection.ejections_(enforced|active)").unwrap();
    assert!(ejections.iter().any(|(name, _)| name.contains("all_h2")), "{ejections:?}");
    assert!(ejections.iter().all(|(_, count)| *count == 0), "{ejections:?}");
    // Nor was one taken out by its health check and eased in again.
    let checks = site.gateway.envoy().admin().stats(r"health_check\.(failure|network_failure)$").unwrap();
    assert!(checks.iter().any(|(name, _)| name.contains("all_h2")), "{checks:?}");
    assert!(checks.iter().all(|(_, count)| *count == 0), "{checks:?}");
    let after = crowd.steady(&site.lanes(), &[PODS], 200.0).unwrap();
    // They may still be eased in, and one of them longer than the others.
    let are_equal = || {
        let shares = more(&after, 600);
        assert_eq!(shares.failed, 0, "{shares}");
        if shares.imbalance(3) < 1.2 { Ok(()) } else { Err(format!("{:?}", shares.servers)) }
    };
    wait::until_ok("equal shares", EASED_IN, are_equal).unwrap();
}
