//! A token that is known here as good and that the server no longer believes: the server closes the shared connection each
//! time, so the token does not go there again.

use std::time::{Duration, Instant};

use portcullis_harness::client::H2Client;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{PODS, assert_reviews, connect};
use crate::protected::{MASTER, Mode, Site};

const SOON: Duration = Duration::from_secs(25);
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// The answer's status, and whether the server was asked for it.
fn ask(site: &Site, client: &H2Client) -> (u16, bool) {
    let before = site.server.records_for(PODS).len();
    let status = client.get(PODS, &[("authorization", &format!("Bearer {MASTER}"))]).unwrap().status;
    (status, site.server.records_for(PODS).len() > before)
}

#[test]
fn token_that_the_server_rejects_is_reviewed_again() {
    let site = Site::start("revoked", Mode::RequestHeader);
    let client = connect(&site.target());
    let since = Instant::now();
    let reviewed_so_often = |times| assert_reviews(&site.fixture.gateway, &site.server, REVIEWS, times, since);
    assert_eq!(ask(&site, &client), (200, true));
    let reviewed = Instant::now();
    reviewed_so_often(1);
    let rejected = json!({"kind": "TokenReview", "status": {"authenticated": false}}).to_string();
    site.server.fault(Fault::new(PODS, Action::Unauthorized));
    site.server.fault(Fault::new(REVIEWS, Action::Respond { status: 201, headers: vec![], body: rejected }));

    assert_eq!(ask(&site, &client), (401, true), "believed here a while longer");
    // One 401 at once makes no review.
    reviewed_so_often(1);
    let stays_away = || (ask(&site, &client) == (401, false)).then_some(());
    wait::until("the gateway rejects it", SOON, stays_away).unwrap();
    assert!(reviewed.elapsed() >= Duration::from_secs(9), "{:?}", reviewed.elapsed());
    reviewed_so_often(2);
    assert_eq!(ask(&site, &client), (401, false), "and remembers it");
}
