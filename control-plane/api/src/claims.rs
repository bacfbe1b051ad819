use serde_json::Value;

use crate::bounds::{MAX_NAMES, MAX_VIRTUAL_IPS};
use crate::check::virtual_ip;
use crate::dns_name::is_served_name;

/// How strongly a host name is claimed: `metadata.name` before `serverNames`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimKind {
    /// `metadata.name`.
    Name,
    /// An entry of `spec.secureServing.serverNames`.
    ServerName,
    /// An entry of `spec.portcullis.virtualIPs`.
    VirtualIp,
}

/// The host names and addresses that an object claims, lower-case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.creationTimestamp`; the older object wins.
    pub creation_timestamp: Option<String>,
    /// Names that the object owned when its status was written (`status.names`). Only the control plane writes that field; a
    /// source that cannot verify its author removes it.
    pub previously_owned: Vec<String>,
    /// Every name that could be served, with how it is claimed.
    pub names: Vec<(String, ClaimKind)>,
}

/// The claims of a document, read leniently: an object that is refused for another reason still owns its names, so that a
/// typing error in it does not hand its clients to another object. Of too many names the first ones.
pub fn claims_of(document: &Value) -> Claims {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or_default().to_ascii_lowercase();
    let mut names = Vec::new();
    if is_served_name(&name) {
        names.push((name.clone(), ClaimKind::Name));
    }
    let listed = document.pointer("/spec/secureServing/serverNames").and_then(Value::as_array);
    for listed in listed.into_iter().flatten().take(MAX_NAMES).filter_map(Value::as_str) {
        let listed = listed.to_ascii_lowercase();
        if is_served_name(&listed) && names.iter().all(|(known, _)| *known != listed) {
            names.push((listed, ClaimKind::ServerName));
        }
    }
    let addresses = document.pointer("/spec/portcullis/virtualIPs").and_then(Value::as_array);
    let addresses = addresses.into_iter().flatten().take(MAX_VIRTUAL_IPS).filter_map(Value::as_str);
    for ip in addresses.filter_map(virtual_ip).map(|ip| ip.to_string()) {
        if names.iter().all(|(known, _)| *known != ip) {
            names.push((ip, ClaimKind::VirtualIp));
        }
    }
    let previously_owned = document.pointer("/status/names").and_then(Value::as_array);
    let previously_owned =
        previously_owned.into_iter().flatten().filter_map(Value::as_str).map(str::to_ascii_lowercase).collect();
    Claims { name, previously_owned, creation_timestamp: text("/metadata/creationTimestamp").map(str::to_owned), names }
}
