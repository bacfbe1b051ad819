//! Lists of host names in the message of a condition, by port: `port 443 8443: a.test, *.b.test; port 9443: c.test`.

use std::collections::{BTreeMap, BTreeSet};

use crate::host::HostPattern;

/// The type of the condition.
pub(crate) const HOSTNAMES_HELD: &str = "portcullis.dev/HostnamesHeld";

/// Most bytes of names in a message, of which the definitions allow 32,768 characters. The 16 names of an HTTPRoute have room several
/// times.
const MAX_LISTED: usize = 16_384;

/// The end of a list that has not all names.
const CUT: &str = "…";

/// The names at a port, each with its place in the order: those that must not be left out come first.
pub(crate) type ListedAtPort<'a> = BTreeSet<(bool, &'a HostPattern)>;

/// The message of a list, as far as there is room.
pub(crate) fn message(ports: &BTreeMap<u16, ListedAtPort<'_>>) -> String {
    let mut by_names: BTreeMap<&ListedAtPort<'_>, Vec<String>> = BTreeMap::new();
    for (port, names) in ports.iter().filter(|(_, names)| !names.is_empty()) {
        by_names.entry(names).or_default().push(port.to_string());
    }
    let mut room = MAX_LISTED;
    let parts: Vec<String> = by_names
        .into_iter()
        .map(|(names, ports)| format!("port {}: {}", ports.join(" "), in_room(names, &mut room)))
        .collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join("; ") }
}

/// The names for which there is room.
fn in_room(names: &ListedAtPort<'_>, room: &mut usize) -> String {
    let mut texts: Vec<String> = Vec::new();
    for (_, host) in names {
        let text = host.to_string();
        match room.checked_sub(text.len() + ", ".len()) {
            Some(rest) => *room = rest,
            None => {
                texts.push(CUT.to_owned());
                break;
            }
        }
        texts.push(text);
    }
    texts.join(", ")
}

/// The names that a message lists, with their ports. Parts that are not understood are left out.
pub(crate) fn read(message: &str) -> impl Iterator<Item = (u16, HostPattern)> {
    parts(message).flat_map(|(ports, names)| {
        let hosts = names.split(", ").filter_map(HostPattern::parse);
        hosts.flat_map(move |host| numbers(ports).map(move |port| (port, host.clone())))
    })
}

/// The ports whose lists have not all names.
pub(crate) fn cut_ports(message: &str) -> impl Iterator<Item = u16> {
    parts(message).filter(|(_, names)| names.ends_with(CUT)).flat_map(|(ports, _)| numbers(ports))
}

/// The ports and the names of each list in a message.
fn parts(message: &str) -> impl Iterator<Item = (&str, &str)> {
    message.split("; ").filter_map(|part| part.strip_prefix("port ")?.split_once(": "))
}

fn numbers(ports: &str) -> impl Iterator<Item = u16> {
    ports.split(' ').filter_map(|port| port.parse().ok())
}
