use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_e2e::{Gateway, GatewayOptions, Manifest, allow_all};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{LoadProfile, Protocol, TlsTarget};
use portcullis_harness::rundir::RunDir;
use portcullis_stub_apiserver::{SharedStore, StubServer, TokenEntry};
use serde_json::{Value, json};

use crate::fixture::{NAME, Pki, ROBOT};

/// As long as any answer may take, so that slowness is no failure.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How long Envoy lets connections of a changed filter chain go on.
const DRAIN_SECONDS: &str = "2";
/// Tokens of the gateway's own.
pub(super) const OWN_TOKENS: [&str; 2] = ["the-first-token-of-the-gateway", "the-second-token-of-the-gateway"];

/// A gateway in front of servers that share their objects, and the manifest that is in effect.
pub(super) struct Site {
    pub(super) gateway: Gateway,
    pub(super) manifest: Manifest,
    pub(super) stubs: Vec<StubServer>,
    /// A server that comes and goes.
    pub(super) spare: StubServer,
    pub(super) pki: Pki,
    /// Below which the manifest may refer to files.
    pub(super) references: PathBuf,
    // Removed last.
    pub(super) run: RunDir,
}

impl Site {
    /// Three servers; the cluster is in effect.
    pub(super) fn start(test: &str) -> Self {
        Self::with_plane_flags(RunDir::new(test).unwrap(), &[])
    }

    /// [`Site::start`] with further flags of the control plane.
    pub(super) fn with_plane_flags(run: RunDir, flags: &[String]) -> Self {
        let pki = Pki::new();
        let store = SharedStore::default();
        let stubs: Vec<_> = (0..3).map(|number| stub(&pki, &store, number)).collect();
        let spare = stub(&pki, &store, 3);
        // Drained streams end within the test, not after Envoy's ten minutes.
        let envoy_flags = ["--drain-time-s", DRAIN_SECONDS].map(str::to_owned).to_vec();
        let references = run.make_dir("references").unwrap();
        let references_root = ["--references-root".to_owned(), references.display().to_string()];
        let plane_flags = [&references_root, flags].concat();
        let listener = json!({"virtualIPs": ["127.1.0.0/16"]});
        // Tests look at what pools read and eject, too.
        let bootstrap_flags = vec!["--all-envoy-statistics".to_owned()];
        let options =
            GatewayOptions { listener, bootstrap_flags, envoy_flags, plane_flags, ..GatewayOptions::default() };
        let gateway = Gateway::start(&run, &options).unwrap();
        let manifest = pki
            .cluster(&gateway, NAME, stubs.iter().map(StubServer::address))
            .set("/spec/portcullis", json!({"healthCheck": {"interval": "2s", "timeout": "4s"}, "drainPeriod": "1s"}))
            .set(
                "/spec/flowControl",
                json!({"flowControlSchemas": [
                    {"name": "wide", "maxRequestsInflight": {"max": 100_000}},
                    {"name": "other", "maxRequestsInflight": {"max": 1}},
                ]}),
            )
            .policies(json!([{"rules": [allow_all()], "flowControlSchemaName": "wide"}]));
        gateway.apply(&manifest).unwrap();
        Site { gateway, manifest, stubs, spare, pki, references, run }
    }

    /// The gateway as a client finds it.
    pub(super) fn target(&self) -> TlsTarget {
        self.gateway.target(NAME).timeout(PATIENCE)
    }

    pub(super) fn by_certificate(&self, name: &str, protocol: Protocol) -> LoadProfile {
        LoadProfile::new(name, &self.target().identity(&self.pki.alice), protocol)
    }

    pub(super) fn by_token(&self, name: &str, protocol: Protocol) -> LoadProfile {
        LoadProfile::new(name, &self.target(), protocol).token(ROBOT)
    }

    /// Users of both kinds over both protocols.
    pub(super) fn lanes(&self) -> Vec<LoadProfile> {
        let of = |number: usize| {
            [
                self.by_certificate(&format!("certificate, HTTP/2, {number}"), Protocol::Http2),
                self.by_token(&format!("token, HTTP/2, {number}"), Protocol::Http2),
                self.by_certificate(&format!("certificate, HTTP/1.1, {number}"), Protocol::Http1),
                self.by_token(&format!("token, HTTP/1.1, {number}"), Protocol::Http1),
            ]
        };
        (0..3).flat_map(of).collect()
    }

    /// Edits the manifest without applying it.
    pub(super) fn set(&mut self, pointer: &str, value: Value) {
        self.manifest = self.manifest.clone().set(pointer, value);
    }

    /// Sets a field and waits until Envoy has acknowledged the outcome.
    pub(super) fn change(&mut self, pointer: &str, value: Value) {
        self.set(pointer, value);
        self.gateway.apply(&self.manifest).unwrap();
    }

    /// The addresses of the servers, except for the spare one.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.stubs.iter().map(StubServer::address).collect()
    }

    /// Forgets what the servers recorded.
    pub(super) fn forget(&self) {
        self.stubs.iter().for_each(StubServer::clear);
    }
}

fn stub(pki: &Pki, store: &SharedStore, number: usize) -> StubServer {
    let name = format!("stub-{number}");
    let identity = pki.server_ca.issue(&CertSpec::server(&name, ["kubernetes", "apiserver"])).unwrap();
    let mut options = pki.stub_options(&name);
    options.tls_cert = identity.pem();
    options.tls_key = identity.key_pem();
    options.store = store.clone();
    // The gateway's certificate is that of a front proxy, too.
    options.requestheader_ca = Some(pki.client_ca.pem());
    options.requestheader_names = vec!["portcullis".to_owned()];
    for token in OWN_TOKENS {
        options = options.token(token, TokenEntry { user: "portcullis".to_owned(), ..TokenEntry::default() });
    }
    StubServer::start(options).unwrap()
}

/// PEM or a token, as manifests hold them.
pub(super) fn encode(text: &str) -> Value {
    json!(STANDARD.encode(text))
}

pub(super) fn own_identity(ca: &Ca) -> Identity {
    ca.issue(&CertSpec::client("portcullis", [""; 0])).unwrap()
}

/// `spec.servers`: the addresses, those after `!` disabled.
pub(super) fn servers(enabled: &[SocketAddr], disabled: &[SocketAddr]) -> Value {
    let entry = |address: &SocketAddr, off: bool| json!({"endpoint": format!("https://{address}"), "disabled": off});
    let on = enabled.iter().map(|address| entry(address, false));
    json!(on.chain(disabled.iter().map(|address| entry(address, true))).collect::<Vec<_>>())
}
