//! Streams on a disabled server go on; streams on a removed server end after the drain period.

use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::client::{H2Client, H2Stream, TlsConnection, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{SharedStore, StubServer};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture, connect};
use crate::pods::{create_pod, read_until};

const SOON: Duration = Duration::from_secs(20);
const PERIOD: Duration = Duration::from_secs(3);
const EXEC: &str = "/api/v1/namespaces/default/pods/web/exec?command=x";

/// Two servers of one store, a watch on each of them, and a terminal on the second one.
struct Running<'a> {
    target: &'a TlsTarget,
    first: H2Stream<'a>,
    second: H2Stream<'a>,
    terminal: TlsConnection,
    pods: usize,
}

struct Two {
    fixture: StubFixture,
    servers: [StubServer; 2],
}

impl Two {
    fn start(test: &str, options: &GatewayOptions) -> (Two, TlsTarget) {
        let fixture = StubFixture::without_cluster(test, options);
        let store = SharedStore::default();
        let servers = ["one", "two"].map(|name| {
            let mut options = fixture.pki.stub_options(name);
            options.store = store.clone();
            StubServer::start(options).unwrap()
        });
        let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
        let two = Two { fixture, servers };
        two.fixture.gateway.apply(&two.manifest(json!([two.server(0), two.server(1)]))).unwrap();
        (two, target)
    }

    fn server(&self, number: usize) -> Value {
        json!({"endpoint": self.servers[number].url()})
    }

    fn manifest(&self, servers: Value) -> Manifest {
        let period = format!("{}s", PERIOD.as_secs());
        self.fixture.manifest().set("/spec/servers", servers).set("/spec/portcullis", json!({"drainPeriod": period}))
    }

    fn run<'a>(&self, target: &'a TlsTarget, client: &'a H2Client) -> Running<'a> {
        let mut running = Running {
            target,
            first: watch(client, "one"),
            second: watch(client, "two"),
            terminal: terminal(target, &self.servers[1]),
            pods: 0,
        };
        running.first_sees_change();
        running.second_sees_change();
        running
    }
}

/// A watch that runs on that server.
fn watch<'a>(client: &'a H2Client, server: &str) -> H2Stream<'a> {
    wait::until("a watch runs on the server", SOON, || {
        let stream = client.open("GET", &format!("{PODS}?watch=true"), &[], b"").ok()?;
        (stream.response.header("x-stub-name").as_deref() == Some(server)).then_some(stream)
    })
    .unwrap()
}

/// A terminal on that server.
fn terminal(target: &TlsTarget, server: &StubServer) -> TlsConnection {
    let upgrade = format!(
        "GET {EXEC} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    wait::until("a terminal runs on the server", SOON, || {
        server.clear();
        let mut connection = target.connect().ok()?;
        connection.write(upgrade.as_bytes()).ok()?;
        let is_open = connection.read_response(false).ok()?.status == 101;
        let is_there = server.records().iter().any(|record| record.path().ends_with("/exec"));
        (is_open && is_there).then_some(connection)
    })
    .unwrap()
}

impl Running<'_> {
    /// Creates a pod; its name.
    fn create(&mut self) -> String {
        self.pods += 1;
        let name = format!("pod-{}-", self.pods);
        create_pod(&H2Client::connect(self.target).unwrap(), &format!("{name}x")).unwrap();
        name
    }

    fn first_sees_change(&mut self) {
        let name = self.create();
        read_until(&mut self.first, &name).unwrap();
    }

    fn second_sees_change(&mut self) {
        self.try_second().unwrap();
    }

    /// Nothing if a stream has ended and the period may be over.
    fn second_sees_change_since(&mut self, removed: Instant) -> Option<()> {
        let seen = self.try_second();
        assert!(seen.is_ok() || removed.elapsed() >= PERIOD, "{seen:?} after {:?}", removed.elapsed());
        seen.ok()
    }

    fn try_second(&mut self) -> Result<(), String> {
        let name = self.create();
        read_until(&mut self.second, &name).map_err(|error| error.to_string())?;
        self.terminal.write(b"ping").map_err(|error| error.to_string())?;
        let echo = self.terminal.read_exact(4).map_err(|error| error.to_string())?;
        if echo == b"ping" { Ok(()) } else { Err(format!("{echo:?}")) }
    }

    /// Waits for the end of both streams on the second server: soon, and not before the period is over.
    fn second_ends(&mut self, since: Instant) {
        let end = loop {
            match self.second.next_chunk(SOON) {
                Ok(Some(_)) => {}
                Ok(None) => break String::new(),
                Err(error) => break error.to_string(),
            }
        };
        assert!(!end.contains("timeout"), "{end}");
        assert!(since.elapsed() >= PERIOD, "{:?}", since.elapsed());
        // How it ends is for the transport to say; staying silent is an error.
        assert_eq!(self.terminal.read_to_end().unwrap(), b"");
    }

    /// For so long both streams on the second server go on.
    fn second_goes_on(&mut self, since: Instant, time: Duration) {
        let lasted = || {
            self.second_sees_change();
            (since.elapsed() >= time).then_some(())
        };
        wait::until("the time is over", time + SOON, lasted).unwrap();
    }
}

#[test]
fn disabled_server_gets_nothing_new_and_keeps_what_runs() {
    let (two, target) = Two::start("drain-disabled", &GatewayOptions::default());
    let client = connect(&target);
    let mut running = two.run(&target, &client);
    let disabled = json!([two.server(0), {"endpoint": two.servers[1].url(), "disabled": true}]);
    two.fixture.gateway.apply(&two.manifest(disabled)).unwrap();
    let since = Instant::now();
    let is_left_alone = || {
        two.servers[1].clear();
        (0..10).all(|_| client.get(PODS, &[]).unwrap().status == 200).then_some(())?;
        two.servers[1].records_for(PODS).is_empty().then_some(())
    };
    wait::until("it gets nothing new", SOON, is_left_alone).unwrap();
    running.second_goes_on(since, PERIOD * 2);
    two.servers[1].clear();
    running.first_sees_change();
    assert!(two.servers[1].records_for(PODS).is_empty());
}

#[test]
fn streams_on_a_removed_server_end_after_the_drain_period() {
    wait::retry_if_slow("a word within the period", removed).unwrap();
}

fn removed() -> Option<()> {
    let (mut two, target) = Two::start("drain-removed", &GatewayOptions::default());
    let client = connect(&target);
    let mut running = two.run(&target, &client);
    let since = Instant::now();
    two.fixture.gateway.apply(&two.manifest(json!([two.server(0)]))).unwrap();
    running.second_sees_change_since(since)?;
    // Envoy counts the time, not the control plane.
    two.fixture.gateway.restart_control_plane().unwrap();
    running.second_ends(since);
    running.first_sees_change();
    assert_eq!(client.get(PODS, &[]).unwrap().status, 200, "the client's connection goes on");
    Some(())
}

#[test]
fn server_that_comes_back_in_time_keeps_what_runs() {
    let (two, target) = Two::start("drain-back", &GatewayOptions::default());
    let client = connect(&target);
    let back = || {
        let mut running = two.run(&target, &client);
        let since = Instant::now();
        two.fixture.gateway.apply(&two.manifest(json!([two.server(0)]))).unwrap();
        two.fixture.gateway.apply(&two.manifest(json!([two.server(0), two.server(1)]))).unwrap();
        running.second_sees_change_since(since)?;
        running.second_goes_on(Instant::now(), PERIOD * 2);
        Some(())
    };
    wait::retry_if_slow("it is back in time", back).unwrap();
}

#[test]
fn streams_in_a_removed_cluster_end_after_the_drain_period() {
    let (two, target) = Two::start("drain-cluster", &GatewayOptions::default());
    let serving = two.fixture.gateway.serving_identity("other.example.com").unwrap();
    let other = two.fixture.manifest().set("/metadata/name", json!("other.example.com"));
    let other = other.serving(&serving, &two.fixture.pki.client_ca);
    two.fixture.gateway.apply(&other).unwrap();
    let neighbour = two.fixture.gateway.target("other.example.com").identity(&two.fixture.pki.alice);
    let neighbours = connect(&neighbour).authority("other.example.com");
    let mut undisturbed = watch(&neighbours, "stub-0");
    let client = connect(&target);
    let mut running = two.run(&target, &client);

    let since = Instant::now();
    two.fixture.gateway.remove(NAME).unwrap();
    let gone = || (client.get(PODS, &[]).ok()?.status == 503).then_some(());
    wait::until("nothing new goes upstream", SOON, gone).unwrap();
    running.second_ends(since);

    create_pod(&neighbours, "later").unwrap();
    read_until(&mut undisturbed, "later").unwrap();
}
