//! Servers fail one after the other under load, and come back.

use std::time::{Duration, Instant};

use portcullis_e2e::{Gateway, GatewayOptions};
use portcullis_harness::client::{ClientPool, H2Client, LoadProfile, OpenLoopLoad, Outcome, Protocol};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::server::{Failure, Server};
use super::site::PATIENCE;
use crate::fixture::{NAME, PODS, Pki, ROBOT};

const SOON: Duration = Duration::from_secs(60);
/// The number of failed checks in a row after which a server is out.
const THRESHOLD: u64 = 1;
const READ: [&str; 2] = [PODS, "/api/v1/nodes"];

struct Field {
    gateway: Gateway,
    servers: Vec<Server>,
    pki: Pki,
    _run: RunDir,
}

impl Field {
    fn start(test: &str, portcullis: Value) -> Self {
        let run = RunDir::new(test).unwrap();
        let pki = Pki::new();
        let servers: Vec<_> = (0..3).map(|number| Server::start(&pki, run.path(), number)).collect();
        let gateway = Gateway::start(&run, &GatewayOptions::default()).unwrap();
        let manifest = pki
            .cluster(&gateway, NAME, servers.iter().map(|server| server.address))
            .set("/spec/portcullis", portcullis);
        gateway.apply(&manifest).unwrap();
        let field = Field { gateway, servers, pki, _run: run };
        field.wait_healthy("at first", &[0, 1, 2]);
        field
    }

    fn lanes(&self) -> Vec<LoadProfile> {
        let target = self.gateway.target(NAME).timeout(PATIENCE);
        let alice = target.clone().identity(&self.pki.alice);
        let of = |protocol| {
            [
                LoadProfile::new(format!("certificate, {protocol:?}"), &alice, protocol),
                LoadProfile::new(format!("token, {protocol:?}"), &target, protocol).token(ROBOT),
            ]
        };
        [Protocol::Http2, Protocol::Http1].into_iter().cycle().take(8).flat_map(of).collect()
    }

    /// Without a credential, over pools of their own.
    fn strangers(&self) -> [LoadProfile; 2] {
        let target = self.gateway.target(NAME).timeout(PATIENCE);
        [Protocol::Http2, Protocol::Http1].map(|one| LoadProfile::new(format!("no credential, {one:?}"), &target, one))
    }

    /// Which servers the pool for reads and writes holds for healthy.
    fn healthy(&self) -> Vec<usize> {
        let page = self.gateway.envoy().admin().json("/clusters?format=json").unwrap();
        let clusters = page["cluster_statuses"].as_array().unwrap();
        let name = |cluster: &Value| cluster["name"].as_str().unwrap_or_default().to_owned();
        let pool = clusters.iter().find(|one| name(one).starts_with(&format!("e2e/-/{NAME}/all.h2@")));
        let hosts = pool.and_then(|pool| pool["host_statuses"].as_array()).cloned().unwrap_or_default();
        let is_healthy = |server: &Server| {
            let of = |host: &&Value| host["address"]["socket_address"]["port_value"] == server.address.port();
            let Some(host) = hosts.iter().find(of) else { return false };
            let health = host["health_status"].as_object().unwrap();
            let failed = ["failed_active_health_check", "failed_outlier_check", "pending_active_hc"];
            failed.iter().all(|flag| health.get(*flag).and_then(Value::as_bool) != Some(true))
        };
        (0..3).filter(|number| is_healthy(&self.servers[*number])).collect()
    }

    /// How many checks of that pool have been made (`attempt`), or have failed (`failure`).
    fn checks(&self, which: &str) -> u64 {
        let pool = NAME.replace('.', "_");
        self.gateway.envoy().admin().stat(&format!("cluster.e2e/-/{pool}/all_h2.health_check.{which}")).unwrap()
    }

    fn wait_healthy(&self, when: &str, expected: &[usize]) -> Duration {
        let started = Instant::now();
        let as_expected = || {
            let found = self.healthy();
            if found == expected { Ok(()) } else { Err(format!("{found:?} and not {expected:?}")) }
        };
        wait::until_ok(&format!("healthy servers {when}"), SOON, as_expected).unwrap();
        started.elapsed()
    }

    /// Waits until so many servers are out, the last of which went after so many checks had failed at that time. It is out when
    /// as many of its own have failed; those that are out already fail one in each interval at most.
    /// This holds within the interval, a tenth of it and the timeout: by Envoy's clock, which its checks of all servers show.
    fn wait_out(&self, gone: usize, (before, started): (u64, Instant), check: Check) -> Duration {
        let (interval, timeout) = (check.0 as f64, check.1 as f64);
        let expected = &[0, 1, 2][gone..];
        let made_before = self.checks("attempt");
        let most = 3 * ((1.1 * interval + timeout) / interval + 1.0).ceil() as u64;
        let is_out = || {
            let (failed, made) = (self.checks("failure") - before, self.checks("attempt") - made_before);
            let found = self.healthy();
            if found == expected {
                return Ok(());
            }
            assert!(made <= most, "{found:?} are healthy after {made} checks");
            let of_others = (gone - 1) as f64 * (started.elapsed().as_secs_f64() / interval + 1.0);
            let own = failed.saturating_sub(of_others as u64);
            assert!(own <= THRESHOLD, "{found:?} are healthy after {failed} failed checks, {own} of the last one");
            Err(format!("{found:?} and not {expected:?}"))
        };
        wait::until_ok(&format!("healthy servers when {gone} are gone"), SOON, is_out).unwrap();
        started.elapsed()
    }
}

/// Lets the load run until so many more answers came.
pub(super) fn more(load: &OpenLoopLoad, answers: u64) -> Outcome {
    let mut seen = Outcome::default();
    wait::until("more answers", SOON, || {
        seen = std::mem::take(&mut seen).and(load.take());
        (seen.statuses.values().sum::<u64>() >= answers).then_some(())
    })
    .unwrap();
    seen
}

/// Seconds between two health checks, and seconds that one may take. A server that is only slow, as this machine may be, must
/// not be taken for one that is gone: the last one would be missed.
#[derive(Clone, Copy)]
struct Check(u64, u64);

/// One server after the other is gone; then all come back.
fn one_after_the_other(test: &str, how: Failure, per_second: f64, check: Check) {
    let Check(interval, timeout) = check;
    let portcullis = json!({
        "healthCheck": {"interval": format!("{interval}s"), "timeout": format!("{timeout}s")},
        // Short enough for tokens to be reviewed again while servers are gone.
        "credentialCache": {"tokenTTL": "2s"},
    });
    let mut field = Field::start(test, portcullis);
    let crowd = ClientPool::new(2).unwrap();
    let load = crowd.steady(&field.lanes(), &READ, per_second).unwrap();
    let strangers = crowd.steady(&field.strangers(), &["/version"], 10.0).unwrap();
    let before = more(&load, (per_second * 2.0) as u64);
    assert_eq!(before.failed, 0, "{before}");
    for gone in 1..=2 {
        one_more_is_gone(&field, how, gone, &load, check);
    }
    // A request under way may take until it is given up.
    for until_here in [load.stop().unwrap(), strangers.stop().unwrap()] {
        assert_eq!(until_here.failed, 0, "{how:?}: {until_here}");
    }
    all_are_gone(&field, how);
    field.servers.iter_mut().for_each(|server| server.recover(how));
    all_are_back(&field, how, &crowd, per_second);
}

fn one_more_is_gone(field: &Field, how: Failure, gone: usize, load: &OpenLoopLoad, check: Check) {
    let started = Instant::now();
    let before = (field.checks("failure"), started);
    field.servers[gone - 1].fail(how);
    let took = field.wait_out(gone, before, check);
    let during = more(load, 120);
    eprintln!("{how:?}, {gone} of 3 gone: out after {took:.1?}; {during}");
    assert_eq!(during.failed, 0, "{how:?}, {gone} of 3 gone: {during}");
}

fn all_are_gone(field: &Field, how: Failure) {
    field.servers[2].fail(how);
    let took = field.wait_healthy("after the last one is gone", &[]);
    eprintln!("{how:?}, 3 of 3 gone: out after {took:.1?}");
    let client = H2Client::connect(&field.gateway.target(NAME).identity(&field.pki.alice)).unwrap();
    let answer = client.get(PODS, &[]).unwrap();
    assert_eq!((answer.status, answer.header("retry-after").as_deref()), (503, Some("1")), "{}", answer.text());
    assert_eq!(answer.json().unwrap()["kind"], "Status");
}

fn all_are_back(field: &Field, how: Failure, crowd: &ClientPool, per_second: f64) {
    let back = field.wait_healthy("after they came back", &[0, 1, 2]);
    // Envoy's workers hear of it a moment after its admin page does.
    let target = field.gateway.target(NAME).identity(&field.pki.alice);
    let is_served = || H2Client::connect(&target).unwrap().get(PODS, &[]).unwrap().status == 200;
    wait::until("all workers serve again", SOON, || (0..20).all(|_| is_served()).then_some(())).unwrap();
    let load = crowd.steady(&field.lanes(), &READ, per_second).unwrap();
    let since = Instant::now();
    let (mut after, mut shares) = (Outcome::default(), Outcome::default());
    let are_equal = || {
        shares = more(&load, 300);
        after = std::mem::take(&mut after).and(shares.clone());
        if shares.imbalance(3) < 1.2 { Ok(()) } else { Err(format!("{:?}", shares.servers)) }
    };
    let equal = wait::until_ok("equal shares within a minute", SOON, are_equal);
    eprintln!("{how:?}: back after {back:.1?}, equal shares after {:.1?}, {:?}", since.elapsed(), shares.servers);
    equal.unwrap();
    let after = after.and(load.stop().unwrap());
    assert_eq!(after.failed, 0, "{how:?}: {after}");
}

#[test]
fn killed_servers_fail_no_request() {
    one_after_the_other("killed", Failure::Killed, 60.0, Check(1, 10));
}

#[test]
#[ignore = "reviews have five seconds, which a machine that runs other tests does not keep"]
fn frozen_servers_fail_no_request() {
    one_after_the_other("frozen", Failure::Frozen, 60.0, Check(1, 3));
}

#[test]
#[ignore = "reviews have five seconds, which a machine that runs other tests does not keep"]
fn servers_behind_a_black_hole_fail_no_request() {
    one_after_the_other("blackholed", Failure::Blackholed, 60.0, Check(1, 3));
}

#[test]
fn servers_whose_health_check_hangs_fail_no_request() {
    one_after_the_other("hanging", Failure::Hanging, 60.0, Check(1, 4));
}

#[test]
fn servers_whose_certificate_has_expired_fail_no_request() {
    one_after_the_other("expired", Failure::Expired, 60.0, Check(1, 10));
}

#[test]
#[ignore = "two minutes"]
fn servers_that_are_gone_under_load_fail_no_request() {
    for how in [Failure::Killed, Failure::Frozen, Failure::Blackholed, Failure::Hanging, Failure::Expired] {
        one_after_the_other("gone-under-load", how, 200.0, Check(3, 3));
    }
}
