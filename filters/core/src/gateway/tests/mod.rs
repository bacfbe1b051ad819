use portcullis_filter_config::{ActivityReports, CONFIG_VERSION, LimitExchanges};
use portcullis_filter_config::{ClusterConfig, FlowControlLimit, FlowControlSchema, Policy, Rule, UpstreamIdentity};
use rcgen::DnType;

mod access;
mod attribution;
mod client_credential;
mod constrained;
mod denials;
mod flow_control;
mod identity;
mod local_tokens;
mod protected;
mod proxy;
pub(crate) mod reviews;
mod revocation;
mod running;
mod seen;
mod shown;
mod strangers;

pub(crate) use super::*;
use crate::exchange::RouteConfig;
use crate::long_streams::StreamOwners;
pub(crate) use crate::moment::Moment;
use crate::refusal::Cause;
pub(crate) use crate::request::Peer;
pub(crate) use crate::review::ReviewAnswers;
use crate::state_store::{EphemeralState, StateStore};
use crate::testing::{self, ca, issue, moment, now};
pub(crate) use rustls_pki_types::UnixTime;
pub(crate) use std::time::Duration;

pub(crate) const POD: &str = "/api/v1/namespaces/n/pods/a";
const UPTIME: Duration = Duration::ZERO;
pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

pub(crate) struct Fixture {
    pub(crate) gateway: Gateway,
    pub(crate) route: RouteConfig<()>,
    pub(crate) ca: testing::Ca,
}

fn all_rules() -> Rule {
    let all = || vec!["*".to_owned()];
    Rule { verbs: all(), api_groups: all(), resources: all(), non_resource_urls: all(), ..Rule::default() }
}

pub(crate) fn fixture() -> Fixture {
    fixture_with(|_| {})
}

pub(crate) fn fixture_with(change: impl FnOnce(&mut ClusterConfig)) -> Fixture {
    fixture_in(&EphemeralState([7; 32]), change)
}

/// A fixture whose state the store keeps.
pub(crate) fn fixture_in(state: &impl StateStore, change: impl FnOnce(&mut ClusterConfig)) -> Fixture {
    let ca = ca("clients");
    let mut config = plain_config(Some(ca.pem()));
    change(&mut config);
    let (route, update) = RouteConfig::compile(&config, state, Arc::default(), 0).unwrap();
    let _ = update.apply(&StreamOwners::default(), moment(UPTIME));
    Fixture { gateway: gateway(), route, ca }
}

fn gateway() -> Gateway {
    Gateway::compile(&FilterConfig::new("lab")).unwrap()
}

pub(crate) fn plain_config(client_ca: Option<String>) -> ClusterConfig {
    let secrets = Rule { resources: vec!["secrets".into()], non_resource_urls: vec![], ..all_rules() };
    ClusterConfig {
        servers: None,
        max_session_duration_seconds: None,
        protected: None,
        access: vec![],
        version: CONFIG_VERSION,
        name: "lab/-/prod.example.com".into(),
        identity: "prod".into(),
        object: String::new(),
        variant: String::new(),
        listener: String::new(),
        authorities: vec!["prod.example.com".into()],
        narrower_authorities: Vec::new(),
        client_ca,
        deny_all_requests: false,
        close_connections: false,
        rebalance: None,
        allow_anonymous: true,
        audit_attribution: false,
        reviews: None,
        upstream_identity: UpstreamIdentity::Impersonate,
        flow_control_schemas: vec![],
        fair_queues: vec![],
        token_issuers: vec![],
        log_refused: false,
        log_slow_milliseconds: None,
        log_failed: false,
        top_talkers: None,
        request_info: None,
        shadow: None,
        policies: vec![
            Policy {
                group: "vault".into(),
                flow_control_schema: Some("few".into()),
                rules: vec![secrets],
                ..Policy::default()
            },
            Policy {
                group: "all".into(),
                rules: vec![Rule { verbs: vec!["-deletecollection".into()], ..all_rules() }],
                ..Policy::default()
            },
        ]
        .into(),
    }
}

/// `destination user` or `code cause`.
fn outcome(fixture: &Fixture, peer: Peer<'_>, method: &str, path: &str, headers: Headers<'_>) -> String {
    let mut all = vec![(":method", method), (":path", path)];
    if !headers.iter().any(|(name, _)| *name == ":authority") {
        all.push((":authority", "prod.example.com:6443"));
    }
    all.extend_from_slice(headers);
    let scan = fixture
        .gateway
        .scan(Some(&fixture.route.cluster), all.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    match fixture.gateway.decide(
        &fixture.route.cluster,
        &RequestContext { scan: &scan, peer, answers: &ReviewAnswers::default(), now: now(), uptime: UPTIME },
    ) {
        Decision::Forward(forward) => {
            let user = forward.user.as_ref().map_or("nobody", |user| user.user().name.as_str());
            format!("{} {user}", forward.destination)
        }
        Decision::Review(reviews) => format!("review {}", reviews.len()),
        Decision::Refuse(refusal) | Decision::Queue(_, refusal) => {
            format!("{} {}", refusal.code, refusal.cause.as_str())
        }
    }
}

#[test]
fn pool_and_class_follow_from_user_and_request() {
    let fixture = fixture();
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let upgrade = [("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")];
    let table: [(&str, &str, Headers<'_>, &str, &str); 13] = [
        ("GET", POD, &[], "all.h2.read", "all.anonymous.read"),
        ("HEAD", "/healthz", &[], "all.h2.read", "all.anonymous.read"),
        ("GET", "/api/v1/secrets", &[], "vault.h2.read", "vault.anonymous.read"),
        ("GET", "/api/v1/pods?watch=1", &[], "all.h2.watch", "all.anonymous.watch"),
        ("POST", "/api/v1/watch/pods", &[], "all.h2.session", "all.anonymous.session"),
        ("GET", "/api/v1/namespaces/n/pods/a/log", &[], "all.h2.watch", "all.anonymous.watch"),
        ("POST", "/api/v1/namespaces/n/pods", &[], "all.h2.write", "all.anonymous.write"),
        ("DELETE", POD, &[], "all.h2.write", "all.anonymous.write"),
        ("PURGE", POD, &[], "all.h2.write", "all.anonymous.write"),
        ("GET", "/api/v1/namespaces/n/services/s/proxy/x", &[], "all.h2.session", "all.anonymous.session"),
        ("POST", "/api/v1/namespaces/n/pods/a/exec", &upgrade, "all.upgrade.session", "all.anonymous.session"),
        ("GET", "/api/v1/namespaces/n/pods/a/exec", &upgrade, "all.upgrade.session", "all.anonymous.session"),
        ("GET", "/api/v1/pods?watch=1", &upgrade, "all.upgrade.session", "all.anonymous.session"),
    ];
    for (method, path, headers, authenticated, anonymous) in table {
        let of = |peer| outcome(&fixture, peer, method, path, headers);
        assert_eq!(of(Peer::Chain(&chain)), format!("{authenticated} alice"), "{method} {path}");
        assert_eq!(of(Peer::None), format!("{anonymous} nobody"), "{method} {path}");
    }
}

#[test]
fn credentials_are_never_downgraded() {
    let fixture = fixture();
    let good = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let foreign = testing::encode(&[&issue(testing::alice(), &ca("other"))]);
    let nameless = testing::encode(&[&issue(
        testing::client_params(&[(DnType::OrganizationName, "system:masters")]),
        &fixture.ca,
    )]);
    let trimmed = testing::encode(&[&issue(testing::client_params(&[(DnType::CommonName, "alice ")]), &fixture.ca)]);
    let too_large = testing::encode(&[b"x".as_slice(); 9]);
    let token = [("authorization", "Bearer abc")];
    let basic = [("authorization", "Basic abc")];
    let two = [("authorization", "Bearer abc"), ("authorization", "Bearer def")];
    let subprotocol = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.eA"),
    ];
    let table: [(Peer<'_>, Headers<'_>, &str); 15] = [
        (Peer::None, &[], "all.anonymous.read nobody"),
        (Peer::None, &token, "503 unchecked"),
        (Peer::None, &basic, "all.anonymous.read nobody"),
        (Peer::None, &subprotocol, "503 unchecked"),
        (Peer::None, &two, "400 bad_request"),
        (Peer::Chain(&good), &[], "all.h2.read alice"),
        (Peer::Chain(&good), &token, "all.h2.read alice"),
        (Peer::Chain(&good), &subprotocol, "all.upgrade.session alice"),
        (Peer::Chain(&foreign), &[], "401 unauthorized"),
        (Peer::Chain(&foreign), &token, "503 unchecked"),
        (Peer::Chain(&nameless), &[], "all.anonymous.read nobody"),
        (Peer::Chain(&trimmed), &[], "401 unauthorized"),
        (Peer::Chain(&too_large), &[], "401 unauthorized"),
        (Peer::Chain(b"garbled"), &[], "503 unchecked"),
        (Peer::Unreadable, &token, "503 unchecked"),
    ];
    for (peer, headers, expected) in table {
        assert_eq!(outcome(&fixture, peer, "GET", POD, headers), expected, "{peer:?} {headers:?}");
    }
}

#[test]
fn request_is_refused_for_any_user() {
    let fixture = fixture();
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let (connection, upgrade) = (("connection", "Upgrade"), ("upgrade", "websocket"));
    let table: [(&str, &str, Headers<'_>, &str); 19] = [
        ("GET", POD, &[("impersonate-user", "bob")], "403 impersonation"),
        ("GET", POD, &[("impersonate-extra-x", "y")], "403 impersonation"),
        ("GET", POD, &[("impersonate-unheard-of", "y")], "403 impersonation"),
        ("GET", POD, &[("impersonate-uid", "1"), ("connection", "impersonate-uid")], "403 impersonation"),
        ("GET", POD, &[("via", "1.1 lab")], "508 loop"),
        ("GET", POD, &[(":authority", "other.example.com")], "421 misdirected"),
        ("GET", "/api/v1/namespaces/a%2Fb/pods", &[], "400 bad_request"),
        ("GET", "/api/v1/watch", &[], "400 bad_request"),
        ("GET", "/api/v1/%zz", &[], "400 bad_request"),
        ("GET", "", &[], "400 bad_request"),
        ("GET", "/api/v1/pods/\u{e9}", &[], "400 bad_request"),
        ("GET", "/api/v1/pods/a b", &[], "400 bad_request"),
        ("GET", POD, &[("authorization", "Bearer a,Bearer b")], "400 bad_request"),
        ("OPTIONS", "*", &[], "400 bad_request"),
        ("CONNECT", "/", &[], "400 bad_request"),
        ("GET", POD, &[("connection", "xupgrade"), ("upgrade", "websocket")], "400 bad_request"),
        ("GET", POD, &[connection, upgrade, ("content-length", "5")], "400 bad_request"),
        ("GET", POD, &[connection, upgrade, ("content-length", "00")], "400 bad_request"),
        ("DELETE", "/api/v1/pods", &[], "403 no_policy"),
    ];
    for (method, path, headers, expected) in table {
        assert_eq!(
            outcome(&fixture, Peer::Chain(&chain), method, path, headers),
            expected,
            "{method} {path} {headers:?}"
        );
    }
}

#[test]
fn token_subprotocol_is_stripped_when_another_credential_wins() {
    let fixture = fixture();
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let headers = [
        (":method", "GET"),
        (":path", POD),
        (":authority", "prod.example.com"),
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io"),
        ("sec-websocket-protocol", "v4.channel.k8s.io"),
    ];
    let scan = fixture
        .gateway
        .scan(Some(&fixture.route.cluster), headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    let request = RequestContext {
        scan: &scan,
        peer: Peer::Chain(&chain),
        answers: &ReviewAnswers::default(),
        now: now(),
        uptime: UPTIME,
    };
    let Decision::Forward(forward) = fixture.gateway.decide(&fixture.route.cluster, &request) else { panic!() };
    assert_eq!(forward.subprotocols.as_deref(), Some(&b"v5.channel.k8s.io,v4.channel.k8s.io"[..]));
    assert!(forward.is_upgrade);
    assert_eq!(forward.via, None);
}

#[test]
fn anonymous_user_decides_the_destination() {
    let fixture = fixture();
    let headers = [(":method", "GET"), (":path", POD), (":authority", "prod.example.com")];
    let scan = fixture
        .gateway
        .scan(Some(&fixture.route.cluster), headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    let answers = ReviewAnswers::default();
    let request = RequestContext { scan: &scan, peer: Peer::None, answers: &answers, now: now(), uptime: UPTIME };
    let Decision::Forward(forward) = fixture.gateway.decide(&fixture.route.cluster, &request) else { panic!() };
    assert_eq!(forward.via, Some("1.1 lab"));
}

#[test]
fn status_401_without_a_credential_is_the_gateways_fault() {
    let fixture = fixture();
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let table = [
        (Peer::Chain(&chain), POD, true),
        (Peer::Chain(&chain), "/healthz", true),
        (Peer::Chain(&chain), "/api/v1/namespaces/n/services/s/proxy/login", false),
        (Peer::Chain(&chain), "/api/v1/nodes/n/proxy", false),
        (Peer::None, POD, false),
    ];
    for (peer, path, expected) in table {
        let headers = [(":method", "GET"), (":path", path), (":authority", "prod.example.com")];
        let scan = fixture.gateway.scan(
            Some(&fixture.route.cluster),
            headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        );
        let decision = fixture.gateway.decide(
            &fixture.route.cluster,
            &RequestContext { scan: &scan, peer, answers: &ReviewAnswers::default(), now: now(), uptime: UPTIME },
        );
        let Decision::Forward(forward) = decision else { panic!("{decision:?}") };
        assert_eq!(forward.owns_unauthorized, expected, "{peer:?} {path}");
    }
}

#[test]
fn configurations_for_other_versions_are_refused() {
    let next = FilterConfig { version: CONFIG_VERSION + 1, ..FilterConfig::new("lab") };
    assert_eq!(Gateway::compile(&next).unwrap_err(), CompileError::Version(CONFIG_VERSION + 1));
    for instance in ["", "a b", "a,b", "a\r\n"] {
        let config = FilterConfig::new(instance);
        assert_eq!(Gateway::compile(&config).unwrap_err(), CompileError::Instance, "{instance:?}");
    }
}

/// A header that the filter reads goes on; to be silent about the contrary would leave an identity in requests.
#[test]
fn reserved_name_of_a_needed_header_is_refused() {
    for (prefix, is_good) in
        [("legacy-", true), ("content-", false), ("auth", false), ("via", false), ("Legacy", false)]
    {
        let config = FilterConfig { reserved_headers: vec![prefix.to_owned()], ..FilterConfig::new("lab") };
        assert_eq!(Gateway::compile(&config).is_ok(), is_good, "{prefix:?}");
    }
}

#[test]
fn reports_of_activity_and_limits_are_bounded() {
    let owned = |clusters: &[&str]| clusters.iter().map(|cluster| (*cluster).to_owned()).collect::<Vec<_>>();
    let reported = |clusters: &[&str], node: &str, interval_seconds| {
        let activity = Some(ActivityReports { clusters: owned(clusters), node: node.to_owned(), interval_seconds });
        Gateway::compile(&FilterConfig { activity, ..FilterConfig::new("lab") }).map(drop)
    };
    let exchanged = |clusters: &[&str], node: &str| {
        let global_limits = Some(LimitExchanges { clusters: owned(clusters), node: node.to_owned() });
        Gateway::compile(&FilterConfig { global_limits, ..FilterConfig::new("lab") }).map(drop)
    };
    assert_eq!((reported(&["a", "b"], "*.example.com", 10), exchanged(&["a", "b"], "*.example.com")), (Ok(()), Ok(())));
    for (clusters, node) in [(&[][..], "n"), (&["a"; 9], "n"), (&[""], "n"), (&["a"], ""), (&["a"], &"n".repeat(257))] {
        assert_eq!(reported(clusters, node, 10), Err(CompileError::Activity), "{clusters:?} {node}");
        assert_eq!(exchanged(clusters, node), Err(CompileError::GlobalLimits), "{clusters:?} {node}");
    }
    assert_eq!([4, 16].map(|interval| reported(&["a"], "n", interval)), [const { Err(CompileError::Activity) }; 2]);
}

#[test]
fn request_without_a_configuration_is_refused_as_gateway_fault() {
    let gateway = gateway();
    for (method, path, code) in
        [("GET", POD, 503), ("CONNECT", "", 400), ("CONNECT", "/", 400), ("OPTIONS", "*", 400), ("GET", "", 400)]
    {
        let headers = [(":method", method), (":path", path), (":authority", "prod.example.com")];
        let scan = gateway.scan(None, headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        assert_eq!(Gateway::unrouted(&scan).code, code, "{method} {path}");
    }
}

#[test]
fn causes_have_names_of_their_own() {
    let names: std::collections::BTreeSet<_> = Cause::ALL.map(Cause::as_str).into();
    assert_eq!(names.len(), Cause::ALL.len());
}

#[test]
fn limit_counts_requests_until_they_end() {
    let fixture = fixture_with(|config| {
        let limit = FlowControlLimit::MaxRequestsInflight(1);
        config.flow_control_schemas = vec![FlowControlSchema::local("few", limit)];
    });
    let headers = [(":method", "GET"), (":path", "/api/v1/secrets"), (":authority", "prod.example.com")];
    let decide = || {
        let scan = fixture.gateway.scan(
            Some(&fixture.route.cluster),
            headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        );
        let answers = ReviewAnswers::default();
        let request = RequestContext { scan: &scan, peer: Peer::None, answers: &answers, now: now(), uptime: UPTIME };
        fixture.gateway.decide(&fixture.route.cluster, &request)
    };
    let Decision::Forward(running) = decide() else { panic!() };
    let Decision::Refuse(refusal) = decide() else { panic!() };
    assert_eq!((refusal.code, refusal.retry_after), (429, Some(1)));
    assert_eq!(outcome_of_nobody(&fixture), "all.anonymous.read nobody", "other policies are not limited");
    drop(running);
    assert!(matches!(decide(), Decision::Forward(_)));
}

fn outcome_of_nobody(fixture: &Fixture) -> String {
    outcome(fixture, Peer::None, "GET", POD, &[])
}
