//! A user, as kube-apiserver knows one.

use crate::dns::{is_label, is_subdomain};

/// The group of every user who has authenticated (apiserver, `pkg/authentication/user`).
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The group of nodes (apiserver, `pkg/authentication/user`).
pub(crate) const NODES: &str = "system:nodes";
pub(crate) const NODE_PREFIX: &str = "system:node:";

/// A user, as kube-apiserver's `user.Info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The user's name.
    pub name: String,
    /// The user's UID, or empty.
    pub uid: String,
    /// The groups, in the authenticator's order.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: Vec<Extra>,
}

/// One key of a user's extra attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// The key, as the authenticator wrote it.
    pub key: String,
    /// Its values, in order.
    pub values: Vec<String>,
}

impl UserInfo {
    /// A user whom an authenticator has accepted: one of the authenticated, unless it says otherwise
    /// (apiserver, `pkg/authentication/group/authenticated_group_adder.go`).
    pub fn authenticated(name: String, uid: String, mut groups: Vec<String>, extra: Vec<Extra>) -> Self {
        let is_told = groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
        if !is_told && name != ANONYMOUS {
            groups.push(AUTHENTICATED.to_owned());
        }
        UserInfo { name, uid, groups, extra }
    }

    /// The same user, accepted by an authenticator ([`UserInfo::authenticated`]).
    pub fn into_authenticated(self) -> Self {
        UserInfo::authenticated(self.name, self.uid, self.groups, self.extra)
    }

    /// The user of a client without a credential.
    pub fn anonymous() -> Self {
        UserInfo { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..UserInfo::default() }
    }

    /// Bytes of all texts; an extra's key counts with each value, as its line repeats it.
    pub(crate) fn size(&self) -> usize {
        let add = |sum: usize, text: &String| sum.saturating_add(text.len());
        let groups = self.groups.iter().fold(0, add);
        let extra = self.extra.iter().fold(0usize, |sum, Extra { key, values }| {
            sum.saturating_add(key.len().saturating_mul(values.len().max(1))).saturating_add(values.iter().fold(0, add))
        });
        [self.name.len(), self.uid.len(), groups, extra].into_iter().fold(0, usize::saturating_add)
    }

    /// Namespace and name, if the user is a service account.
    pub fn service_account(&self) -> Option<(&str, &str)> {
        service_account(&self.name)
    }
}

/// Namespace and name of a service account's user name (apiserver, `pkg/authentication/serviceaccount`).
pub(crate) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (is_label(namespace.as_bytes()) && is_subdomain(name.as_bytes())).then_some((namespace, name))
}

/// The node whose kubelet has a user's name, if it is one (apiserver, `pkg/endpoints/filters/impersonation/mode.go`).
pub(crate) fn node(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| is_subdomain(name.as_bytes()))
}

/// The groups of a namespace's service accounts.
pub(crate) fn service_account_groups(namespace: &str) -> [String; 2] {
    ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// The prefix of the gateway's own extra keys.
pub const RESERVED: &str = "portcullis.dev/";

/// Whether a key belongs to the gateway. Keys arrive in lower case, whatever they were.
pub(crate) fn is_reserved(key: &[u8]) -> bool {
    key.get(..RESERVED.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED.as_bytes()))
}
