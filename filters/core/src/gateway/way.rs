//! By which pool and in which class a request goes upstream.

use std::sync::Arc;

use portcullis_filter_config::Pool;

use crate::request::Client;
use crate::review::ReviewKey;
use crate::upstream_user::UpstreamUser;

/// How a request goes upstream.
pub(super) enum Way {
    /// With the gateway's credential, and headers that tell the user.
    Told(Arc<UpstreamUser>),
    /// With the client's own token.
    Passed {
        /// The review by which the upstream has said that the token is somebody's.
        confirmed: Option<ReviewKey>,
    },
    /// Without a credential.
    Bare,
}

impl Way {
    /// `passes`: tokens go on, for the upstream to judge.
    pub(super) fn of(client: Client, passes: bool) -> Self {
        match client {
            Client::Bearer(_, key) if passes => Way::Passed { confirmed: Some(key) },
            Client::Certified(user) | Client::Bearer(user, _) | Client::Impersonated(user) => Way::Told(user),
            Client::Unknown => Way::Passed { confirmed: None },
            Client::Nobody => Way::Bare,
        }
    }

    pub(super) fn pool(&self, is_upgrade: bool) -> Pool {
        match (self, is_upgrade) {
            (Way::Told(_), true) => Pool::Upgrade,
            (Way::Told(_), false) => Pool::Http2,
            (Way::Passed { confirmed: Some(_) }, false) => Pool::PassThrough,
            (Way::Passed { .. } | Way::Bare, _) => Pool::Anonymous,
        }
    }

    pub(super) fn keeps_credential(&self) -> bool {
        matches!(self, Way::Passed { .. })
    }

    pub(super) fn confirmed(&self) -> Option<ReviewKey> {
        match self {
            Way::Passed { confirmed } => *confirmed,
            Way::Told(_) | Way::Bare => None,
        }
    }

    pub(super) fn told(self) -> Option<Arc<UpstreamUser>> {
        match self {
            Way::Told(user) => Some(user),
            Way::Passed { .. } | Way::Bare => None,
        }
    }
}
