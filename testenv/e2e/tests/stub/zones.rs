//! A gateway that has a zone sends requests to healthy servers of its own zone, if there are any.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture, connect};

const SOON: Duration = Duration::from_secs(20);

/// Two servers in zone a, one in b, one in none.
struct Zones {
    fixture: StubFixture,
    servers: Vec<StubServer>,
}

impl Zones {
    fn start(test: &str, options: &GatewayOptions, strategy: &str) -> Self {
        let fixture = StubFixture::without_cluster(test, options);
        let servers = ["a-0", "a-1", "b-0", "none"].map(|name| fixture.pki.stub(name)).into();
        let zones = Zones { fixture, servers };
        zones.fixture.gateway.apply(&zones.manifest(strategy)).unwrap();
        zones
    }

    fn manifest(&self, strategy: &str) -> Manifest {
        let servers: Vec<_> = self.servers.iter().map(|server| json!({"endpoint": server.url()})).collect();
        let zone = |number: usize, zone: &str| json!({"endpoint": self.servers[number].url(), "zone": zone});
        self.fixture
            .manifest()
            .set("/spec/servers", json!(servers))
            .policies(json!([{"rules": [allow_all()], "strategy": strategy}]))
            .set(
                "/spec/portcullis",
                json!({
                    "servers": [zone(0, "a"), zone(1, "a"), zone(2, "b")],
                    "healthCheck": {"interval": "1s"},
                }),
            )
    }

    /// How many of sixty requests reach each server.
    fn shares(&self, client: &H2Client) -> Vec<usize> {
        self.servers.iter().for_each(StubServer::clear);
        for _ in 0..60 {
            let answer = client.get(PODS, &[]).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        self.servers.iter().map(|server| server.records_for(PODS).len()).collect()
    }

    fn client(&self) -> H2Client {
        connect(&self.fixture.gateway.target(NAME).identity(&self.fixture.pki.alice))
    }

    /// Waits until exactly these servers get requests.
    fn wait_for(&self, client: &H2Client, wanted: [bool; 4]) {
        let reached = || {
            let shares = self.shares(client);
            let is_so = shares.iter().zip(wanted).all(|(share, wanted)| (*share > 0) == wanted);
            if is_so { Ok(()) } else { Err(format!("{shares:?}")) }
        };
        wait::until_ok(&format!("requests reach {wanted:?}"), SOON, reached).unwrap();
    }

    fn sicken(&self, numbers: &[usize]) {
        for number in numbers {
            self.servers[*number]
                .fault(Fault::new("/readyz", Action::Respond { status: 500, headers: vec![], body: String::new() }));
        }
    }
}

fn in_zone(zone: &str) -> GatewayOptions {
    GatewayOptions { bootstrap_flags: vec!["--zone".into(), zone.into()], ..GatewayOptions::default() }
}

#[test]
fn own_zone_comes_first_and_the_others_where_it_is_ill() {
    for strategy in ["RoundRobin", "LeastRequest", "Random"] {
        let zones = Zones::start(&format!("zones-{strategy}"), &in_zone("a"), strategy);
        let client = zones.client();
        zones.wait_for(&client, [true, true, false, false]);
        zones.sicken(&[0]);
        zones.wait_for(&client, [false, true, false, false]);
        zones.sicken(&[1]);
        zones.wait_for(&client, [false, false, true, true]);
        zones.servers[0].clear_faults();
        zones.wait_for(&client, [true, false, false, false]);
    }
}

#[test]
fn gateway_without_a_zone_or_in_another_one_uses_all() {
    for options in [GatewayOptions::default(), in_zone("c")] {
        let zones = Zones::start("zones-none", &options, "RoundRobin");
        zones.wait_for(&zones.client(), [true; 4]);
    }
}

#[test]
fn no_request_fails_when_the_only_server_of_the_own_zone_goes() {
    let mut zones = Zones::start("zones-gone", &in_zone("b"), "RoundRobin");
    let client = zones.client();
    zones.wait_for(&client, [false, false, true, false]);
    drop(zones.servers.remove(2));
    // `shares` wants every answer to be good.
    for _ in 0..5 {
        let shares = zones.shares(&client);
        assert_eq!(shares.iter().sum::<usize>(), 60, "{shares:?}");
    }
}
