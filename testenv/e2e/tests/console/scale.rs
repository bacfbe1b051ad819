//! A fleet of a thousand clusters.

use std::time::{Duration, Instant};

use portcullis_harness::client::plain;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{ConsoleFixture, SOON, assert_quiet};

const CLUSTERS: usize = 1_000;

#[test]
#[ignore = "needs a browser: make test-console"]
fn thousand_clusters_open_within_a_second() {
    let fixture = ConsoleFixture::start("console-scale");
    let list: Vec<_> = (0..CLUSTERS)
        .map(|number| {
            let name = format!("cluster-{number:04}.example.com");
            let port = 10_000 + number;
            json!({
                "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": name},
                "spec": {
                    "servers": [{"endpoint": format!("https://192.0.2.1:{port}")}],
                    "dispatchPolicies": [{"rules": [portcullis_e2e::allow_all()]}],
                },
            })
        })
        .collect();
    fixture.write("many.json", &json!({"apiVersion": "v1", "kind": "List", "items": list}).to_string());
    let address = fixture.site.plane().http_address();
    wait::until_ok("all clusters are known", SOON, || {
        let fleet =
            plain::get(address, "/ui/api/fleet").and_then(|answer| answer.json()).map_err(|error| error.to_string())?;
        let known = fleet["clusters"].as_array().map_or(0, Vec::len);
        if known > CLUSTERS { Ok(()) } else { Err(format!("{known} clusters")) }
    })
    .unwrap();
    let begin = Instant::now();
    let page = plain::get(address, "/ui/").unwrap();
    let (server, bytes) = (begin.elapsed(), page.text().len());
    let browser = fixture.browser(1400, 1000);
    fixture.open(&browser, "/ui/");
    let timing = "const [entry] = performance.getEntriesByType('navigation');\
                  const paint = performance.getEntriesByName('first-contentful-paint')[0];\
                  return [entry.responseEnd, entry.domContentLoadedEventEnd, entry.loadEventEnd, paint ? paint.startTime : null]";
    let timing = browser.run(timing, &[]).unwrap();
    println!("server {server:?} for {bytes} bytes; response, DOM, load and first paint at {timing} ms");
    assert!(timing[2].as_f64().unwrap() < 1_000.0, "{timing}");
    assert!(server < Duration::from_secs(1) && bytes < 500_000);
    assert!(browser.text().unwrap().contains("801 more"));
    assert_quiet(&browser);
}
