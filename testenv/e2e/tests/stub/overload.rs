//! An Envoy that runs short of memory, or that is flooded with requests which are taken back, protects itself.

use std::path::Path;
use std::time::Duration;

use portcullis_e2e::{Gateway, GatewayOptions};
use portcullis_harness::client::{ClientPool, H2Client, H2Frames, H2Stream, Response};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, wait, write_private};
use portcullis_stub_apiserver::{Action, Fault};

use crate::fixture::{NAME, PODS, StubFixture};

const SOON: Duration = Duration::from_secs(20);
const LARGE: &str = "/api/v1/namespaces/large/pods";
const MEBIBYTE: u64 = 1024 * 1024;

fn set(heap_level: &Path, value: f64) {
    write_private(heap_level, value.to_string().as_bytes()).unwrap();
}

fn with_heap(mebibytes: u64) -> GatewayOptions {
    GatewayOptions {
        bootstrap_flags: vec!["--max-heap-mib".into(), mebibytes.to_string()],
        ..GatewayOptions::default()
    }
}

/// The watch is silent, and has not ended.
fn goes_on(watch: &mut H2Stream<'_>) {
    let silence = watch.next_chunk(Duration::from_millis(200));
    assert!(silence.as_ref().is_err_and(|error| error.to_string().contains("timeout")), "{silence:?}");
}

fn is_short_of_memory(response: &Response) -> bool {
    let Ok(status) = response.json() else { return false };
    response.status == 503
        && response.header("retry-after").as_deref() == Some("1")
        && (&status["kind"], &status["reason"]) == (&"Status".into(), &"ServiceUnavailable".into())
}

#[test]
fn requests_are_refused_while_memory_is_short_and_watches_go_on() {
    for version in deps::envoy_versions() {
        let run = RunDir::new("pressure").unwrap();
        let heap_level = run.join("pressure");
        set(&heap_level, 0.5);
        let options =
            GatewayOptions { heap_level: Some(heap_level.clone()), envoy_version: Some(version), ..with_heap(1024) };
        let fixture = StubFixture::start("short-of-memory", &options);
        let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
        let client = H2Client::connect(&target).unwrap();
        let mut watch = client.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
        assert_eq!(watch.response.status, 200);
        set(&heap_level, 0.96);
        let refused = || {
            let answer = client.get("/version", &[]).unwrap();
            if is_short_of_memory(&answer) {
                Ok(())
            } else {
                Err(format!("{} {:?} {}", answer.status, answer.headers, answer.text()))
            }
        };
        wait::until_ok("requests are refused", SOON, refused).unwrap();
        fixture.stub.clear();
        let plain = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
        let answer = target.raw_request(plain.as_bytes()).unwrap();
        assert!(is_short_of_memory(&answer), "{}", answer.text());
        assert!(fixture.client_records().is_empty());
        set(&heap_level, 0.5);
        let served = || (client.get("/version", &[]).unwrap().status == 200).then_some(());
        wait::until("requests are served again", SOON, served).unwrap();
        goes_on(&mut watch);
    }
}

/// The number of streams that are opened before Envoy measures again.
const BETWEEN_LOOKS: usize = 5;

fn heap(gateway: &Gateway) -> u64 {
    let memory = gateway.envoy().admin().json("/memory").unwrap();
    let of = |name: &str| memory[name].as_str().unwrap().parse::<u64>().unwrap();
    of("heap_size") - of("pageheap_unmapped") - of("pageheap_free")
}

/// Whether Envoy knows of its heap, but for a little. It looks four times a second, and can bound nothing in between.
fn has_looked(gateway: &Gateway, limit: u64) -> bool {
    let percent = gateway.envoy().admin().stat("overload.envoy.resource_monitors.fixed_heap.pressure").unwrap();
    heap(gateway) <= limit * percent / 100 + 3 * MEBIBYTE
}

#[test]
fn clients_that_do_not_read_are_cut_before_memory_runs_out() {
    let limit = 96 * MEBIBYTE;
    let fixture = StubFixture::start("heap", &with_heap(96));
    fixture.stub.fault(Fault::new(LARGE, Action::Large { mebibytes: 24 }));
    let crowd = ClientPool::new(2).unwrap();
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let regular = H2Client::connect(&target).unwrap();
    let mut watch = regular.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    let mut most = 0;
    let clients: Vec<_> = (0..250).map(|_| crowd.connect(&target).unwrap()).collect();
    let (mut stalled, mut refused) = (Vec::new(), 0);
    let count = |name: &str| fixture.gateway.envoy().admin().stat(name).unwrap();
    let resets = || count("envoy.overload_actions.reset_high_memory_stream.count");
    // How much an Envoy holds before anybody comes differs between versions: a second round, if the first was not enough.
    for some in clients.chunks(BETWEEN_LOOKS).chain(clients.chunks(BETWEEN_LOOKS)) {
        if stalled.len() >= clients.len() && resets() > 0 {
            break;
        }
        // Each holds half a MiB and more. One that is refused is none.
        stalled.extend(some.iter().filter_map(|client| client.open("GET", LARGE, &[], b"").ok()));
        let answer = regular.get(PODS, &[]).unwrap();
        assert!(answer.status == 200 || is_short_of_memory(&answer), "{}", answer.text());
        refused += usize::from(answer.status != 200);
        most = most.max(heap(&fixture.gateway));
        wait::until("Envoy has looked", SOON, || has_looked(&fixture.gateway, limit).then_some(())).unwrap();
    }
    let reset = resets();
    let (most_mebibytes, limit_mebibytes) = (most / MEBIBYTE, limit / MEBIBYTE);
    eprintln!("at most {most_mebibytes} of {limit_mebibytes} MiB, {reset} streams reset, {refused} requests refused");
    assert!(reset > 0 && most < limit + limit / 10, "{most}");
    // Until Envoy has looked again, a request may still be refused.
    let served = || (regular.get(PODS, &[]).unwrap().status == 200).then_some(());
    wait::until("requests are served", SOON, served).unwrap();
    goes_on(&mut watch);
}

/// A stranger needs no credential for a connection on which nothing happens, and it holds memory as well.
#[test]
fn silent_connections_are_closed_while_memory_is_short() {
    let run = RunDir::new("silent").unwrap();
    let heap_level = run.join("pressure");
    set(&heap_level, 0.5);
    let options = GatewayOptions { heap_level: Some(heap_level.clone()), ..with_heap(1024) };
    let fixture = StubFixture::start("silent-connections", &options);
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let client = H2Client::connect(&target.clone().identity(&fixture.pki.alice)).unwrap();
    let mut watch = client.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    let mut silent = target.alpn(&["http/1.1"]).connect().unwrap();
    silent.write(format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes()).unwrap();
    assert!(silent.read_response(false).unwrap().status >= 200);
    // Requests are served still.
    set(&heap_level, 0.94);
    assert_eq!(silent.read_to_end().unwrap(), b"");
    goes_on(&mut watch);
    assert_eq!(client.get("/version", &[]).unwrap().status, 200);
}

/// Sends so many requests, and resets each. Returns how many were sent: a connection that is closed takes no more.
fn open_and_reset(hostile: &mut H2Frames, count: usize) -> usize {
    let sends = |_: &usize| {
        let stream = hostile.open("GET", PODS, &[], true);
        hostile.reset(stream);
        hostile.send().is_ok()
    };
    (0..count).take_while(sends).count()
}

#[test]
fn client_that_resets_its_requests_is_cut_off() {
    let fixture = StubFixture::start("rapid-reset", &GatewayOptions::default());
    fixture.stub.fault(Fault::new(PODS, Action::Hold));
    let other = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let cut = || -> u64 {
        let stats = fixture.gateway.envoy().admin().stats("downstream_rq_too_many_premature_resets").unwrap();
        stats.iter().map(|(_, count)| count).sum()
    };
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice).timeout(SOON);
    let mut hostile = H2Frames::connect(&target, 65_535).unwrap();
    assert_eq!(open_and_reset(&mut hostile, 240), 240);
    assert_eq!(other.get("/version", &[]).unwrap().status, 200);
    assert_eq!(cut(), 0, "a client may change its mind");
    let taken = open_and_reset(&mut hostile, 50_000);
    assert!(taken < 50_000, "{taken}");
    wait::until("it is cut off", SOON, || (cut() == 1).then_some(())).unwrap();
    assert_eq!(other.get("/version", &[]).unwrap().status, 200);
}
