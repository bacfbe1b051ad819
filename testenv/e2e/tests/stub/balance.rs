//! How requests are spread over servers, by the strategy of their policy.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::{Value, json};

use crate::fixture::{NAME, StubFixture};

const SOON: Duration = Duration::from_secs(20);
/// Longer than that.
const EASED_IN: Duration = Duration::from_secs(40);
const ROUNDS: usize = 200;
const BY_TURNS: &str = "/api/v1/namespaces/default/services";
const BY_LOAD: &str = "/api/v1/namespaces/default/pods";
const BY_CHANCE: &str = "/api/v1/namespaces/default/secrets";
/// Comes under the same policy as [`BY_LOAD`].
const SLOW: &str = "/api/v1/namespaces/slow/pods";

fn policy(resource: &str, strategy: &str) -> Value {
    let rule = json!({"verbs": ["*"], "apiGroups": [""], "resources": [resource]});
    json!({"rules": [rule], "strategy": strategy})
}

/// Two servers and a policy for each strategy.
fn start(test: &str) -> (StubFixture, StubServer) {
    let fixture = StubFixture::without_cluster(test, &GatewayOptions::default());
    let second = fixture.pki.stub("stub-1");
    let servers = [fixture.stub.address(), second.address()];
    let servers: Vec<_> = servers.iter().map(|one| json!({"endpoint": format!("https://{one}")})).collect();
    let manifest = fixture.manifest().set("/spec/servers", json!(servers)).policies(json!([
        policy("services", ""),
        policy("pods", "LeastRequest"),
        policy("secrets", "Random"),
        {"rules": [allow_all()]},
    ]));
    fixture.gateway.apply(&manifest).unwrap();
    (fixture, second)
}

fn count(stub: &StubServer, path: &str) -> usize {
    stub.records().iter().filter(|record| record.path() == path).count()
}

/// Asks one after the other; how many of the requests reached each server.
fn shares(client: &H2Client, stubs: [&StubServer; 2], path: &str) -> [usize; 2] {
    let before = stubs.map(|stub| count(stub, path));
    for _ in 0..ROUNDS {
        assert_eq!(client.get(path, &[]).unwrap().status, 200, "{path}");
    }
    let after = stubs.map(|stub| count(stub, path));
    [after[0] - before[0], after[1] - before[1]]
}

/// Both servers take requests of every strategy.
fn both_are_healthy(client: &H2Client, stubs: [&StubServer; 2]) {
    for path in [BY_TURNS, BY_LOAD, BY_CHANCE] {
        let served = || {
            let _ = client.get(path, &[]).ok()?;
            stubs.iter().all(|stub| count(stub, path) > 0).then_some(())
        };
        wait::until("both servers are healthy", SOON, served).unwrap();
    }
}

/// One after the other in turn, but for the little by which one was found healthy before the other: it counts for more as
/// long as both are eased in.
fn by_turns(client: &H2Client) {
    let server = |_| client.get(BY_TURNS, &[]).unwrap().header("x-stub-name").unwrap();
    let are_in_turn = || {
        let servers: Vec<String> = (0..ROUNDS).map(server).collect();
        let twice = servers.windows(2).filter(|pair| pair[0] == pair[1]).count();
        if twice <= 8 { Ok(()) } else { Err(format!("{twice} times the same one twice")) }
    };
    wait::until_ok("servers are asked in turn", EASED_IN, are_in_turn).unwrap();
}

#[test]
fn each_strategy_spreads_as_its_name_says() {
    let (fixture, second) = start("strategies");
    let stubs = [&fixture.stub, &second];
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let client = H2Client::connect(&target).unwrap();
    both_are_healthy(&client, stubs);

    by_turns(&client);
    // A fair coin leaves these bounds once in ten million runs.
    let by_chance = shares(&client, stubs, BY_CHANCE);
    assert!(by_chance.iter().all(|share| (63..=137).contains(share)), "{by_chance:?}");

    second.fault(Fault::new(SLOW, Action::Hold));
    std::thread::scope(|scope| {
        let stuck = || {
            scope.spawn(|| H2Client::connect(&target).unwrap().get(SLOW, &[]).map(|response| response.status));
            (count(&second, SLOW) > 0).then_some(())
        };
        wait::until("the second server is busy", SOON, stuck).unwrap();
        // It gets a request only where chance picks it twice: a quarter of them.
        let [fast, slow] = shares(&client, stubs, BY_LOAD);
        assert!((15..=85).contains(&slow) && fast > slow, "{fast} {slow}");
        // Turns do not care.
        by_turns(&client);
        second.clear_faults();
    });
}

#[test]
fn connection_to_a_server_carries_fewer_streams_than_it_allows() {
    let fixture = StubFixture::start("streams", &GatewayOptions::default());
    let client = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let watch = |_| client.open("GET", &format!("{BY_TURNS}?watch=true"), &[], b"").unwrap();
    // As many as a client's connection to the gateway may have.
    let watches: Vec<_> = (0..100).map(watch).collect();
    assert!(watches.iter().all(|watch| watch.response.status == 200));
    let mut streams = std::collections::BTreeMap::<u64, usize>::new();
    for record in fixture.stub.records_for(BY_TURNS) {
        *streams.entry(record.connection).or_default() += 1;
    }
    let mut counts: Vec<_> = streams.into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [10, 90]);
}
