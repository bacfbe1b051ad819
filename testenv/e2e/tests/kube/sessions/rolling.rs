//! Two gateways behind a load balancer restart one after the other, in front of a real kube-apiserver.

use std::time::Duration;

use portcullis_e2e::{AgentSite, AgentSiteSetup};
use portcullis_harness::balancer::{Backend, Balancer};
use portcullis_harness::client::{ClientPool, LoadProfile, OpenLoopLoad, Protocol as Http, TlsTarget};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::process::{Process, Signal};
use portcullis_harness::wait;

use super::place::{IMPERSONATING, Place, Protocol, SOON, Way};
use crate::fixture::NAME;

const PODS: &str = "/api/v1/namespaces/default/pods";
/// Sessions that take less than this are not cut.
const DRAIN: u32 = 12;
/// The delay that load on the machine may add to a gateway's end.
const SLACK: Duration = Duration::from_secs(20);

fn start(place: &Place, name: &str) -> AgentSite {
    let fixture = &place.fixture;
    AgentSiteSetup::new(&fixture.run, name, fixture.gateway.serving_ca())
        .cluster("by-headers.yaml", &fixture.manifest())
        .cluster("impersonating.yaml", &place.impersonating())
        .agent(|options| (options.shutdown_delay_seconds, options.drain_timeout_seconds) = (1, DRAIN))
        .start()
        .unwrap()
}

#[test]
#[ignore = "two restarts, the better part of a minute"]
fn rolling_restart_fails_no_request_and_cuts_no_short_session() {
    let Some(place) = Place::start("rolling") else { return };
    let mut sites = ["envoy-a", "envoy-b"].map(|name| start(&place, name));
    let backends = sites.iter().map(|site| Backend { address: site.address, readiness: site.agent.http_address() });
    let balancer = Balancer::start(backends.collect(), Duration::from_millis(200)).unwrap();
    both_ready(&balancer);
    let crowd = ClientPool::new(2).unwrap();
    let load = traffic(&place, &balancer, &crowd);
    let users = [place.certificate(), place.token()];
    let server = |name: &str| {
        let url = format!("https://{}", balancer.address());
        Kubeconfig::new(url).ca(place.fixture.gateway.serving_ca()).tls_server_name(name)
    };
    // The other pairs of user and protocol take the same way through the gateway.
    let kinds = [(NAME, 0, Protocol::WebSocket), (NAME, 1, Protocol::Spdy), (IMPERSONATING, 1, Protocol::WebSocket)];
    let ways = kinds.map(|(name, user, protocol)| place.way(name, &users[user], server(name), protocol));
    for site in &mut sites {
        restart(site, &balancer, &ways);
    }
    let outcome = load.stop().unwrap();
    eprintln!("{outcome}; {} connections", outcome.connections);
    assert_eq!(outcome.failed, 0, "{outcome}");
    assert!(outcome.good() > 500, "{outcome}");
}

fn both_ready(balancer: &Balancer) {
    wait::until("both are ready", SOON, || (balancer.ready().len() == 2).then_some(())).unwrap();
}

/// A certificate's user in both modes, over both versions of HTTP.
fn traffic(place: &Place, balancer: &Balancer, crowd: &ClientPool) -> OpenLoopLoad {
    let world = &place.fixture;
    let lanes = [NAME, IMPERSONATING].into_iter().flat_map(|name| {
        let target = TlsTarget::new(balancer.address()).sni(name).trust(world.gateway.serving_ca());
        let target = target.identity(&world.alice).timeout(SOON);
        [Http::Http1, Http::Http2].map(|protocol| LoadProfile::new(format!("{name}-{protocol:?}"), &target, protocol))
    });
    crowd.steady(&lanes.collect::<Vec<_>>(), &[PODS], 60.0).unwrap()
}

/// Each way has a session on each gateway that ends by itself in time, and one that would never end.
fn restart(site: &mut AgentSite, balancer: &Balancer, ways: &[Way<'_>]) {
    let exec = |way: &Way<'_>, script: &str| way.kubectl(["exec", &way.pod, "--", "sh", "-c", script]).spawn().unwrap();
    let twice = |script: &str| -> Vec<(&Way<'_>, Process)> {
        ways.iter().flat_map(|way| [(way, exec(way, script)), (way, exec(way, script))]).collect()
    };
    let endless = twice("echo began; sleep 1000");
    let short = twice("echo began; sleep 4; echo whole");
    for (way, running) in endless.iter().chain(&short) {
        let began = || running.stdout().contains("began").then_some(()).ok_or_else(|| running.log());
        wait::until_ok(&format!("{way}: a session has begun"), SOON, began).unwrap();
    }
    site.agent.process().signal(Signal::Term).unwrap();
    for (way, running) in &short {
        let status = running.wait_exit(SOON).unwrap();
        assert!(status.success(), "{way}: {status} {}", running.log());
        assert_eq!(running.stdout(), "began\nwhole\n", "{way}");
    }
    let over = Duration::from_secs(DRAIN.into()) + SLACK;
    assert_eq!(site.agent.process().wait_exit(over).unwrap().code(), Some(0));
    // kubectl notices its end; the other gateway's sessions go on.
    let ended = || endless.iter().any(|(_, running)| !running.is_running()).then_some(());
    wait::until("sessions of the gateway have ended", SOON, ended).unwrap();
    assert!(endless.iter().any(|(_, running)| running.is_running()), "the other gateway's sessions go on");
    site.agent.start_again().unwrap();
    site.agent.wait_ready(SOON).unwrap();
    both_ready(balancer);
}
