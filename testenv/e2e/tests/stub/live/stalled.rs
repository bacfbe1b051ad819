//! Clients that do not read their responses delay no other.

use std::collections::BTreeSet;
use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{ClientPool, H2Client, H2Stream, TlsConnection};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};

use super::failures::more;
use super::site::Site;
use crate::fixture::{NAME, PODS, StubFixture};

const LARGE: &str = "/api/v1/namespaces/large/pods";
/// More than all buffers on the way together.
const MEBIBYTES: u32 = 24;
const LENGTH: usize = MEBIBYTES as usize * 1024 * 1024;
const SOON: Duration = Duration::from_secs(60);

fn open(client: &H2Client) -> H2Stream<'_> {
    let stream = client.open("GET", LARGE, &[], b"").unwrap();
    assert_eq!(stream.response.status, 200);
    stream
}

fn open_http1(site: &Site) -> TlsConnection {
    let mut connection = site.target().identity(&site.pki.alice).connect().unwrap();
    connection.write(format!("GET {LARGE} HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(connection.read_head().unwrap().status, 200);
    connection
}

/// Connections to servers that carry requests for a path.
fn connections(site: &Site, path: &str) -> BTreeSet<(usize, u64)> {
    let of = |(number, stub): (usize, &portcullis_stub_apiserver::StubServer)| {
        stub.records_for(path).into_iter().map(move |record| (number, record.connection)).collect::<Vec<_>>()
    };
    site.stubs.iter().enumerate().flat_map(of).collect()
}

fn read_all(mut stream: H2Stream<'_>) {
    let mut length = 0;
    while let Some(chunk) = stream.next_chunk(SOON).unwrap() {
        length += chunk.len();
    }
    assert_eq!(length, LENGTH);
}

#[test]
fn fifty_stalled_readers_of_large_lists_hold_up_nobody_else() {
    let site = Site::start("stalled");
    for stub in &site.stubs {
        stub.fault(Fault::new(LARGE, Action::Large { mebibytes: MEBIBYTES }));
    }
    let crowd = ClientPool::new(2).unwrap();
    let alice = site.target().identity(&site.pki.alice);
    let own: Vec<_> = (0..15).map(|_| crowd.connect(&alice).unwrap()).collect();
    let shared = crowd.connect(&alice).unwrap();
    let streams: Vec<_> = own.iter().map(open).collect();
    let sharing: Vec<_> = (0..15).map(|_| open(&shared)).collect();
    let mut plain: Vec<_> = (0..20).map(|_| open_http1(&site)).collect();
    assert_eq!(streams.len() + sharing.len() + plain.len(), 50);
    // Their answers fill every buffer on the way and then stand still.
    let mut before = Vec::new();
    let stand_still = || {
        let paused = site.gateway.envoy().admin().stats("all_h2.upstream_(cx_rx_bytes_total|flow_control)").ok()?;
        (std::mem::replace(&mut before, paused.clone()) == paused && !paused.is_empty()).then_some(())
    };
    wait::until("all readers are stalled", SOON, stand_still).unwrap();
    assert!(site.stubs.iter().map(|stub| stub.running()).sum::<usize>() > 0, "answers are under way");

    let load = crowd.steady(&site.lanes(), &[PODS], 100.0).unwrap();
    let outcome = more(&load, 500).and(load.stop().unwrap());
    eprintln!("{outcome}");
    assert_eq!(outcome.failed, 0, "{outcome}");
    let both: Vec<_> = connections(&site, LARGE).intersection(&connections(&site, PODS)).copied().collect();
    assert!(!both.is_empty(), "they shared connections to the servers");

    // A client that reads on gets the rest.
    streams.into_iter().take(3).for_each(read_all);
    let last = &mut plain[0];
    let mut length = 0;
    while let Some(chunk) = last.read_chunk().unwrap() {
        length += chunk.len();
    }
    assert_eq!(length, LENGTH);
}

#[test]
fn connections_full_of_stalled_readers_still_carry_others() {
    let fixture = StubFixture::start("stalled-full", &GatewayOptions::default());
    fixture.stub.fault(Fault::new(LARGE, Action::Large { mebibytes: MEBIBYTES }));
    let crowd = ClientPool::new(2).unwrap();
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice).timeout(SOON);
    // More than one connection to the server carries, for each of Envoy's workers.
    let clients: Vec<_> = (0..220).map(|_| crowd.connect(&alice).unwrap()).collect();
    let streams: Vec<_> = clients.iter().map(open).collect();
    for _ in 0..20 {
        assert_eq!(crowd.connect(&alice).unwrap().get(PODS, &[]).unwrap().status, 200);
    }
    let mut shared = std::collections::BTreeMap::<u64, usize>::new();
    for record in fixture.stub.records_for(LARGE) {
        *shared.entry(record.connection).or_default() += 1;
    }
    assert!(shared.values().any(|count| *count >= 85), "a connection is full: {shared:?}");
    let by_both = fixture.stub.records_for(PODS).iter().any(|record| shared.contains_key(&record.connection));
    assert!(by_both, "they shared connections to the server");
    read_all(streams.into_iter().next().unwrap());
}

#[test]
fn clients_stalled_uploads_do_not_hold_up_its_other_requests() {
    const UPLOADS: usize = 95;
    let fixture = StubFixture::start("stalled-uploads", &GatewayOptions::default());
    let (path, other) =
        ["stalled", "other"].map(|end| format!("/api/v1/namespaces/default/services/web/proxy/{end}")).into();
    fixture.stub.fault(Fault::new(&path, Action::Hold));
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice).timeout(SOON);
    let client = ClientPool::new(2).unwrap().connect(&alice).unwrap();
    let body = vec![b'x'; 1024 * 1024];
    std::thread::scope(|scope| {
        let upload = || client.request("POST", &path, &[], &body).unwrap().status;
        let uploads: Vec<_> = (0..UPLOADS).map(|_| scope.spawn(upload)).collect();
        let under_way = || (fixture.stub.running() >= UPLOADS).then_some(());
        wait::until("all uploads are under way", SOON, under_way).unwrap();
        for _ in 0..20 {
            assert_eq!(client.request("POST", &other, &[], b"small").unwrap().status, 200);
        }
        fixture.stub.clear_faults();
        assert!(uploads.into_iter().all(|upload| upload.join().unwrap() == 200));
    });
}
