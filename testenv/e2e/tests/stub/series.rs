//! Series that clients cause: few for strangers, and never those of another cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, MetricsPage};
use portcullis_harness::client::{H2Client, Outgoing};
use portcullis_harness::{project_root, wait};

use crate::fixture::{NAME, PODS, StubFixture};

const SOON: Duration = Duration::from_secs(30);
/// The names of two clusters that strangers know.
const WALKED: [&str; 2] = ["one.example.com", "two.example.com"];
/// Methods, and whether the path is a collection's.
const REQUESTS: [(&str, bool); 6] =
    [("GET", false), ("GET", true), ("POST", true), ("PUT", false), ("PATCH", false), ("DELETE", true)];

/// Kubernetes' own resources and subresources, as the reference of metrics lists them.
pub(crate) fn closed_set() -> Vec<String> {
    let path = project_root().join("docs/reference/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let list = text.lines().find_map(|line| line.strip_prefix("**resource**")).unwrap();
    let names: Vec<_> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(names.len() > 100 && names.contains(&"pods/exec".to_owned()), "{names:?}");
    names
}

/// A request for each of these resources, by each method.
pub(crate) fn walk(names: &[String], requests: &[(&str, bool)]) -> Vec<Outgoing> {
    let mut all = Vec::new();
    for name in names {
        let (resource, subresource) = name.split_once('/').unwrap_or((name, ""));
        for (method, is_collection) in requests {
            let collection = format!("/api/v1/namespaces/default/{resource}");
            let object = format!("{collection}/o/{subresource}");
            let path = if *is_collection && subresource.is_empty() { collection } else { object };
            all.push(Outgoing { method: (*method).to_owned(), ..Outgoing::get(path.trim_end_matches('/'), &[]) });
        }
    }
    all
}

/// The number of series of the filter with this cluster, and the resources that they name.
fn of_cluster(page: &MetricsPage, cluster: &str) -> (usize, BTreeSet<String>) {
    let of = page.all().filter(|(_, labels, _)| labels.get("cluster").is_some_and(|name| name == cluster));
    let resources: Vec<_> = of.map(|(_, labels, _)| labels.get("resource").cloned().unwrap_or_default()).collect();
    (resources.len(), resources.into_iter().collect())
}

#[test]
fn strangers_make_few_series_and_leave_details_to_others() {
    let fixture = StubFixture::start("strangers", &GatewayOptions::default());
    for name in WALKED {
        let serving = fixture.gateway.serving_identity(name).unwrap();
        let manifest = fixture.manifest().set("/metadata/name", serde_json::json!(name));
        fixture.gateway.apply(&manifest.serving(&serving, &fixture.pki.client_ca)).unwrap();
    }
    let requests = walk(&closed_set(), &REQUESTS);
    for name in WALKED {
        let nobody = H2Client::connect(&fixture.gateway.target(name)).unwrap();
        let strange = requests.iter().step_by(7).map(|request| {
            let headers = vec![("authorization".to_owned(), b"Bearer no-token".to_vec())];
            Outgoing { method: request.method.clone(), path: request.path.clone(), headers, body: Vec::new() }
        });
        let all: Vec<_> = requests.iter().cloned().chain(strange).collect();
        let expected = all.len() as u64;
        for answer in nobody.burst(all, 16) {
            assert!(answer.unwrap().status >= 400);
        }
        let counted = || {
            nobody.get("/healthz", &[]).ok()?;
            let page = MetricsPage::of(&fixture.gateway);
            let labels = [("cluster", name), ("resource", "other")];
            (page.sum("apiserver_request_total", &labels) == expected).then_some(page)
        };
        let page = wait::until(&format!("{name} has counted its strangers"), SOON, counted).unwrap();
        let (series, resources) = of_cluster(&page, name);
        assert!(series < 700, "{series}");
        assert_eq!(resources, ["", "other"].map(str::to_owned).into());
    }
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    assert_eq!(alice.get(PODS, &[]).unwrap().status, 200);
    let detailed = || {
        alice.get("/healthz", &[]).ok()?;
        let page = MetricsPage::of(&fixture.gateway);
        let labels = [("cluster", NAME), ("verb", "LIST"), ("resource", "pods"), ("scope", "namespace")];
        (page.sum("apiserver_request_duration_seconds_count", &labels) == 1).then_some(())
    };
    wait::until("another cluster has its details", SOON, detailed).unwrap();
}
