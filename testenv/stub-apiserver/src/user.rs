//! Users as Kubernetes sees them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The user of a request; serialises as authentication.k8s.io/v1 UserInfo.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// User name.
    pub username: String,
    /// UID, may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Groups in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Extra values by lower-case key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The user of a bearer token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenEntry {
    /// User name.
    #[serde(alias = "username")]
    pub user: String,
    /// UID.
    #[serde(default)]
    pub uid: String,
    /// Groups, without `system:authenticated`.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Extra values.
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
    /// Audiences it is for; empty = whatever is asked for.
    #[serde(default)]
    pub audiences: Vec<String>,
}

pub(crate) const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

impl User {
    pub(crate) fn anonymous() -> Self {
        Self { username: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.username == ANONYMOUS
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Adds the group that every authenticated user has, unless another group already shows the user's state.
    #[must_use]
    pub(crate) fn with_authenticated_group(mut self) -> Self {
        if !self.is_anonymous() && !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Adds the group that the anonymous user has.
    #[must_use]
    pub(crate) fn with_unauthenticated_group(mut self) -> Self {
        if self.is_anonymous() && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(UNAUTHENTICATED.to_owned());
        }
        self
    }
}

impl From<&TokenEntry> for User {
    fn from(entry: &TokenEntry) -> Self {
        let TokenEntry { user, uid, groups, extra, .. } = entry.clone();
        Self { username: user, uid, groups, extra }.with_authenticated_group()
    }
}
