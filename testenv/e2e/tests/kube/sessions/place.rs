use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::kube::{KubeOptions, Kubectl};
use portcullis_harness::kubeconfig::Kubeconfig;

use crate::fixture::{Identities, KubeFixture, NAME};

pub(super) const SOON: Duration = Duration::from_secs(30);

/// The same apiserver, under another name of the gateway, with users forwarded by impersonation.
pub(super) const IMPERSONATING: &str = "impersonating.example.com";

/// How kubectl streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    WebSocket,
    Spdy,
}

impl Protocol {
    pub(super) const ALL: [Protocol; 2] = [Protocol::WebSocket, Protocol::Spdy];

    /// The flag of kubectl, and the verb of a session's request: WebSockets start with GET, SPDY with POST.
    fn facts(self) -> (&'static str, &'static str) {
        match self {
            Protocol::WebSocket => ("true", "get"),
            Protocol::Spdy => ("false", "create"),
        }
    }
}

/// A kube-apiserver with a node, behind a gateway that serves it under two names, one for each way of forwarding users.
pub(super) struct Place {
    pub(super) fixture: KubeFixture,
    impersonator: Identity,
}

/// The user: a kubeconfig without a server.
#[derive(Clone)]
pub(super) struct User {
    name: &'static str,
    credential: Credential,
}

#[derive(Clone)]
enum Credential {
    Certificate(Identity),
    Token(String),
}

/// One user, over one protocol, on one way to the apiserver, with a pod of its own.
pub(super) struct Way<'a> {
    pub(super) place: &'a Place,
    pub(super) protocol: Protocol,
    pub(super) pod: String,
    name: String,
    kubeconfig: PathBuf,
}

impl Place {
    /// `None`, said loudly, where the real Kubernetes is not built.
    pub(super) fn start(test: &str) -> Option<Self> {
        Place::behind(test, &GatewayOptions::default())
    }

    /// As [`Place::start`], behind another gateway.
    pub(super) fn behind(test: &str, gateway: &GatewayOptions) -> Option<Self> {
        let options = KubeOptions { node: true, ..KubeOptions::default() };
        let fixture = KubeFixture::forwarding(Identities::RequestHeader, test, &options, gateway)?;
        // Has its rights already: the gateway's questions about tokens are asked as the same user.
        let impersonator = fixture.kube.client_ca().issue(&CertSpec::client("system:portcullis", [""; 0])).unwrap();
        let place = Self { fixture, impersonator };
        place.fixture.admin(&["create", "serviceaccount", "robot"]);
        for part in ["view", "edit"] {
            let (name, role) = (format!("robot-{part}"), format!("--clusterrole=system:aggregate-to-{part}"));
            place.fixture.admin(&["create", "rolebinding", &name, &role, "--serviceaccount=default:robot"]);
        }
        place.fixture.gateway.apply(&place.impersonating()).unwrap();
        Some(place)
    }

    /// The cluster with users forwarded by impersonation.
    pub(super) fn impersonating(&self) -> Manifest {
        let fixture = &self.fixture;
        Manifest::new(IMPERSONATING, fixture.kube.apiservers().iter().map(|server| server.address()))
            .upstream(&self.impersonator, fixture.kube.server_ca(), "kubernetes.default.svc")
            .serving(&fixture.gateway.serving_identity(IMPERSONATING).unwrap(), fixture.kube.client_ca())
    }

    /// A user with a certificate.
    pub(super) fn certificate(&self) -> User {
        User { name: "certificate", credential: Credential::Certificate(self.fixture.alice.clone()) }
    }

    /// A service account with a token.
    pub(super) fn token(&self) -> User {
        let token = self.fixture.admin(&["create", "token", "robot"]).trim().to_owned();
        User { name: "token", credential: Credential::Token(token) }
    }

    /// A user without any right.
    pub(super) fn stranger(&self) -> User {
        User { name: "stranger", credential: Credential::Certificate(self.fixture.bob.clone()) }
    }

    /// Through the gateway: either user, over either protocol, in either mode.
    pub(super) fn ways_through(&self) -> Vec<Way<'_>> {
        let users = [self.certificate(), self.token()];
        let kinds = users.iter().flat_map(|user| Protocol::ALL.map(|protocol| (user, protocol)));
        kinds.flat_map(|(user, protocol)| self.through(user, protocol)).collect()
    }

    /// Through the gateway, in both modes.
    pub(super) fn through(&self, user: &User, protocol: Protocol) -> [Way<'_>; 2] {
        [("RequestHeader", NAME), ("Impersonate", IMPERSONATING)]
            .map(|(mode, name)| self.way(mode, user, self.fixture.gateway.kubeconfig(name), protocol))
    }

    /// Past the gateway.
    pub(super) fn directly(&self, user: &User, protocol: Protocol) -> Way<'_> {
        self.way("directly", user, self.fixture.kube.kubeconfig(), protocol)
    }

    /// A way to a server, by a kubeconfig without a credential.
    pub(super) fn way(&self, name: &str, user: &User, server: Kubeconfig, protocol: Protocol) -> Way<'_> {
        static PODS: AtomicU32 = AtomicU32::new(0);
        let pod = format!("pod-{}", PODS.fetch_add(1, Ordering::Relaxed));
        self.fixture.kube.run_pod(&pod).unwrap();
        let kubeconfig = match &user.credential {
            Credential::Certificate(identity) => server.identity(identity),
            Credential::Token(token) => server.token(token),
        };
        let kubeconfig = self.fixture.written(&kubeconfig);
        Way { place: self, protocol, pod, name: format!("{name}, {}, {protocol:?}", user.name), kubeconfig }
    }
}

impl Way<'_> {
    pub(super) fn kubectl<const N: usize>(&self, args: [&str; N]) -> Kubectl {
        let (is_on, _) = self.protocol.facts();
        let kubectl = self.place.fixture.kube.kubectl(&self.kubeconfig).cache_dir(&self.file("cache"));
        let kubectl = kubectl.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", is_on);
        kubectl.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", is_on).args(args)
    }

    /// The kubeconfig of its user, on its way.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A file of this way's own.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.place.fixture.run.join(&format!("{}-{name}", self.pod))
    }

    /// kubectl falls back to SPDY when an upgrade to WebSocket fails, without a word.
    pub(super) fn used_its_protocol(&self) {
        let (_, verb) = self.protocol.facts();
        for subresource in ["exec", "attach", "portforward"] {
            let path = format!("/api/v1/namespaces/default/pods/{}/{subresource}", self.pod);
            let events = self.place.fixture.kube.apiservers()[0].audit_events_for(&path).unwrap();
            assert!(!events.is_empty(), "{self}: {path}");
            assert!(events.iter().all(|event| event["verb"] == verb), "{self}: {events:?}");
        }
    }
}

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
