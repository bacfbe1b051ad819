//! Reviews that are under way while what they are asked through changes.

use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SOON: Duration = Duration::from_secs(20);

/// How long a review may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Asks with the token, and makes a change while the question is under way. Nothing if its time was over before.
fn ask_while(fixture: &StubFixture, change: impl FnOnce()) -> Option<()> {
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let bearer = format!("Bearer {ROBOT}");
    fixture.stub.clear();
    fixture.stub.fault(Fault::new(REVIEWS, Action::Hold));
    let (client, started) = (H2Client::connect(&target).unwrap(), Instant::now());
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.get(PODS, &[("authorization", &bearer)]).unwrap());
        let asked = || (!fixture.stub.records_for(REVIEWS).is_empty()).then_some(());
        wait::until("the question is asked", SOON, asked).unwrap();
        change();
        fixture.stub.clear_faults();
        let answer = asking.join().unwrap();
        if answer.status == 503 && started.elapsed() >= DEADLINE {
            return None;
        }
        assert_eq!(answer.status, 200, "{}", answer.text());
        Some(())
    })
}

#[test]
fn review_under_way_outlives_its_cluster() {
    wait::retry_if_slow("questions have time", outlive).unwrap();
}

fn outlive() -> Option<()> {
    let fixture = StubFixture::without_cluster("questions", &GatewayOptions::default());
    for (name, interval) in [("kubernetes", "11s"), ("localhost", "12s")] {
        // Nothing is known of the token: the cluster's identity is another one each time.
        let manifest = fixture.manifest().set("/spec/clientConfig/serverName", json!(name));
        fixture.gateway.apply(&manifest).unwrap();
        let checked = manifest.set("/spec/portcullis", json!({"healthCheck": {"interval": interval}}));
        ask_while(&fixture, || fixture.gateway.apply(&checked).unwrap())?;
    }
    Some(())
}

#[test]
fn waiting_request_finds_servers_that_no_policy_names_any_more() {
    let left_group = || {
        let fixture = StubFixture::without_cluster("left-group", &GatewayOptions::default());
        let policies = |strategy: &str| json!([{"rules": [allow_all()], "strategy": strategy}]);
        fixture.gateway.apply(&fixture.manifest().policies(policies("Random"))).unwrap();
        ask_while(&fixture, || fixture.gateway.apply(&fixture.manifest().policies(policies("LeastRequest"))).unwrap())
    };
    wait::retry_if_slow("the question has time", left_group).unwrap();
}
