//! The client's own impersonation (`kubectl --as`): read as kube-apiserver reads it (apiserver,
//! `pkg/endpoints/filters/impersonation.go`), each part authorised by a review about the client.

mod constrained;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub(crate) use constrained::modes;

use crate::identity::{
    ANONYMOUS, Extra, UNAUTHENTICATED, UserInfo, is_reserved, service_account, service_account_groups,
};
use crate::refusal::Refusal;
use crate::request_info::unescape_path;
use crate::resource_attributes::ResourceAttributes;

/// The most parts, each a review of its own, that one request may ask for.
const MAX_PARTS: usize = 64;
const AUTHENTICATION: &str = "authentication.k8s.io";
/// The start of the names of extras, in lower case as Envoy hands them out.
const EXTRA: &[u8] = b"impersonate-extra-";

/// An impersonation that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Impersonation {
    pub(crate) target: UserInfo,
    /// The attributes that the client must be allowed to impersonate, all of them.
    pub(crate) parts: Vec<ResourceAttributes>,
}

#[derive(Default)]
struct Requested<'a> {
    user: Option<&'a str>,
    uid: Option<&'a str>,
    groups: Vec<&'a str>,
    extra: BTreeMap<String, Vec<&'a str>>,
}

/// Reads `Impersonate-*` lines. `None` if they ask for nothing.
pub(crate) fn read(lines: &[(&[u8], &[u8])]) -> Result<Option<Impersonation>, Refusal> {
    let requested = Requested::from_lines(lines)?;
    let Some(user) = requested.user.filter(|user| !user.is_empty()) else {
        if requested.uid.is_some_and(|uid| !uid.is_empty()) || requested.has_companions() {
            return Err(Refusal::bad_request("impersonating a group, UID or extra without a user"));
        }
        return Ok(None);
    };
    let parts = requested.parts(user);
    if parts.len() > MAX_PARTS {
        return Err(Refusal::bad_request("impersonating more than 64 users, groups, UIDs and extras at a time"));
    }
    Ok(Some(Impersonation { target: requested.target(user), parts }))
}

impl<'a> Requested<'a> {
    fn from_lines(lines: &[(&'a [u8], &'a [u8])]) -> Result<Self, Refusal> {
        let mut requested = Requested::default();
        for (name, value) in lines {
            let value =
                std::str::from_utf8(value).map_err(|_| Refusal::bad_request("an Impersonate-* header is not UTF-8"))?;
            match *name {
                b"impersonate-user" => {
                    requested.user.get_or_insert(value);
                }
                b"impersonate-uid" => {
                    requested.uid.get_or_insert(value);
                }
                b"impersonate-group" => requested.groups.push(value),
                other => {
                    let key = extra_key(other)?;
                    requested.extra.entry(key).or_default().push(value);
                }
            }
        }
        Ok(requested)
    }

    fn has_companions(&self) -> bool {
        !self.groups.is_empty() || !self.extra.is_empty()
    }

    fn parts(&self, user: &str) -> Vec<ResourceAttributes> {
        let part = |group: &'static str, resource: &'static str, name: &str| ResourceAttributes {
            verb: "impersonate".into(),
            group: group.into(),
            version: "v1".into(),
            resource: resource.into(),
            subresource: String::new(),
            namespace: String::new(),
            name: name.to_owned(),
        };
        let mut parts = vec![match service_account(user) {
            Some((namespace, name)) => {
                ResourceAttributes { namespace: namespace.to_owned(), ..part("", "serviceaccounts", name) }
            }
            None => part("", "users", user),
        }];
        parts.extend(self.groups.iter().map(|group| part("", "groups", group)));
        for (key, values) in &self.extra {
            parts.extend(values.iter().map(|value| ResourceAttributes {
                subresource: key.clone(),
                ..part(AUTHENTICATION, "userextras", value)
            }));
        }
        parts.extend(self.uid.filter(|uid| !uid.is_empty()).map(|uid| part(AUTHENTICATION, "uids", uid)));
        parts
    }

    fn target(self, user: &str) -> UserInfo {
        let mut groups: Vec<String> = self.groups.iter().map(|group| (*group).to_owned()).collect();
        if let Some((namespace, _)) = service_account(user).filter(|_| groups.is_empty()) {
            groups.extend(service_account_groups(namespace));
        }
        if user == ANONYMOUS && !groups.iter().any(|group| group == UNAUTHENTICATED) {
            groups.push(UNAUTHENTICATED.to_owned());
        }
        let extra = self
            .extra
            .into_iter()
            .map(|(key, values)| Extra { key, values: values.into_iter().map(str::to_owned).collect() })
            .collect();
        UserInfo::authenticated(user.to_owned(), self.uid.unwrap_or_default().to_owned(), groups, extra)
    }
}

/// Refuses the gateway's own extras among `Impersonate-*` lines that go upstream as they are: there they would read as if the
/// gateway had written them.
pub(crate) fn check_passed_on(lines: &[(&[u8], &[u8])]) -> Result<(), Refusal> {
    let mut keys = lines.iter().filter_map(|(name, _)| name.strip_prefix(EXTRA)).map(decoded);
    if keys.any(|key| is_reserved(&key)) { Err(Refusal::reserved_extra()) } else { Ok(()) }
}

/// The key behind `impersonate-extra-`. Any other name is unknown, and what it asks for cannot be judged.
fn extra_key(name: &[u8]) -> Result<String, Refusal> {
    let Some(key) = name.strip_prefix(EXTRA).filter(|key| !key.is_empty()) else {
        return Err(Refusal::unknown_impersonation());
    };
    let key = decoded(key);
    if is_reserved(&key) {
        return Err(Refusal::reserved_extra());
    }
    String::from_utf8(key.into_owned())
        .map_err(|_| Refusal::bad_request("the key of an impersonated extra is not UTF-8"))
}

/// An extra's key as kube-apiserver reads it: percent-decoded once, a malformed one as it is.
fn decoded(key: &[u8]) -> Cow<'_, [u8]> {
    unescape_path(key).unwrap_or(Cow::Borrowed(key))
}

#[cfg(test)]
mod tests;
