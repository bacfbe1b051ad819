//! Servers that SRV records of a real DNS server name.

use std::time::Duration;

use portcullis_harness::client::{ClientPool, OpenLoopLoad};
use portcullis_harness::dns::DnsServer;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::StubServer;
use serde_json::json;

use super::failures::more;
use super::site::Site;
use crate::fixture::{NAME, PODS};

const SRV: &str = "_https._tcp.apiservers.test";
const SOON: Duration = Duration::from_secs(60);

/// Records that name these servers, each with its priority.
fn records(servers: &[(&StubServer, u16)]) -> Vec<String> {
    let of = |(server, priority): &(&StubServer, u16)| {
        let port = server.address().port();
        [format!("srv-host={SRV},s{port}.test,{port},{priority}"), format!("host-record=s{port}.test,127.0.0.1")]
    };
    servers.iter().flat_map(of).collect()
}

/// Waits until these servers, and no others, answer.
fn wait_answered(load: &OpenLoopLoad, by: &[&str]) {
    let is_so = || {
        let seen = more(load, 60).servers;
        if seen.keys().eq(by.iter()) { Ok(()) } else { Err(format!("{seen:?}")) }
    };
    wait::until_ok(&format!("{by:?} answer"), SOON, is_so).unwrap();
}

fn wait_discovered(site: &Site, reason: &str, part: &str) {
    let holds = |status: &serde_json::Value| {
        let objects = status["objects"].as_array().unwrap();
        let conditions = objects.iter().filter(|object| object["name"] == NAME);
        let mut conditions = conditions.flat_map(|object| object["conditions"].as_array().unwrap());
        conditions.any(|one| {
            one["type"] == "ServersDiscovered"
                && one["reason"] == reason
                && one["message"].as_str().unwrap().contains(part)
        })
    };
    site.gateway.plane().wait_status(&format!("discovery is {reason}, with {part:?}"), SOON, holds).unwrap();
}

#[test]
fn servers_follow_srv_records_and_no_request_fails() {
    let test = "srv";
    if deps::or_skip(test, deps::dnsmasq()).unwrap().is_none() {
        return;
    }
    let run = RunDir::new(test).unwrap();
    let mut dns = DnsServer::start(run.path(), &[]).unwrap();
    let mut site = Site::with_plane_flags(run, &["--dns-server".to_owned(), dns.address().to_string()]);
    let crowd = ClientPool::new(2).unwrap();
    let load = crowd.steady(&site.lanes(), &[PODS], 40.0).unwrap();

    // A name without records is no reason to leave the written servers out.
    site.change("/spec/portcullis/discovery", json!({"srvRecord": SRV}));
    wait_discovered(&site, "Empty", &format!("SRV records of {SRV}"));
    wait_answered(&load, &["stub-0", "stub-1", "stub-2"]);

    // Of two priorities the lower number counts; nothing is written any more.
    dns.restart(&records(&[(&site.stubs[0], 0), (&site.stubs[1], 0), (&site.stubs[2], 10)])).unwrap();
    wait_discovered(&site, "Current", "2 servers of SRV records");
    site.change("/spec/servers", json!([]));
    wait_answered(&load, &["stub-0", "stub-1"]);

    // One server goes and another comes.
    dns.restart(&records(&[(&site.stubs[1], 0), (&site.stubs[2], 0)])).unwrap();
    wait_answered(&load, &["stub-1", "stub-2"]);

    // A target without an address leaves the next priority.
    let nowhere = format!("srv-host={SRV},nowhere.test,{},0", site.stubs[0].address().port());
    dns.restart(&[records(&[(&site.stubs[0], 1)]), vec![nowhere]].concat()).unwrap();
    wait_answered(&load, &["stub-0"]);

    // The last answer stays while there is none, or no DNS.
    dns.restart(&[]).unwrap();
    wait_discovered(&site, "Empty", "the last ones are kept");
    wait_answered(&load, &["stub-0"]);
    dns.process().kill();
    wait_discovered(&site, "Unavailable", "1 server of");
    wait_answered(&load, &["stub-0"]);
    dns.restart(&records(&[(&site.stubs[0], 0), (&site.stubs[1], 0), (&site.stubs[2], 0)])).unwrap();
    wait_answered(&load, &["stub-0", "stub-1", "stub-2"]);

    let outcome = load.stop().unwrap();
    // Its log is in the directory that the site removes.
    drop(dns);
    assert!(outcome.failed == 0, "{outcome}");
}
