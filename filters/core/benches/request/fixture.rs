//! A cluster with 100 policies, of which the last matches, and a user with a certificate and one with a token.

use std::net::Ipv4Addr;
use std::time::Duration;

use portcullis_core::header_scan::HeaderScan;
use portcullis_core::review::ReviewAnswers;
use portcullis_core::state_store::EphemeralState;
use portcullis_core::{Cluster, Decision, Gateway, Peer, RequestContext, x509};
use portcullis_filter_config as config;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls_pki_types::UnixTime;

/// The requested path.
pub(crate) const PATH: &str = "/api/v1/namespaces/default/pods/web-7d9c6b5f4-00042";

/// 2030-01-01.
const NOW: u64 = 1_893_456_000;

pub(crate) struct RequestFixture {
    gateway: Gateway,
    cluster: Cluster,
    pub(crate) chain: Vec<u8>,
    pub(crate) token: String,
}

pub(crate) type Headers = Vec<(String, String)>;

impl RequestFixture {
    pub(crate) fn new() -> Self {
        RequestFixture::denying(0)
    }

    /// As [`RequestFixture::new`], with a deny list of so many ranges of addresses, in none of which the client is.
    #[allow(clippy::unwrap_used, reason = "a benchmark")]
    pub(crate) fn denying(ranges: u32) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let mut alice = CertificateParams::default();
        alice.distinguished_name.push(DnType::CommonName, "alice");
        alice.distinguished_name.push(DnType::OrganizationName, "developers");
        alice.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = alice.signed_by(&KeyPair::generate().unwrap(), &ca).unwrap();
        let chain = x509::encode_chain([&leaf.der()[..]].into_iter());
        let gateway = config::FilterConfig::new("bench");
        let access = denied(ranges);
        let cluster = config::ClusterConfig { access: access.into_iter().collect(), ..cluster(ca.pem()) };
        RequestFixture {
            gateway: Gateway::compile(&gateway).unwrap(),
            cluster: Cluster::compile(&cluster, &EphemeralState([7; 32])).unwrap(),
            chain,
            token: format!("header.{}.signature", "x".repeat(900)),
        }
    }

    /// The headers of kubectl and of Envoy.
    pub(crate) fn headers(&self, token: Option<&str>) -> Headers {
        let mut headers = vec![
            (":authority", "prod.example.com"),
            (":path", PATH),
            (":method", "GET"),
            (":scheme", "https"),
            ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            ("accept-encoding", "gzip"),
            ("user-agent", "kubectl/v1.36.3 (linux/amd64) kubernetes/1234567"),
            ("kubectl-command", "kubectl get"),
            ("kubectl-session", "5f0c1d2e-3a4b-4c5d-8e6f-708192a3b4c5"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-proto", "https"),
            ("x-envoy-external-address", "192.0.2.1"),
            ("x-request-id", "1f0c1d2e-3a4b-4c5d-8e6f-708192a3b4c5"),
        ];
        let bearer = token.map(|token| format!("Bearer {token}"));
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    pub(crate) fn scan<'a>(&self, headers: &'a Headers) -> HeaderScan<'a> {
        self.gateway.scan(Some(&self.cluster), headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
    }

    pub(crate) fn decide(&self, scan: &HeaderScan<'_>, peer: Peer<'_>) -> Decision<'_> {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
        self.gateway.decide(
            &self.cluster,
            &RequestContext { scan, peer, answers: &ReviewAnswers::default(), now, uptime: Duration::ZERO },
        )
    }

    /// Has the token reviewed, so that it is cached.
    pub(crate) fn learn_token(&self, headers: &Headers) {
        if let Decision::Review(reviews) = self.decide(&self.scan(headers), Peer::None) {
            let answer = r#"{"kind":"TokenReview","status":{"authenticated":true,
                "user":{"username":"robot","groups":["developers","system:authenticated"]}}}"#;
            for review in reviews {
                review.accept_answer(201, answer.as_bytes(), Duration::ZERO);
            }
        }
    }
}

/// Single addresses all over 10.0.0.0/8 and 11.0.0.0/8, none beside another.
fn denied(ranges: u32) -> Option<config::AccessLists> {
    let address =
        |number: u32| Ipv4Addr::from(0x0A00_0000_u32.wrapping_add(number.wrapping_mul(0x0001_0003) & 0x01FF_FFFE));
    let addresses: Vec<String> = (0..ranges).map(|number| format!("{}/32", address(number))).collect();
    let entry = config::AccessEntry {
        addresses,
        user_agents: vec![],
        rules: vec![],
        until_seconds: None,
        message: String::new(),
    };
    let scope = config::AccessScope::Cluster;
    (ranges > 0).then(|| config::AccessLists { scope, deny: vec![entry], allow: vec![] })
}

fn cluster(client_ca: String) -> config::ClusterConfig {
    config::ClusterConfig {
        servers: None,
        max_session_duration_seconds: None,
        protected: None,
        access: vec![],
        audit_attribution: false,
        log_refused: false,
        log_slow_milliseconds: Some(5_000),
        log_failed: true,
        top_talkers: None,
        version: config::CONFIG_VERSION,
        name: "bench/-/prod.example.com".into(),
        identity: "prod".into(),
        object: String::new(),
        variant: String::new(),
        listener: String::new(),
        authorities: vec!["prod.example.com".into()],
        narrower_authorities: Vec::new(),
        client_ca: Some(client_ca),
        deny_all_requests: false,
        close_connections: false,
        rebalance: None,
        allow_anonymous: false,
        reviews: Some(config::Reviews {
            cluster: "c".into(),
            user: None,
            token_ttl_seconds: 120,
            rejected_token_ttl_seconds: 10,
            authorized_ttl_seconds: 300,
            unauthorized_ttl_seconds: 30,
            constrained_impersonation: false,
            token_audiences: vec![],
            revocation_check_seconds: None,
        }),
        upstream_identity: config::UpstreamIdentity::Impersonate,
        flow_control_schemas: vec![],
        fair_queues: vec![],
        token_issuers: vec![],
        request_info: None,
        shadow: None,
        policies: (0..100).map(policy).collect(),
    }
}

/// Ten rules; only the last policy is for the developers.
fn policy(number: u32) -> config::Policy {
    let list = |text: &str| vec![text.to_owned()];
    let tenant = format!("tenant-{number:03}");
    let rule = |rule: u32| config::Rule {
        verbs: list("get"),
        api_groups: list(""),
        resources: list("pods"),
        users: vec![format!("{tenant}-user-{rule}"), format!("{tenant}-*")],
        ..config::Rule::default()
    };
    let mut rules: Vec<config::Rule> = (0..10).map(rule).collect();
    if number == 99
        && let Some(last) = rules.last_mut()
    {
        (last.users, last.user_groups) = (vec![], list("developers"));
    }
    config::Policy { group: "all".into(), flow_control_schema: None, log: false, deny: None, rules }
}
