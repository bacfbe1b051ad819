//! Listeners of one Gateway that are not distinct, or share host names.
//!
//! Each Gateway has Envoys of its own, so that listeners of different Gateways never meet.

use portcullis_gateway_api::TlsMode;

use super::JudgedListener;
use crate::condition::Rejection;

/// Of each listener, the conflict with others. All sides of a conflict have it: none is the winner.
pub(super) fn conflicts(listeners: &[JudgedListener<'_>]) -> Vec<Option<Rejection>> {
    let of = |(index, one): (usize, &JudgedListener<'_>)| {
        let others = listeners.iter().enumerate().filter(move |(other, _)| *other != index);
        let found: Vec<_> = others.filter_map(|(_, other)| Some((conflict(one, other)?, other))).collect();
        let reason = found.iter().map(|(reason, _)| *reason).max()?;
        let names: Vec<&str> = found.iter().map(|(_, other)| other.spec.name.as_str()).collect();
        let subject = if reason == "HostnameConflict" { "the same host names" } else { "another protocol" };
        let message = format!("port {} has {subject} at {}", one.spec.port, names.join(", "));
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
        let others = others.map(|(_, other)| other).filter(|other| {
            has_tls(other) && other.spec.port == one.spec.port && one.host.intersection(&other.host).is_some()
        });
        let names: Vec<&str> = others.map(|other| other.spec.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{} has host names of {}", one.spec.name, names.join(", ")))
    };
    listeners.iter().enumerate().map(of).collect()
}

fn layer<'a>(listener: &JudgedListener<'a>) -> Option<&'a str> {
    Some(listener.spec.protocol.as_str()).filter(|protocol| ["HTTP", "HTTPS", "TLS"].contains(protocol))
}

fn mode<'a>(listener: &JudgedListener<'a>) -> Option<&'a TlsMode> {
    listener.spec.tls.as_ref().map(|tls| &tls.mode)
}
