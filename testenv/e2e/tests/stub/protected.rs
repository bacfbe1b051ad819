//! Protected identities on a real Envoy: a server's view of them, in both ways of forwarding users.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest, MetricsPage, allow_all};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{StubServer, TokenEntry};
use serde_json::{Value, json};

use crate::access_log::line;
use crate::fixture::{NAME, PODS, StubFixture, connect};
use crate::observe::with_another_request;

const SOON: Duration = Duration::from_secs(20);
pub(crate) const MASTER: &str = "the-token-of-a-master";
const WORKER: &str = "the-token-of-a-worker";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Impersonate,
    RequestHeader,
}

/// A gateway, a server that knows two tokens, and the users that the server lets the gateway forward.
pub(crate) struct Site {
    pub(crate) fixture: StubFixture,
    pub(crate) server: StubServer,
    gateway: Identity,
    mode: Mode,
}

impl Site {
    pub(crate) fn start(test: &str, mode: Mode) -> Self {
        let fixture = StubFixture::without_cluster(test, &GatewayOptions::default());
        let front = Ca::new("front proxies").unwrap();
        let mut options = fixture.pki.stub_options("stub-1");
        let token = |groups: &[&str]| TokenEntry {
            user: "robot".to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..TokenEntry::default()
        };
        options = options.token(MASTER, token(&["system:masters"])).token(WORKER, token(&["workers"]));
        options.requestheader_ca = Some(front.pem().to_owned());
        let server = StubServer::start(options).unwrap();
        let gateway = match mode {
            Mode::Impersonate => fixture.pki.gateway.clone(),
            Mode::RequestHeader => front.issue(&CertSpec::client("front-proxy", [""; 0])).unwrap(),
        };
        let site = Site { fixture, server, gateway, mode };
        site.fixture.gateway.apply(&site.manifest(true)).unwrap();
        site
    }

    fn manifest(&self, is_reviewing: bool) -> Manifest {
        let manifest = Manifest::new(NAME, [self.server.address()])
            .upstream(&self.gateway, &self.fixture.pki.server_ca, "kubernetes")
            .serving(&self.fixture.gateway.serving_identity(NAME).unwrap(), &self.fixture.pki.client_ca)
            .set("/spec/logging", json!({"mode": "on"}))
            .policies(json!([{"rules": [allow_all()]}]));
        match self.mode {
            Mode::Impersonate => manifest,
            Mode::RequestHeader => manifest.set(
                "/spec/portcullis",
                json!({"upstreamIdentity": "RequestHeader", "requestHeader": {"tokenReview": is_reviewing}}),
            ),
        }
    }

    fn protect(&self, spec: &Value) {
        self.fixture.gateway.change_settings(|settings| settings["protectedIdentities"] = spec.clone()).unwrap();
    }

    pub(crate) fn target(&self) -> TlsTarget {
        self.fixture.gateway.target(NAME)
    }

    /// The answer, and the groups of whom the server took it for.
    fn ask(&self, client: &H2Client, headers: &[(&str, &str)]) -> (u16, Vec<String>) {
        self.server.clear();
        let answer = client.get(PODS, headers).unwrap();
        let records = self.server.records_for(PODS);
        if answer.header("x-stub-name").is_none() {
            assert!(records.is_empty(), "nothing goes upstream: {records:?}");
            assert_eq!(answer.json().unwrap()["kind"], "Status");
        }
        let acting = records.into_iter().filter_map(|record| record.effective);
        (answer.status, acting.flat_map(|user| user.groups).collect())
    }
}

#[test]
fn protected_user_is_refused_when_the_gateway_impersonates() {
    table(&Site::start("protected-impersonate", Mode::Impersonate));
}

#[test]
fn protected_user_is_refused_when_the_gateway_is_front_proxy() {
    table(&Site::start("protected-front-proxy", Mode::RequestHeader));
}

fn table(site: &Site) {
    // Connections go on over every edit of the settings.
    let admin = connect(&site.target().identity(&site.fixture.pki.admin));
    let alice = connect(&site.target().identity(&site.fixture.pki.alice));
    let nobody = connect(&site.target());
    let (master, worker) = (format!("Bearer {MASTER}"), format!("Bearer {WORKER}"));
    let as_master = [("impersonate-user", "bob"), ("impersonate-group", "system:masters")];

    let groups = |groups: &[&str]| groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>();
    let whole = groups(&["system:masters", "system:authenticated"]);
    assert_eq!(site.ask(&admin, &[]), (200, whole.clone()), "nobody is protected by default");

    site.protect(&json!({"groups": ["system:masters"]}));
    assert_eq!(site.ask(&admin, &[("user-agent", "refused")]).0, 403);
    assert_eq!(site.ask(&admin, &as_master).0, 403);
    assert_eq!(site.ask(&alice, &as_master).0, 403);
    assert_eq!(site.ask(&nobody, &[("authorization", &master)]).0, 403);
    assert_eq!(site.ask(&nobody, &[("authorization", &worker)]).0, 200);
    assert_eq!(site.ask(&alice, &[]), (200, groups(&["dev", "system:authenticated"])));
    let refused = line(&site.fixture, "refused");
    assert_eq!((&refused["reason"], &refused["user"]), (&json!("protected_identity"), &json!("admin")), "{refused}");

    site.protect(&json!({"groups": ["system:masters"], "users": ["alice"], "action": "DropGroup"}));
    assert_eq!(site.ask(&admin, &[]), (200, groups(&["system:authenticated"])));
    assert_eq!(site.ask(&admin, &as_master).0, 403, "what is asked for by name is not dropped");
    assert_eq!(site.ask(&alice, &[]).0, 403, "a user cannot be dropped");
    let by_token = site.ask(&nobody, &[("authorization", &master)]);
    match site.mode {
        Mode::Impersonate => assert_eq!(by_token, (200, groups(&["system:authenticated"]))),
        Mode::RequestHeader => assert_eq!(by_token.0, 403, "the server would find the group out itself"),
    }

    site.protect(&json!({"users": ["system:anonymous"]}));
    assert_eq!(site.ask(&nobody, &[]).0, 403);
    site.protect(&json!({}));
    assert_eq!(site.ask(&admin, &[]), (200, whole));
    let counted = || {
        with_another_request(&site.target());
        MetricsPage::of(&site.fixture.gateway).sum("requests_total", &[("reason", "protected_identity")])
    };
    wait::until("refusals are counted", SOON, || (counted() > 0).then_some(())).unwrap();
}

/// An object protects identities in its own cluster, beside those of the settings, and says nothing about other clusters.
#[test]
fn cluster_protects_identities_of_its_own() {
    for (test, mode) in [("protected-own", Mode::Impersonate), ("protected-own-front-proxy", Mode::RequestHeader)] {
        let site = Site::start(test, mode);
        let name = "other.example.com";
        let serving = site.fixture.gateway.serving_identity(name).unwrap();
        let other =
            site.manifest(true).set("/metadata/name", json!(name)).serving(&serving, &site.fixture.pki.client_ca);
        site.fixture.gateway.apply(&other).unwrap();
        let own = json!({"users": ["al*"], "groups": ["workers"]});
        let manifest = site.manifest(true).merge(&json!({"spec": {"portcullis": {"protectedIdentities": own}}}));
        site.fixture.gateway.apply(&manifest).unwrap();
        site.protect(&json!({"groups": ["system:masters"], "action": "DropGroup"}));
        let [here, there] = [NAME, name].map(|name| site.fixture.gateway.target(name));
        let worker = format!("Bearer {WORKER}");
        let by_token = |target: &TlsTarget| site.ask(&connect(target), &[("authorization", &worker)]);
        let as_alice =
            |target: &TlsTarget| site.ask(&connect(&target.clone().identity(&site.fixture.pki.alice)), &[]).0;
        assert_eq!((as_alice(&here), as_alice(&there)), (403, 200), "{mode:?}");
        assert_eq!(by_token(&there).0, 200, "{mode:?}");
        let admin = connect(&here.identity(&site.fixture.pki.admin));
        assert_eq!(site.ask(&admin, &[]).1, ["system:authenticated"], "those of the settings as well: {mode:?}");
        let (status, groups) = by_token(&site.fixture.gateway.target(NAME));
        match mode {
            Mode::Impersonate => assert_eq!(groups, ["system:authenticated"], "as the settings say"),
            Mode::RequestHeader => assert_eq!(status, 403, "the server would find the group out itself"),
        }
    }
}

/// A token without a review may be a protected user's, so all of them are reviewed, whatever the cluster asks for.
#[test]
fn tokens_are_reviewed_wherever_identities_are_protected() {
    let site = Site::start("protected-unreviewed", Mode::RequestHeader);
    site.fixture.gateway.apply(&site.manifest(false)).unwrap();
    let nobody = connect(&site.target());
    let master = format!("Bearer {MASTER}");
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    assert_eq!(site.ask(&nobody, &[("authorization", &master)]).0, 200);
    assert!(site.server.records_for(reviews).is_empty());
    site.protect(&json!({"groups": ["system:masters"]}));
    assert_eq!(site.ask(&nobody, &[("authorization", &master)]).0, 403);
    assert_eq!(site.server.records_for(reviews).len(), 1);
}
