//! The memory that Envoy keeps for unauthenticated clients is small, and is freed.

use std::collections::BTreeMap;
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, MetricsPage};
use portcullis_harness::certs::{self, Ca, CertSpec, Identity, Usage};
use portcullis_harness::client::{H2Client, Outgoing, TlsTarget};
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};
use crate::observe::with_another_request;

/// Clients at a time.
const CLIENTS: usize = 4;
/// Refused credentials are remembered for ten seconds, and looked through every ten.
const FORGOTTEN: Duration = Duration::from_secs(60);
const MOST_MIB: u64 = 32;

/// A certificate that cost nothing, of 30 KiB of usages: none is for clients.
fn stranger() -> Identity {
    certs::self_signed(&CertSpec::new("stranger").usages([Usage::CodeSigning; 3_000])).unwrap()
}

/// Seven certificates of an authority that calls itself as the clients' does, each of as many usages as fill 30 KiB together,
/// and as many leaves.
fn look_alikes() -> Identity {
    let authority = Ca::new("clients").unwrap();
    let one = || {
        let spec = CertSpec::new("clients").usages([Usage::CodeSigning; 400]);
        authority.intermediate(&spec).unwrap().issue(&CertSpec::client("alice", ["dev"])).unwrap()
    };
    (0..6).fold(one(), |chain, _| chain.followed_by(&one()))
}

fn presents_chains(target: &TlsTarget, count: usize) -> BTreeMap<u16, usize> {
    let mut statuses = BTreeMap::new();
    for _ in 0..count {
        let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
        let answer = target.clone().identity(&stranger()).raw_request(request.as_bytes()).unwrap();
        *statuses.entry(answer.status).or_default() += 1;
    }
    statuses
}

fn presents_tokens(target: &TlsTarget, lane: &str, count: usize) -> BTreeMap<u16, usize> {
    let client = H2Client::connect(target).unwrap();
    let tokens = (0..count).map(|number| format!("Bearer stranger-{lane}-{number}"));
    let requests = tokens.map(|token| Outgoing::get(PODS, &[("authorization", &token)])).collect();
    let mut statuses = BTreeMap::new();
    for timed in client.timed_burst(requests, 8) {
        *statuses.entry(timed.answer.unwrap().status).or_default() += 1;
    }
    statuses
}

/// Strangers present so many chains and so many tokens; none of them gets in.
fn flood(fixture: &StubFixture, round: &str, count: usize) {
    let (target, each) = (fixture.gateway.target(NAME).timeout(FORGOTTEN), count / CLIENTS);
    std::thread::scope(|scope| {
        let chains: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| presents_chains(&target, each))).collect();
        let tokens: Vec<_> = (0..CLIENTS)
            .map(|lane| {
                scope.spawn({
                    let (target, lane) = (&target, format!("{round}-{lane}"));
                    move || presents_tokens(target, &lane, each)
                })
            })
            .collect();
        for client in chains {
            assert_eq!(client.join().unwrap(), BTreeMap::from([(401, each)]), "nobody signed it");
        }
        for client in tokens {
            let statuses = client.join().unwrap();
            // Some may find no room for their review.
            assert!(statuses.keys().all(|status| matches!(status, 401 | 429)), "{statuses:?}");
            assert!(statuses[&401] >= each / 2, "{statuses:?}");
        }
    });
}

/// Envoy's resident memory, in KiB.
pub(crate) fn resident(fixture: &StubFixture) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", fixture.gateway.envoy().process().pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Processor time that Envoy has used.
fn processor_time(fixture: &StubFixture) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", fixture.gateway.envoy().process().pid())).unwrap();
    // Behind the name, which may hold anything: proc_pid_stat(5), fields 14 and 15, in hundredths of a second.
    let ticks = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    Duration::from_millis(10 * ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>())
}

fn remembered(fixture: &StubFixture) -> u64 {
    with_another_request(&fixture.gateway.target(NAME));
    let page = MetricsPage::of(&fixture.gateway);
    ["rejected_tokens", "refused_certificates"]
        .map(|kind| page.sum("credential_cache_entries", &[("kind", kind)]))
        .iter()
        .sum()
}

fn strangers_fill_no_memory(test: &str, count: usize) {
    let fixture = StubFixture::start(test, &GatewayOptions::default());
    flood(&fixture, "first", 200);
    let before = resident(&fixture);
    flood(&fixture, "many", count);
    let after = resident(&fixture);
    let kept = remembered(&fixture);
    println!(
        "{count} chains and {count} tokens: {before} KiB before, {after} KiB after, {kept} refusals are remembered"
    );
    assert!(after.saturating_sub(before) < MOST_MIB << 10, "{before} KiB before, {after} KiB after");
    let is_forgotten = || (remembered(&fixture) == 0).then_some(());
    wait::until("refusals are forgotten", FORGOTTEN, is_forgotten).unwrap();
    println!("{} KiB when all is forgotten", resident(&fixture));
    assert!(kept > 0, "some were remembered");
    // The allocator keeps what was freed: what comes later has room in it.
    flood(&fixture, "again", count);
    let again = resident(&fixture);
    println!("{again} KiB after as many again");
    assert!(again.saturating_sub(after) < MOST_MIB << 8, "{after} KiB after the first, {again} KiB after the second");
    let robot = format!("Bearer {ROBOT}");
    let client = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
    assert_eq!(client.get(PODS, &[("authorization", &robot)]).unwrap().status, 200);
}

#[test]
fn refused_credentials_take_little_memory_and_are_forgotten() {
    strangers_fill_no_memory("stuffing", 600);
}

/// Handshakes, and then silence.
const SILENT: usize = 40;

/// Presents a certificate of 95 KB of names on so many connections, each of which then is silent: how much memory Envoy takes for them.
fn silent_connections_take(client_ca_names: &str) -> u64 {
    let fixture = StubFixture::start("silent-strangers", &GatewayOptions::default());
    if client_ca_names != "Sent" {
        fixture.gateway.change_settings(|spec| spec["clientCANames"] = json!(client_ca_names)).unwrap();
    }
    let names = CertSpec { dns: vec![String::new(); 47_000], ..CertSpec::new("stranger") };
    let target = fixture.gateway.target(NAME).timeout(FORGOTTEN).identity(&certs::self_signed(&names).unwrap());
    let handshakes = || {
        let all = fixture.gateway.envoy().admin().stats("^listener\\..*\\.ssl\\.handshake$").unwrap();
        all.iter().map(|(_, count)| count).sum::<u64>()
    };
    // The first ones are for what is made once.
    let mut silent: Vec<_> = (0..10).map(|_| target.connect().unwrap()).collect();
    wait::until("the handshakes are over", FORGOTTEN, || (handshakes() >= 10).then_some(())).unwrap();
    let (before, many) = (resident(&fixture), handshakes() + SILENT as u64);
    silent.extend((0..SILENT).map(|_| target.connect().unwrap()));
    wait::until("the handshakes are over", FORGOTTEN, || (handshakes() >= many).then_some(())).unwrap();
    let taken = resident(&fixture).saturating_sub(before);
    println!("client CAs {client_ca_names}: {} KiB for each of {SILENT} silent connections", taken / SILENT as u64);
    taken
}

#[test]
fn silent_connections_take_little_memory_without_ca_names() {
    let taken = silent_connections_take("Omitted");
    assert!(taken < MOST_MIB << 10, "{taken} KiB");
}

/// Some 4 MiB each, until the connection ends.
#[test]
#[ignore = "a measurement"]
fn silent_strangers_where_client_cas_are_named() {
    silent_connections_take("Sent");
}

/// Envoy verifies the chain as well as the filter: neither is to look for a path through all that a stranger sends.
#[test]
#[ignore = "a measurement"]
fn handshakes_with_hostile_chains_cost_milliseconds() {
    const HANDSHAKES: u32 = 100;
    let fixture = StubFixture::start("handshake-cost", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).timeout(FORGOTTEN);
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
    let cost = |case: &str, identity: &Identity, expected: u16| {
        let (bytes, before) = (identity.chain_der().iter().map(Vec::len).sum::<usize>(), processor_time(&fixture));
        for _ in 0..HANDSHAKES {
            let answer = target.clone().identity(identity).raw_request(request.as_bytes()).unwrap();
            assert_eq!(answer.status, expected, "{case}");
        }
        let each = (processor_time(&fixture) - before) / HANDSHAKES;
        println!("{case}, {bytes} bytes: {each:?} of Envoy's processor time for each handshake and request");
        each
    };
    cost("a user", &fixture.pki.alice, 200);
    for (case, identity) in [("many usages", stranger()), ("look-alikes", look_alikes())] {
        assert!(cost(case, &identity, 401) < Duration::from_millis(20), "{case}: a worker is held up");
    }
}

#[test]
#[ignore = "four minutes on two busy cores"]
fn ten_thousand_refused_credentials_take_little_memory() {
    strangers_fill_no_memory("stuffing-long", 10_000);
}
