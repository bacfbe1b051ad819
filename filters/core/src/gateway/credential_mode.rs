//! By which pool and in which class a request goes upstream.

use std::sync::Arc;

use portcullis_filter_config::Pool;

use crate::request::Client;
use crate::review::ReviewKey;
use crate::upstream_user::UpstreamUser;

/// How a request goes upstream.
pub(super) enum CredentialMode {
    /// The gateway's credential, with the user in headers.
    GatewayCredential(Arc<UpstreamUser>),
    /// With the client's own token.
    ClientCredential {
        /// The review by which the upstream has confirmed the token.
        confirmed: Option<ReviewKey>,
    },
    /// Without a credential.
    Anonymous,
}

impl CredentialMode {
    /// `passes`: tokens go on, for the upstream to judge.
    pub(super) fn for_client(client: Client, passes: bool) -> Self {
        match client {
            Client::Bearer(_, confirmed) if passes => CredentialMode::ClientCredential { confirmed },
            Client::Certificate(user) | Client::Bearer(user, _) | Client::Impersonated(user) => {
                CredentialMode::GatewayCredential(user)
            }
            Client::Opaque { .. } => CredentialMode::ClientCredential { confirmed: None },
            Client::Anonymous => CredentialMode::Anonymous,
        }
    }

    pub(super) fn pool(&self, is_upgrade: bool) -> Pool {
        match (self, is_upgrade) {
            (CredentialMode::GatewayCredential(_), true) => Pool::Upgrade,
            (CredentialMode::GatewayCredential(_), false) => Pool::Http2,
            (CredentialMode::ClientCredential { confirmed: Some(_) }, false) => Pool::PassThrough,
            (CredentialMode::ClientCredential { .. } | CredentialMode::Anonymous, _) => Pool::Anonymous,
        }
    }

    pub(super) fn keeps_credential(&self) -> bool {
        matches!(self, CredentialMode::ClientCredential { .. })
    }

    pub(super) fn confirmed(&self) -> Option<ReviewKey> {
        match self {
            CredentialMode::ClientCredential { confirmed } => *confirmed,
            CredentialMode::GatewayCredential(_) | CredentialMode::Anonymous => None,
        }
    }

    pub(super) fn into_user(self) -> Option<Arc<UpstreamUser>> {
        match self {
            CredentialMode::GatewayCredential(user) => Some(user),
            CredentialMode::ClientCredential { .. } | CredentialMode::Anonymous => None,
        }
    }
}
