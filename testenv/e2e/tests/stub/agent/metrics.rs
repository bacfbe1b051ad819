//! Envoy's metrics by the agent, and nothing else of Envoy's admin page.

use std::collections::BTreeMap;

use portcullis_harness::client::plain;
use portcullis_harness::prometheus::{Prometheus, Sample, Scraped};
use portcullis_harness::{deps, wait, write_private};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use super::supervision::signal_envoy;
use crate::dashboard::{filled_in, queries};
use crate::fixture::{NAME, PODS};
use crate::observe::with_another_request;

#[test]
fn metrics_are_handed_on_and_nothing_else() {
    let fixture = AgentFixture::new("agent-metrics");
    let site = fixture.site("envoy-0").start().unwrap();
    let http = site.agent.http_address();
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
    assert_eq!(fixture.target(site.address).raw_request(request.as_bytes()).unwrap().status, 200);
    wait::until_ok("the request is counted", SOON, || {
        with_another_request(&fixture.target(site.address));
        let page = plain::get(http, "/metrics").map_err(|error| error.to_string())?.text();
        let is_counted = |line: &str| line.starts_with("envoy_portcullis_requests_total{") && line.ends_with(" 1");
        if page.lines().any(is_counted) { Ok(()) } else { Err(page) }
    })
    .unwrap();
    let page = plain::get(http, "/metrics").unwrap();
    assert!(page.header("content-type").is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")), "{page:?}");
    for path in
        ["/activity", "/stats", "/stats/prometheus", "/config_dump", "/metrics/config_dump", "/metrics/../config_dump"]
    {
        assert_eq!(plain::get(http, path).unwrap().status, 404, "{path}");
    }
    assert_eq!(plain::post(http, "/metrics", b"").unwrap().status, 405);
    assert_eq!(plain::post(http, "/quitquitquit", b"").unwrap().status, 404);
    // A query is Envoy's to read, not a stranger's to write.
    let narrowed = plain::get(http, "/metrics?filter=nothing_of_this_name").unwrap().text();
    assert!(narrowed.contains("envoy_portcullis_requests_total"));
}

#[test]
fn envoy_that_hangs_holds_up_nobody_who_asks() {
    let fixture = AgentFixture::new("agent-metrics-hang");
    let site = fixture.site("envoy-0").start().unwrap();
    signal_envoy(&site.agent, "-STOP");
    let http = site.agent.http_address();
    let asked: Vec<_> =
        (0..6).map(|_| std::thread::spawn(move || plain::get(http, "/metrics").unwrap().status)).collect();
    // A client that waits longer than ten seconds gets no answer here.
    for one in asked {
        assert_eq!(one.join().unwrap(), 503);
    }
    assert_eq!(plain::get(http, "/healthz").unwrap().status, 200);
    signal_envoy(&site.agent, "-CONT");
    wait::until("metrics are back", SOON, || (plain::get(http, "/metrics").ok()?.status == 200).then_some(())).unwrap();
}

/// A user agent that would end its label, and the line.
const EVIL: &str = "evil\"}\\n{x=\\";

#[test]
fn talkers_are_gauges_that_prometheus_reads() {
    let name = "agent-talkers";
    if deps::or_skip(name, deps::prometheus()).unwrap().is_none() {
        return;
    }
    let fixture = AgentFixture::new(name);
    let site = fixture.site("envoy-0").start().unwrap();
    let settings = fixture.run.path().join("envoy-0-manifests/settings.yaml");
    let mut object: Value = serde_json::from_str(&std::fs::read_to_string(&settings).unwrap()).unwrap();
    let has_talkers = |page: &str| page.contains("\nportcullis_top_requests{");
    assert!(!has_talkers(&plain::get(site.agent.http_address(), "/metrics").unwrap().text()));
    object["spec"]["metrics"] = json!({"users": {"mode": "TopK", "k": 3}});
    write_private(&settings, object.to_string().as_bytes()).unwrap();
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nUser-Agent: {EVIL} x\r\nConnection: close\r\n\r\n");
    wait::until("talkers are shown", SOON, || {
        assert_eq!(fixture.target(site.address).raw_request(request.as_bytes()).unwrap().status, 200);
        has_talkers(&plain::get(site.agent.http_address(), "/metrics").ok()?.text()).then_some(())
    })
    .unwrap();
    let page = Scraped { job: "gateway", pod: "gateway-0", address: site.agent.http_address(), path: "/metrics" };
    let prometheus = Prometheus::start(&fixture.run, "portcullis", &[page]).unwrap();
    let names = || {
        let labels = |(labels, _): (BTreeMap<String, String>, f64)| {
            ["kind", "name"].map(|label| labels.get(label).cloned().unwrap_or_default())
        };
        let query = format!("portcullis_top_requests{{cluster=\"{NAME}\",pod=\"gateway-0\"}}");
        let mut names: Vec<_> = prometheus.query(&query).ok()?.into_iter().map(labels).collect();
        names.sort();
        (!names.is_empty()).then_some(names)
    };
    let names = wait::until("Prometheus has the talkers", SOON, names).unwrap();
    let expected = [("group", "dev"), ("group", "system:authenticated"), ("user", "alice"), ("userAgent", EVIL)];
    assert_eq!(names, expected.map(|(kind, name)| [kind, name].map(str::to_owned)));
    for (title, name) in
        [("Ten busiest users", "alice"), ("Ten busiest user agents", EVIL), ("Ten users with the most bytes", "alice")]
    {
        let (_, _, expression) = queries().into_iter().find(|(one, _, _)| one == title).unwrap();
        wait::until_ok(title, SOON, || {
            assert_eq!(fixture.target(site.address).raw_request(request.as_bytes()).unwrap().status, 200);
            let found = prometheus.query(&filled_in(&expression)).unwrap();
            let named = |(labels, rate): &Sample| labels["cluster"] == NAME && labels["name"] == name && *rate > 0.0;
            if matches!(&found[..], [one] if named(one)) { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .unwrap();
    }
}
