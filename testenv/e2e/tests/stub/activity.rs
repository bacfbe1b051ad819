//! The activity that the filter sends to the agent of its Envoy.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_filter_config::activity::{Activity, ClusterActivity, LimitUse, PolicyActivity};
use portcullis_harness::client::H2Client;
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};

pub(crate) const SOON: Duration = Duration::from_secs(20);
pub(crate) const SECRET: &str = "/api/v1/namespaces/default/secrets/s";
pub(crate) const WATCHED: &str = "/api/v1/namespaces/default/secrets?watch=true";

pub(crate) fn with_activity(version: Option<String>) -> GatewayOptions {
    GatewayOptions { activity: true, envoy_version: version, ..GatewayOptions::default() }
}

/// Secrets by the first policy, one request at a time; pods by the second; the rest by the third.
pub(crate) fn manifest(fixture: &StubFixture) -> Manifest {
    let resource = |name: &str| json!({"verbs": ["*"], "apiGroups": [""], "resources": [name]});
    fixture
        .manifest()
        .set(
            "/spec/flowControl",
            json!({"flowControlSchemas": [
                {"name": "one", "maxRequestsInflight": {"max": 1}},
                {"name": "many", "tokenBucket": {"qps": 1, "burst": 1_000}},
            ]}),
        )
        .policies(json!([
            {"rules": [resource("secrets")], "flowControlSchemaName": "one"},
            {"rules": [resource("pods")], "flowControlSchemaName": "many"},
            {"rules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]},
        ]))
}

pub(crate) fn of_cluster(fixture: &StubFixture) -> Option<ClusterActivity> {
    let activity: Activity = serde_json::from_value(fixture.gateway.activity().unwrap()).unwrap();
    assert!(activity.process > 0);
    activity.clusters.into_iter().find(|cluster| cluster.cluster == NAME)
}

/// Waits until the cluster's activity is as expected.
pub(crate) fn until(fixture: &StubFixture, is_expected: impl Fn(&ClusterActivity) -> bool) -> ClusterActivity {
    let nobody = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
    wait::until_ok("the activity is told", SOON, || {
        // Envoy 1.38 takes counts from requests only.
        nobody.get("/healthz", &[]).map_err(|error| error.to_string())?;
        let cluster = of_cluster(fixture).unwrap_or_default();
        if is_expected(&cluster) { Ok(cluster) } else { Err(format!("{cluster:#?}")) }
    })
    .unwrap()
}

fn policy(policy: &str, forwarded: u64, refused: &[(&str, u64)]) -> PolicyActivity {
    let refused = refused.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
    PolicyActivity { policy: policy.to_owned(), forwarded, refused }
}

#[test]
fn activity_is_what_clients_sent_and_survives_an_edit() {
    for version in deps::envoy_versions() {
        let fixture =
            StubFixture::without_cluster(&format!("activity-{version}"), &with_activity(Some(version.clone())));
        fixture.gateway.apply(&manifest(&fixture)).unwrap();
        let found = Action::Respond { status: 200, headers: Vec::new(), body: "{}".to_owned() };
        fixture.stub.fault(Fault::new(SECRET, found));
        let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
        let nobody = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
        let send = |secrets: usize, lists: usize| {
            for _ in 0..secrets {
                assert_eq!(alice.get(SECRET, &[]).unwrap().status, 200);
            }
            for _ in 0..lists {
                assert_eq!(alice.get(PODS, &[]).unwrap().status, 200);
            }
        };
        send(3, 5);
        assert_eq!(nobody.get(PODS, &[("authorization", "Bearer not-a-token")]).unwrap().status, 401);
        let watch = alice.open("GET", WATCHED, &[], b"").unwrap();
        assert_eq!(alice.get(SECRET, &[]).unwrap().status, 429);

        let decided =
            [policy("-", 0, &[("unauthorized", 1)]), policy("0", 4, &[("flow_control", 1)]), policy("1", 5, &[])];
        let server = fixture.stub.address().to_string();
        let told = until(&fixture, |cluster| {
            let requests = cluster.policies.last().map_or(0, |others| others.forwarded);
            let answers = cluster.servers.iter().find(|one| one.server == server).map_or(0, |one| one.answers[2]);
            // The watch has no answer that has ended.
            cluster.policies.starts_with(&decided) && answers == 3 + 5 + requests && cluster.watches == 1
        });
        for one in &told.servers {
            // The gateway's own answers have no duration.
            let timed = if one.server == "-" { 0 } else { one.answers.iter().sum::<u64>() };
            assert_eq!(one.latency.buckets.iter().sum::<u64>(), timed, "{one:?}");
        }
        let refusals = told.servers.iter().find(|one| one.server == "-").unwrap();
        assert_eq!(refusals.answers, [0, 0, 0, 0, 2, 0], "{version}");
        let [one, many] = told.limits.as_slice() else { panic!("{:?}", told.limits) };
        let expected = LimitUse { schema: "one".to_owned(), used: 1, limit: 1, refused: 1, ..LimitUse::default() };
        assert_eq!(*one, expected);
        assert_eq!((&*many.schema, many.limit, many.rate, many.refused), ("many", 1_000, 1, 0));
        assert!(many.used <= 5, "{many:?}");

        drop(watch);
        let edited = manifest(&fixture).set("/spec/portcullis", json!({"logging": {"slow": "7s"}}));
        fixture.gateway.apply(&edited).unwrap();
        until(&fixture, |cluster| cluster.watches == 0 && cluster.limits[0].used == 0);
        send(1, 1);
        let decided =
            [policy("-", 0, &[("unauthorized", 1)]), policy("0", 5, &[("flow_control", 1)]), policy("1", 6, &[])];
        until(&fixture, |cluster| cluster.policies.starts_with(&decided) && cluster.limits[0].refused == 1);
    }
}

#[test]
fn activity_of_a_removed_cluster_is_forgotten() {
    let other = "other.example.com";
    for version in deps::envoy_versions() {
        // A listener's part is kept that long.
        let envoy_flags = ["--drain-time-s", "1"].map(str::to_owned).into();
        let options = GatewayOptions { envoy_flags, ..with_activity(Some(version.clone())) };
        let fixture = StubFixture::start(&format!("activity-gone-{version}"), &options);
        let serving = fixture.gateway.serving_identity(other).unwrap();
        let second = Manifest::new(other, [fixture.stub.address()])
            .upstream(&fixture.pki.gateway, &fixture.pki.server_ca, "kubernetes")
            .serving(&serving, &fixture.pki.client_ca);
        fixture.gateway.apply(&second).unwrap();
        until(&fixture, |cluster| !cluster.policies.is_empty());
        fixture.gateway.remove(NAME).unwrap();
        let clients = H2Client::connect(&fixture.gateway.target(other)).unwrap();
        let is_gone = || {
            // Counts are carried to Envoy with those of others.
            clients.get("/healthz", &[]).ok()?;
            of_cluster(&fixture).is_none().then_some(())
        };
        wait::until("the activity is forgotten", SOON, is_gone).unwrap();
    }
}

#[test]
fn requests_for_no_cluster_are_told_apart() {
    let fixture = StubFixture::start("activity-unrouted", &with_activity(None));
    assert_eq!(fixture.gateway.target(NAME).raw_request(b"NONSENSE\r\n\r\n").unwrap().status, 400);
    let refused = || {
        let activity: Activity = serde_json::from_value(fixture.gateway.activity().unwrap()).unwrap();
        let unrouted = activity.clusters.into_iter().find(|cluster| cluster.cluster == "-")?;
        (unrouted.policies == [policy("-", 0, &[("malformed", 1)])]).then_some(())
    };
    wait::until("the refusal is told", SOON, refused).unwrap();
}
