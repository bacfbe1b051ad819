//! The options of a kube-apiserver.

use std::net::SocketAddr;

use crate::certs::Ca;

/// The access without a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anonymous {
    /// Allowed, as `system:anonymous`: kube-apiserver's default.
    #[default]
    On,
    /// Refused: 401.
    Off,
    /// Only on /healthz, /livez and /readyz, by an AuthenticationConfiguration.
    HealthOnly,
}

impl Anonymous {
    pub(super) fn authentication_configuration(self) -> Option<String> {
        (self == Self::HealthOnly).then(|| {
            serde_json::json!({
                // Before 1.34 there is no v1.
                "apiVersion": "apiserver.config.k8s.io/v1beta1",
                "kind": "AuthenticationConfiguration",
                "anonymous": {
                    "enabled": true,
                    "conditions": [{"path": "/healthz"}, {"path": "/livez"}, {"path": "/readyz"}],
                },
            })
            .to_string()
        })
    }
}

/// The front-proxy way in: whose certificates may bring X-Remote-* headers.
#[derive(Debug, Clone)]
pub struct RequestHeader {
    /// The authority of the proxies' certificates.
    pub ca: Ca,
    /// Common names that are allowed; empty = any.
    pub allowed_names: Vec<String>,
}

/// Options of a real Kubernetes. The default is one kube-apiserver with RBAC and anonymous access on.
#[derive(Debug, Clone)]
pub struct KubeOptions {
    /// How many kube-apiservers share the store; at least one.
    pub apiservers: usize,
    /// Access without a credential.
    pub anonymous: Anonymous,
    /// A node on which pods run, see [`FakeNode`](super::FakeNode).
    pub node: bool,
    /// X-Remote-* headers.
    pub request_header: Option<RequestHeader>,
    /// DNS names in the servers' certificates besides localhost and kubernetes.default.svc.
    pub server_names: Vec<String>,
    /// More authorities of users' certificates, as PEM.
    pub more_client_cas: String,
    /// The receiver for OTLP over gRPC to which kube-apiserver and etcd send spans: of requests whose parent is sampled, no others.
    pub traces: Option<SocketAddr>,
    /// More flags, like `--goaway-chance=0.02`.
    /// A caller that sets the headers of front proxies (`--requestheader-username-headers=…`) sets them all.
    pub flags: Vec<String>,
}

impl Default for KubeOptions {
    fn default() -> Self {
        Self {
            apiservers: 1,
            anonymous: Anonymous::default(),
            node: false,
            request_header: None,
            server_names: Vec::new(),
            more_client_cas: String::new(),
            traces: None,
            flags: Vec::new(),
        }
    }
}
