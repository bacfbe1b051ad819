use std::collections::BTreeMap;

use portcullis_filter_config::PrefixedClaim;

use super::NotVerified;
use super::claims::TokenClaims;
use super::json::Json;
use crate::identity::{self, Extra, UserInfo, service_account_groups};

/// The claim of a kube-apiserver's own tokens (kubernetes, `pkg/serviceaccount/claims.go`).
const KUBERNETES: &str = "kubernetes.io";
/// The start of names that belong to Kubernetes. A provider of users may not name them here, whatever its prefix is.
const SYSTEM: &str = "system:";

/// The user of a service account's token, as kube-apiserver makes it (apiserver, `pkg/authentication/serviceaccount/util.go`). A token
/// that is bound to a Secret, and one without an end, is an old one, about which the servers are asked.
pub(super) fn service_account(claims: &TokenClaims) -> Result<UserInfo, NotVerified> {
    const NO_CLAIM: NotVerified = NotVerified::Claim(KUBERNETES);
    let Some(Json::Object(kubernetes)) = claims.get(KUBERNETES) else { return Err(NO_CLAIM) };
    let is_known = |name: &str| matches!(name, "namespace" | "serviceaccount" | "pod" | "node" | "warnafter");
    if !kubernetes.keys().all(|name| is_known(name)) {
        return Err(NO_CLAIM);
    }
    if kubernetes.get("warnafter").is_some_and(|time| time.time().is_none()) {
        return Err(NO_CLAIM);
    }
    let reference = |name: &str| kubernetes.get(name).map(|value| Reference::read(value).ok_or(NO_CLAIM)).transpose();
    let namespace = kubernetes.get("namespace").and_then(Json::text).ok_or(NO_CLAIM)?;
    let account = reference("serviceaccount")?.ok_or(NO_CLAIM)?;
    let name = format!("system:serviceaccount:{namespace}:{}", account.name);
    if identity::service_account(&name) != Some((namespace, account.name)) || claims.text("sub")? != name {
        return Err(NotVerified::User);
    }
    let mut extra = Extras::default();
    extra.add_credential_id(claims);
    if let Some(pod) = reference("pod")? {
        extra.add_reference("pod", &pod);
    }
    if let Some(node) = reference("node")? {
        extra.add_reference("node", &node);
    }
    let groups = service_account_groups(namespace).to_vec();
    Ok(UserInfo::authenticated(name, account.uid.to_owned(), groups, extra.into_list()))
}

/// The user of a token by its claims, as kube-apiserver reads them (apiserver, `plugin/pkg/authenticator/token/oidc`). It leaves it
/// to an administrator's rules whether a provider may name the users and groups of Kubernetes itself; here none may.
pub(super) fn mapped(
    claims: &TokenClaims,
    username: &PrefixedClaim,
    groups: Option<&PrefixedClaim>,
) -> Result<UserInfo, NotVerified> {
    let name = claims.text(&username.claim)?;
    // An address that is said not to be verified is not.
    if username.claim == "email" && !matches!(claims.get("email_verified"), None | Some(Json::Bool(true))) {
        return Err(NotVerified::Claim("email_verified"));
    }
    let name = format!("{}{name}", username.prefix);
    let mut of_user = Vec::new();
    if let Some((groups, value)) = groups.and_then(|groups| Some((groups, claims.get(&groups.claim)?))) {
        let named = value.texts().ok_or(NotVerified::Claim("of groups"))?;
        of_user.extend(named.into_iter().map(|group| format!("{}{group}", groups.prefix)));
    }
    if name.starts_with(SYSTEM) || of_user.iter().any(|group| group.starts_with(SYSTEM)) {
        return Err(NotVerified::User);
    }
    let mut extra = Extras::default();
    extra.add_credential_id(claims);
    Ok(UserInfo::authenticated(name, String::new(), of_user, extra.into_list()))
}

/// Name and UID of an object.
struct Reference<'a> {
    name: &'a str,
    uid: &'a str,
}

impl<'a> Reference<'a> {
    fn read(value: &'a Json) -> Option<Self> {
        let Json::Object(members) = value else { return None };
        let text = |name| members.get(name).and_then(Json::text).filter(|text: &&str| !text.is_empty());
        (members.len() == 2).then_some(Reference { name: text("name")?, uid: text("uid")? })
    }
}

/// Extras in the order in which a review has them.
#[derive(Default)]
struct Extras(BTreeMap<String, String>);

impl Extras {
    fn add(&mut self, name: &str, value: String) {
        self.0.insert(format!("authentication.kubernetes.io/{name}"), value);
    }

    fn add_credential_id(&mut self, claims: &TokenClaims) {
        if let Ok(id) = claims.text("jti") {
            self.add("credential-id", format!("JTI={id}"));
        }
    }

    fn add_reference(&mut self, kind: &str, Reference { name, uid }: &Reference<'_>) {
        self.add(&format!("{kind}-name"), (*name).to_owned());
        self.add(&format!("{kind}-uid"), (*uid).to_owned());
    }

    fn into_list(self) -> Vec<Extra> {
        self.0.into_iter().map(|(key, value)| Extra { key, values: vec![value] }).collect()
    }
}
