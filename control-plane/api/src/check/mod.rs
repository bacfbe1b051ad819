//! The way from a raw object to its checked form.

mod access;
mod address_policy;
mod asked_issuer;
mod attached;
mod certificates;
mod cidr;
mod client;
mod cluster;
mod credentials;
mod denials;
mod discovery;
mod endpoint;
mod fair_queue;
mod feature_gates;
mod flow_control;
mod health;
mod identity;
mod instance;
mod jwks;
mod labels;
mod listener;
mod listener_tls;
mod logging;
mod object_size;
mod origins;
mod policies;
mod profiles;
mod protected;
mod proxies;
mod rebalance;
mod servers;
mod settings;
mod shadow;
mod tokens;
mod tracing;
mod transport;
mod tunnel;
mod upstream;

pub(crate) use access::read_until;
pub use address_policy::is_allowed_server;
pub use asked_issuer::{AskedIssuer, DiscoveryDocumentError, IssuerUrl, IssuerUrlError, read_discovery_document};
pub use attached::{AttachablePolicy, MergeStrategy, check_policy, targets_of};
pub(crate) use certificates::certificates;
pub use certificates::{CertificateError, KeyPair, bundle_parts, read_client_bundle, read_key_pair};
pub use cidr::Cidr;
pub use client::{PeerName, Trust};
pub use cluster::{ClientVerification, Cluster, check_cluster, unchecked_cluster};
pub use credentials::CredentialCache;
pub use discovery::{Discovery, SlicePort, usable_servers};
pub(crate) use endpoint::parse_endpoint;
pub use endpoint::{Endpoint, ServerHost};
pub use feature_gates::FeatureGates;
pub use health::HealthCheck;
pub use identity::UpstreamIdentity;
pub use instance::{CheckedInstance, check_instance};
pub use jwks::{JwksError, read_keys};
pub use labels::{LabelOperator, LabelOperatorError, SelectedLabels, is_label_key, is_label_value};
pub use listener_tls::DownstreamTls;
pub use logging::LogMode;
pub use policies::{Policy, Strategy};
pub use profiles::{BUILT_IN_PROFILES, PROFILE_ANNOTATION, with_profile};
pub use proxies::ProxyProtocol;
pub use servers::Server;
pub(crate) use servers::virtual_ip;
pub use settings::{AccessLog, Limits, Settings, check_settings};
pub use shadow::CheckedShadow;
pub use tokens::{TOKEN_KEYS_PATH, Tokens};
pub use tracing::{CollectorTls, Tracing};
pub use transport::{PASSED_ON, Transport};
pub use tunnel::Tunnel;
pub use upstream::{check_upstream, upstream_key, upstream_of_key};

use crate::problem::Problem;
use crate::problem::ProblemCode;

/// The outcome of a check: the checked form or every problem, and warnings in either case.
#[derive(Clone, Debug)]
pub struct Checked<T> {
    /// The checked form; the problems if the object has to be refused.
    pub outcome: Result<T, Vec<Problem>>,
    /// Accepted fields that may not do what their author expects.
    pub warnings: Vec<Problem>,
}

/// Collects what is found on the way through an object.
#[derive(Debug, Default)]
struct Findings {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Findings {
    fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::new(path, message));
    }

    fn problem_with_hint(&mut self, path: impl Into<String>, message: &str, hint: String) {
        self.problems.push(Problem::new(path, message).hint(hint));
    }

    fn warning(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warn(Problem::coded(ProblemCode::Caution, path, message));
    }

    fn warn(&mut self, warning: Problem) {
        self.warnings.push(warning);
    }

    /// Ends the check. `value` is only taken if nothing is wrong.
    fn finish<T>(self, value: Option<T>) -> Checked<T> {
        let outcome = match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            _ => Err(self.problems),
        };
        Checked { outcome, warnings: self.warnings }
    }
}
