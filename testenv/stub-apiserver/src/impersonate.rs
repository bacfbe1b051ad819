//! Impersonate-* headers, with kube-apiserver's legacy checks.

use std::collections::BTreeMap;

use hyper::HeaderMap;
use serde_json::Value;

use crate::authenticate::extra;
use crate::authorize::may_impersonate;
use crate::options::StubOptions;
use crate::status::{self, Answer, object_details};
use crate::text::lossy;
use crate::user::User;

const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// As whom the request is handled: the sender, or whom it asks to be.
pub(crate) fn effective(options: &StubOptions, sender: &User, headers: &HeaderMap) -> Result<User, Box<Answer>> {
    let Some(wanted) = wanted(headers).map_err(|message| Box::new(status::bad_request(message)))? else {
        return Ok(sender.clone());
    };
    if may_impersonate(options, sender) {
        return Ok(complete(wanted));
    }
    Err(Box::new(refused(sender, &wanted)))
}

fn wanted(headers: &HeaderMap) -> Result<Option<User>, &'static str> {
    let all = |name: &str| headers.get_all(name).iter().map(lossy).collect::<Vec<_>>();
    let first = |name: &str| all(name).into_iter().next().unwrap_or_default();
    let groups = all("impersonate-group");
    let extra: BTreeMap<_, _> = extra(headers, "impersonate-extra-");
    let (username, uid) = (first("impersonate-user"), first("impersonate-uid"));
    if !username.is_empty() {
        return Ok(Some(User { username, uid, groups, extra }));
    }
    if groups.is_empty() && extra.is_empty() && uid.is_empty() {
        return Ok(None);
    }
    Err("requested impersonation of groups, extra or uid without impersonating a user")
}

fn complete(mut wanted: User) -> User {
    if wanted.groups.is_empty()
        && let Some((namespace, _)) = service_account(&wanted.username)
    {
        wanted.groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    wanted.with_authenticated_group().with_unauthenticated_group()
}

fn service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    let plain = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
    plain.then_some((namespace, name))
}

fn refused(sender: &User, wanted: &User) -> Answer {
    let (resource, name) = match service_account(&wanted.username) {
        Some((_, name)) => ("serviceaccounts", name),
        None => ("users", wanted.username.as_str()),
    };
    let message = format!(
        "{resource} \"{name}\" is forbidden: User \"{}\" cannot impersonate resource \"{resource}\" in API group \"\" at the cluster scope",
        sender.username
    );
    let details: Value = object_details("", resource, name);
    status::forbidden(&message, details)
}
