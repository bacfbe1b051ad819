//! Listeners of one Gateway that are not distinct, or share host names.
//!
//! Each Gateway has Envoys of its own, so that listeners of different Gateways never meet.

use portcullis_gateway_api::TlsMode;

use super::JudgedListener;
use crate::condition::Rejection;

/// The most listeners that a message names: each may be in conflict with all others.
const MAX_NAMED: usize = 8;

/// Of each listener, the conflict with others. All sides of a conflict have it: none is the winner.
pub(super) fn conflicts(listeners: &[JudgedListener<'_>]) -> Vec<Option<Rejection>> {
    let of = |(index, one): (usize, &JudgedListener<'_>)| {
        let others = listeners.iter().enumerate().filter(move |(other, _)| *other != index);
        let found: Vec<_> = others.filter_map(|(_, other)| Some((conflict(one, other)?, other))).collect();
        let reason = found.iter().map(|(reason, _)| *reason).max()?;
        let subject = if reason == "HostnameConflict" { "the same host names" } else { "another protocol" };
        let names = in_words(found.iter().map(|(_, other)| *other));
        let message = format!("port {} has {subject} at {names}", one.spec.port);
        Some(Rejection::new(reason, message))
    };
    listeners.iter().enumerate().map(of).collect()
}

/// Why two listeners are not distinct. Listeners of protocols that are not served are not there at all.
fn conflict(one: &JudgedListener<'_>, other: &JudgedListener<'_>) -> Option<&'static str> {
    let protocols = (layer(one)?, layer(other)?);
    if one.spec.port != other.spec.port {
        return None;
    }
    let is_plain = (protocols.0 == "HTTP", protocols.1 == "HTTP");
    let has_same_host = one.host == other.host;
    let has_other_mode = protocols == ("TLS", "TLS") && mode(one) != mode(other);
    if is_plain.0 != is_plain.1 || has_other_mode || (has_same_host && protocols.0 != protocols.1) {
        return Some("ProtocolConflict");
    }
    has_same_host.then_some("HostnameConflict")
}

/// Of each accepted listener with TLS, the others at its port whose host names it shares: a client may use a connection to one
/// for requests to the other.
pub(super) fn overlaps(listeners: &[JudgedListener<'_>]) -> Vec<Option<String>> {
    let has_tls = |listener: &JudgedListener<'_>| {
        listener.refusal().is_none() && layer(listener).is_some_and(|layer| layer != "HTTP")
    };
    let of = |(index, one): (usize, &JudgedListener<'_>)| {
        let others = listeners.iter().enumerate().filter(|(other, _)| *other != index && has_tls(one));
        let mut others = others.map(|(_, other)| other).filter(|other| {
            has_tls(other) && other.spec.port == one.spec.port && one.host.intersection(&other.host).is_some()
        });
        let first = others.next()?;
        let names = in_words(std::iter::once(first).chain(others));
        Some(format!("{} has host names of {names}", one.spec.name))
    };
    listeners.iter().enumerate().map(of).collect()
}

/// The names of the first listeners, and the number of the others.
fn in_words<'a>(listeners: impl Iterator<Item = &'a JudgedListener<'a>>) -> String {
    let mut names = listeners.map(|listener| listener.spec.name.as_str());
    let named: Vec<&str> = names.by_ref().take(MAX_NAMED).collect();
    let more = names.count();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

fn layer<'a>(listener: &JudgedListener<'a>) -> Option<&'a str> {
    Some(listener.spec.protocol.as_str()).filter(|protocol| ["HTTP", "HTTPS", "TLS"].contains(protocol))
}

fn mode<'a>(listener: &JudgedListener<'a>) -> Option<&'a TlsMode> {
    listener.spec.tls.as_ref().map(|tls| &tls.mode)
}
