//! Clients that disconnect in every state of a request: by RST_STREAM, by closing the connection, by a TCP reset. Nothing is
//! left of their requests, no other client notices, and no request arrives as another user's.

mod case;
mod flood;
mod followers;
mod states;

use std::collections::BTreeSet;
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, MetricsPage, allow_all};
use portcullis_harness::wait;
use portcullis_stub_apiserver::TokenEntry;
use serde_json::json;

use crate::fixture::{NAME, StubFixture};
use crate::observe::with_another_request;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// A path that every user may read.
const VERSION: &str = "/version";
const SOON: Duration = Duration::from_secs(20);
/// Requests that may be in flight: fewer than leave in each test, so that a permit that is not released is missed.
const MAX: usize = 4;
/// The window with which HTTP/2 connections begin.
const WINDOW: u32 = 65_535;

fn user(number: usize) -> String {
    format!("user-{number}")
}

fn token(number: usize) -> String {
    format!("the-token-of-user-{number}")
}

/// A gateway whose stub knows so many tokens, with [`MAX`] requests in flight.
fn start(test: &str, users: usize, max: usize) -> StubFixture {
    let entry = |number| TokenEntry { user: user(number), groups: vec![user(number)], ..TokenEntry::default() };
    let tokens = (0..users).map(|number| (token(number), entry(number)));
    let fixture = StubFixture::with_tokens(test, &GatewayOptions::default(), tokens);
    let schemas = json!({"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": max}}]});
    let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": "few"}]);
    fixture.gateway.apply(&fixture.manifest().set("/spec/flowControl", schemas).policies(policies)).unwrap();
    fixture
}

fn reviews(fixture: &StubFixture) -> usize {
    [TOKEN_REVIEWS, ACCESS_REVIEWS].iter().map(|path| fixture.stub.records_for(path).len()).sum()
}

/// Requests of clients that have no whole answer yet.
pub(crate) fn active(fixture: &StubFixture) -> u64 {
    let active = fixture.gateway.envoy().admin().stats("^http\\..*downstream_rq_active$").unwrap();
    active.iter().filter(|(name, _)| !name.starts_with("http.admin.")).map(|(_, count)| count).sum()
}

/// Waits until Envoy and the stub run nothing.
fn all_are_gone(fixture: &StubFixture, what: &str) {
    let are_gone = || {
        let (active, running) = (active(fixture), fixture.stub.running());
        if (active, running) == (0, 0) { Ok(()) } else { Err(format!("{active} active, {running} at the stub")) }
    };
    wait::until_ok(&format!("{what}: all have left"), SOON, are_gone).unwrap();
}

/// Waits until the filter counts nothing: no review, no request in flight.
fn nothing_is_counted(fixture: &StubFixture) {
    let is_nothing = || {
        with_another_request(&fixture.gateway.target(NAME));
        let page = MetricsPage::of(&fixture.gateway);
        let counts = ["reviews_in_flight", "requests_in_flight"].map(|gauge| page.sum(gauge, &[]));
        if counts == [0, 0] { Ok(()) } else { Err(format!("reviews, slots: {counts:?}")) }
    };
    wait::until_ok("no review and no request in flight is counted", SOON, is_nothing).unwrap();
}

/// The namespace that a request asks for.
fn namespace(target: &str) -> &str {
    target.split('/').nth(4).unwrap_or_default()
}

/// Asserts that the stub handled each request as the user whose namespace it asks for, and returns the requests' targets.
fn all_are_their_own(fixture: &StubFixture) -> BTreeSet<String> {
    let records = fixture.client_records();
    for record in &records {
        let Some(user) = &record.effective else { continue };
        let is_own = user.username == namespace(&record.target) || record.target == VERSION;
        assert!(is_own, "{} as {}", record.target, user.username);
    }
    records.into_iter().map(|record| record.target).collect()
}
