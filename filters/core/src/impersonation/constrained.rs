//! Constrained impersonation (KEP-5284; apiserver, `pkg/endpoints/filters/impersonation/mode.go`): a client may act as another user
//! for certain requests only.

use super::{AUTHENTICATION, Impersonation};
use crate::dns::is_subdomain;
use crate::identity::{Extra, NODES, UserInfo, node};
use crate::request_info::RequestInfo;
use crate::resource_attributes::{AccessAttributes, ResourceAttributes};
use crate::review::IMPERSONATE_ON;

/// The extra in which kube-apiserver names the node of a service account's pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// The extra with which kube-apiserver's authorizer sees a service account that acts as its own node.
const NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
const MASTERS: &str = "system:masters";

/// A mode that could allow an impersonation.
#[derive(Debug)]
pub(crate) struct Mode {
    name: &'static str,
    /// The client, as the authorizer is asked about it.
    pub(crate) requester: UserInfo,
    /// The impersonation as this mode has it: further groups, and the parts to be allowed.
    pub(crate) impersonation: Impersonation,
}

impl Mode {
    /// The attributes of a request that the client must be allowed while it impersonates. `None` if they are not UTF-8.
    pub(crate) fn request(&self, info: &RequestInfo<'_>) -> Option<AccessAttributes<'static>> {
        AccessAttributes::of_request(info, |verb| format!("{IMPERSONATE_ON}{}:{verb}", self.name))
    }
}

/// The modes that could allow an impersonation, in kube-apiserver's order.
pub(crate) fn modes(asked: &Impersonation, requester: &UserInfo) -> Vec<Mode> {
    let name_alone = asked.parts.len() == 1;
    match (node(&asked.target.name), asked.target.service_account()) {
        (Some(node), _) if name_alone => {
            let arbitrary = Mode {
                name: "arbitrary-node",
                requester: requester.clone(),
                impersonation: of_node(asked, "impersonate:arbitrary-node", node),
            };
            is_on(requester, node).then(|| associated(asked, requester)).into_iter().chain([arbitrary]).collect()
        }
        (None, Some(_)) if name_alone => {
            vec![of_parts("serviceaccount", "impersonate:serviceaccount", asked, requester)]
        }
        (None, None) if asked.parts.iter().all(is_acceptable) => {
            vec![of_parts("user-info", "impersonate:user-info", asked, requester)]
        }
        _ => Vec::new(),
    }
}

/// Whether a client is the service account of a pod on the node.
fn is_on(requester: &UserInfo, node: &str) -> bool {
    let told = requester.extra.iter().find(|extra| extra.key == NODE_NAME).map(|extra| extra.values.as_slice());
    requester.service_account().is_some() && matches!(told, Some([name]) if name == node)
}

/// The mode of a service account that acts as the node of its pod. The authorizer is asked about all nodes and all pods at once.
fn associated(asked: &Impersonation, requester: &UserInfo) -> Mode {
    let mut keys: Vec<String> = requester.extra.iter().map(|extra| extra.key.clone()).collect();
    keys.sort_unstable();
    keys.dedup();
    let extra = vec![Extra { key: NODE_KEYS.to_owned(), values: keys }];
    Mode {
        name: "associated-node",
        requester: UserInfo { extra, ..requester.clone() },
        impersonation: of_node(asked, "impersonate:associated-node", "*"),
    }
}

fn of_node(asked: &Impersonation, verb: &'static str, name: &str) -> Impersonation {
    let groups = vec![NODES.to_owned()];
    let target = UserInfo::authenticated(asked.target.name.clone(), String::new(), groups, Vec::new());
    let node = ResourceAttributes {
        verb: verb.into(),
        group: AUTHENTICATION.into(),
        version: "v1".into(),
        resource: "nodes".into(),
        subresource: String::new(),
        namespace: String::new(),
        name: name.to_owned(),
    };
    Impersonation { target, parts: vec![node] }
}

fn of_parts(name: &'static str, verb: &'static str, asked: &Impersonation, requester: &UserInfo) -> Mode {
    let part = |part: &ResourceAttributes| ResourceAttributes {
        verb: verb.into(),
        group: AUTHENTICATION.into(),
        ..part.clone()
    };
    let parts = asked.parts.iter().map(part).collect();
    Mode { name, requester: requester.clone(), impersonation: Impersonation { target: asked.target.clone(), parts } }
}

/// Groups and extras that no grant of this kind allows are refused by kube-apiserver before it asks.
fn is_acceptable(part: &ResourceAttributes) -> bool {
    match &*part.resource {
        "groups" => !part.name.is_empty() && part.name != MASTERS,
        "userextras" => !part.name.is_empty() && is_domain_prefixed_path(&part.subresource),
        _ => true,
    }
}

/// A lower-case key such as `example.com/scopes` (apimachinery, `IsDomainPrefixedPath`).
fn is_domain_prefixed_path(key: &str) -> bool {
    let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    let Some((domain, path)) = key.split_once('/') else { return false };
    let is_lower = !key.chars().any(char::is_uppercase);
    is_lower && is_subdomain(domain.as_bytes()) && !path.is_empty() && path.bytes().all(is_path)
}
