//! Reviews that are under way while what they are asked through changes.

use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::H2Client;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::world::{NAME, PODS, ROBOT, World};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_question_that_is_under_way_outlives_the_cluster_that_it_was_put_to() {
    let world = World::start("questions", &GatewayOptions::default());
    let target = world.gateway.target(NAME).timeout(SOON);
    let bearer = format!("Bearer {ROBOT}");
    let health = |number: usize| json!({"healthCheck": {"interval": format!("{}s", number + 10)}});
    for number in 0..2 {
        world.stub.clear();
        world.stub.fault(Fault::new(REVIEWS, Action::Hold));
        // Nothing is known of the token: its cluster's identity is another one each time.
        let manifest =
            world.manifest().set("/spec/clientConfig/serverName", json!(["kubernetes", "localhost"][number % 2]));
        world.gateway.apply(&manifest.clone().set("/spec/portcullis", json!({}))).unwrap();
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let client = H2Client::connect(&target).unwrap();
                client.get(PODS, &[("authorization", &bearer)]).unwrap()
            });
            let asked = || (!world.stub.records_for(REVIEWS).is_empty()).then_some(());
            wait::until("the question is asked", SOON, asked).unwrap();
            world.gateway.apply(&manifest.set("/spec/portcullis", health(number))).unwrap();
            world.stub.clear_faults();
            let answer = asking.join().unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
        });
    }
}
