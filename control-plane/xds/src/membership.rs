//! Nodes that belong to a Gateway of the Gateway API, as their certificates prove it.

use std::collections::BTreeSet;

/// The domain in which a certificate names a Gateway: `NAME.NAMESPACE.gateway.portcullis.dev`. A namespace is one label, so that no
/// two Gateways have the same name there.
pub const GATEWAY_DOMAIN: &str = "gateway.portcullis.dev";

/// The Gateways that a node may belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// None: its certificate names none.
    #[default]
    Free,
    /// To one of these, as `NAMESPACE/NAME`, and it has to: its certificate names them. It may also be that there is none which
    /// can be.
    Bound(BTreeSet<String>),
    /// Any or none: it is a process of this machine.
    Local,
}

impl Membership {
    /// That of the common names and DNS names in a certificate. A name of the domain that names no Gateway, such as a wildcard or one
    /// with a dot at its end, binds all the same: who has it was not meant to have everything.
    pub(crate) fn of_names(names: &[String]) -> Self {
        let gateways: Vec<Option<String>> = names.iter().filter_map(|name| gateway_of(name)).collect();
        if gateways.is_empty() { Self::Free } else { Self::Bound(gateways.into_iter().flatten().collect()) }
    }
}

/// `None` if a name is not of the domain.
fn gateway_of(name: &str) -> Option<Option<String>> {
    let written = name.to_ascii_lowercase();
    let name = written.trim_matches(|one: char| one == '.' || one.is_whitespace() || one.is_control());
    if name == GATEWAY_DOMAIN {
        return Some(None);
    }
    let (gateway, namespace) = match name.strip_suffix(GATEWAY_DOMAIN)?.strip_suffix('.')?.rsplit_once('.') {
        Some(both) => both,
        None => return Some(None),
    };
    let is_named = |part: &str| !part.is_empty() && !part.contains('*');
    let is_whole = name.len() == written.len() && is_named(gateway) && is_named(namespace);
    Some(is_whole.then(|| format!("{namespace}/{gateway}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_names_gateways_in_their_domain() {
        let bound = |gateways: &[&str]| Membership::Bound(gateways.iter().map(|one| (*one).to_owned()).collect());
        for (names, expected) in [
            (&["envoy-0"][..], Membership::Free),
            (&[], Membership::Free),
            (&["envoy-0", "edge.infra.gateway.portcullis.dev"], bound(&["infra/edge"])),
            (&["Edge.Infra.Gateway.Portcullis.Dev"], bound(&["infra/edge"])),
            (&["a.b.infra.gateway.portcullis.dev"], bound(&["infra/a.b"])),
            (&["a.n.gateway.portcullis.dev", "b.n.gateway.portcullis.dev"], bound(&["n/a", "n/b"])),
            (&["*.infra.gateway.portcullis.dev"], bound(&[])),
            (&["infra.gateway.portcullis.dev"], bound(&[])),
            (&["gateway.portcullis.dev"], bound(&[])),
            (&[".infra.gateway.portcullis.dev"], bound(&[])),
            (&["edge.infra.gateway.portcullis.dev."], bound(&[])),
            (&["edge.infra.gateway.portcullis.dev..", "envoy-0"], bound(&[])),
            (&["edge.infra.gateway.portcullis.dev \n"], bound(&[])),
            (&["gateway.portcullis.dev."], bound(&[])),
            (&["edge.infra.mygateway.portcullis.dev"], Membership::Free),
            (&["edge.infra.gateway.portcullis.dev.example.com"], Membership::Free),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(Membership::of_names(&names), expected, "{names:?}");
        }
    }
}
