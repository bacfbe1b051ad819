//! Discovered servers in a document: a member of its status that no source can bring, so that translation sees one document with
//! everything that it depends on.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::drawn_name::drawn_name;

/// The member of `status`.
static MEMBER: LazyLock<String> = LazyLock::new(|| drawn_name("discovered"));

/// An address of an EndpointSlice, not judged yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiscoveredServer {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: u16,
    /// The zone as the slice has it; empty if it has none.
    pub zone: String,
}

/// The outcome of a discovery, for one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovered {
    /// This control plane cannot discover these servers.
    Unsupported,
    /// The servers of the last answer that was not empty; none before the first.
    Servers(Vec<DiscoveredServer>),
}

/// The document with these servers in the place of those that it had. `None` leaves it without any.
#[must_use]
pub fn with_discovered(document: &Arc<Value>, discovered: Option<&Discovered>) -> Arc<Value> {
    let wanted = discovered.map(written);
    if document.get("status").and_then(|status| status.get(MEMBER.as_str())) == wanted.as_ref() {
        return Arc::clone(document);
    }
    let mut document = document.as_ref().clone();
    let status = document.as_object_mut().map(|fields| fields.entry("status").or_insert_with(|| json!({})));
    if let Some(status) = status {
        if !status.is_object() {
            *status = json!({});
        }
        match (status.as_object_mut(), wanted) {
            (Some(members), Some(wanted)) => drop(members.insert(MEMBER.clone(), wanted)),
            (Some(members), None) => drop(members.remove(MEMBER.as_str())),
            (None, _) => {}
        }
    }
    Arc::new(document)
}

fn written(discovered: &Discovered) -> Value {
    match discovered {
        Discovered::Unsupported => json!({"unsupported": true}),
        Discovered::Servers(servers) => {
            let one = |server: &DiscoveredServer| json!({"address": SocketAddr::new(server.ip, server.port).to_string(), "zone": server.zone});
            json!({"servers": servers.iter().map(one).collect::<Vec<_>>()})
        }
    }
}

/// The outcome that [`with_discovered`] put into the document with this status.
#[must_use]
pub fn discovered_of(status: Option<&Value>) -> Option<Discovered> {
    let member = status?.get(MEMBER.as_str())?;
    if member.get("unsupported").is_some() {
        return Some(Discovered::Unsupported);
    }
    let one = |server: &Value| {
        let address: SocketAddr = server.get("address")?.as_str()?.parse().ok()?;
        let zone = server.get("zone")?.as_str()?.to_owned();
        Some(DiscoveredServer { ip: address.ip(), port: address.port(), zone })
    };
    Some(Discovered::Servers(member.get("servers")?.as_array()?.iter().filter_map(one).collect()))
}
