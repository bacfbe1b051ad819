//! Nodes that belong to a Gateway of the Gateway API or to an instance, as their certificates prove it.

use std::collections::BTreeSet;

/// The domain in which a certificate names a Gateway: `NAME.NAMESPACE.gateway.portcullis.dev`. A namespace is one label, so that no
/// two Gateways have the same name there.
pub const GATEWAY_DOMAIN: &str = "gateway.portcullis.dev";

/// The domain in which a certificate names an instance: `NAME.instance.portcullis.dev`.
pub const INSTANCE_DOMAIN: &str = "instance.portcullis.dev";

/// The Gateways and instances that a node may belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// None: its certificate names none.
    #[default]
    Free,
    /// To one of these, as `NAMESPACE/NAME`, and it has to: its certificate names them. It may also be that there is none which
    /// can be.
    Bound(BTreeSet<String>),
    /// To one of these instances, and it has to: its certificate names them, and no Gateway. It may also be that there is none which
    /// can be.
    Instances(BTreeSet<String>),
    /// Any or none: it is a process of this machine.
    Local,
}

impl Membership {
    /// That of the common names and DNS names in a certificate. A name of one of the domains that names nothing, such as a wildcard
    /// or one with a dot at its end, binds all the same: who has it was not meant to have everything.
    pub(crate) fn of_names(names: &[String]) -> Self {
        if let Some(gateways) = named(names, GATEWAY_DOMAIN, gateway_of) {
            return Self::Bound(gateways);
        }
        named(names, INSTANCE_DOMAIN, instance_of).map_or(Self::Free, Self::Instances)
    }

    /// That of an Envoy whose bootstrap has this Gateway, or none: to the one, whichever others its certificate names. `None` if it may
    /// not be that Gateway's, or has to be one's.
    pub(crate) fn with_gateway(self, gateway: Option<&str>) -> Option<Self> {
        match (self, gateway) {
            (Self::Bound(gateways), Some(gateway)) if gateways.contains(gateway) => {
                Some(Self::Bound([gateway.to_owned()].into()))
            }
            (Self::Bound(_), _) | (_, Some(_)) => None,
            (other, None) => Some(other),
        }
    }

    /// The Gateway, if there is one that it has to belong to.
    pub fn gateway(&self) -> Option<&str> {
        match self {
            Self::Bound(gateways) if gateways.len() == 1 => gateways.first().map(String::as_str),
            Self::Free | Self::Bound(_) | Self::Instances(_) | Self::Local => None,
        }
    }
}

/// Everything that names of a domain name; `None` if no name is of the domain.
fn named(names: &[String], domain: &str, read: fn(&str) -> Option<String>) -> Option<BTreeSet<String>> {
    let all: Vec<Option<String>> = names.iter().filter_map(|name| Some(read(below(name, domain)?.as_str()))).collect();
    (!all.is_empty()).then(|| all.into_iter().flatten().collect())
}

/// The part of a name before its domain, lower-case; empty if there is none that names anything. `None` if the name is not of the
/// domain.
fn below(name: &str, domain: &str) -> Option<String> {
    let written = name.to_ascii_lowercase();
    let name = written.trim_matches(|one: char| one == '.' || one.is_whitespace() || one.is_control());
    if name == domain {
        return Some(String::new());
    }
    let rest = name.strip_suffix(domain)?.strip_suffix('.')?;
    let is_whole = name.len() == written.len() && !rest.contains('*');
    Some(if is_whole { rest.to_owned() } else { String::new() })
}

/// `NAMESPACE/NAME` of `NAME.NAMESPACE`.
fn gateway_of(rest: &str) -> Option<String> {
    let (gateway, namespace) = rest.rsplit_once('.')?;
    (gateway.split('.').all(is_label) && is_label(namespace)).then(|| format!("{namespace}/{gateway}"))
}

/// An instance's name is one label.
fn instance_of(rest: &str) -> Option<String> {
    is_label(rest).then(|| rest.to_owned())
}

/// Whether a text is one label of a DNS name, of which names in Kubernetes consist.
fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envoy_of_a_gateway_belongs_to_that_of_its_bootstrap_alone() {
        let bound = |gateways: &[&str]| Membership::Bound(gateways.iter().map(|one| (*one).to_owned()).collect());
        let instances = Membership::Instances(["a".to_owned()].into());
        for (membership, gateway, expected) in [
            (bound(&["infra/edge", "team/own"]), Some("team/own"), Some(bound(&["team/own"]))),
            (bound(&["infra/edge", "team/own"]), Some("team/other"), None),
            (bound(&["infra/edge"]), None, None),
            (bound(&[]), Some("infra/edge"), None),
            (Membership::Free, Some("infra/edge"), None),
            (Membership::Local, Some("infra/edge"), None),
            (instances.clone(), Some("infra/edge"), None),
            (instances.clone(), None, Some(instances)),
            (Membership::Free, None, Some(Membership::Free)),
            (Membership::Local, None, Some(Membership::Local)),
        ] {
            let found = membership.clone().with_gateway(gateway);
            assert_eq!(found, expected, "{membership:?} {gateway:?}");
            let named = found.as_ref().and_then(Membership::gateway);
            assert_eq!(named, gateway.filter(|_| expected.is_some()), "{membership:?}");
        }
        assert_eq!(bound(&["infra/edge", "team/own"]).gateway(), None);
    }

    #[test]
    fn certificate_names_gateways_and_instances_in_their_domains() {
        let bound = |gateways: &[&str]| Membership::Bound(gateways.iter().map(|one| (*one).to_owned()).collect());
        let of_instances =
            |instances: &[&str]| Membership::Instances(instances.iter().map(|one| (*one).to_owned()).collect());
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
            (&["envoy-0", "a.instance.portcullis.dev"], of_instances(&["a"])),
            (&["A.Instance.Portcullis.Dev", "b.instance.portcullis.dev"], of_instances(&["a", "b"])),
            (&["a.b.instance.portcullis.dev"], of_instances(&[])),
            (&["a/b.instance.portcullis.dev"], of_instances(&[])),
            (&["a+b.instance.portcullis.dev"], of_instances(&[])),
            (&["-.instance.portcullis.dev"], of_instances(&[])),
            (&["edge.in/fra.gateway.portcullis.dev"], bound(&[])),
            (&["*.instance.portcullis.dev"], of_instances(&[])),
            (&["instance.portcullis.dev"], of_instances(&[])),
            (&["a.instance.portcullis.dev.", "envoy-0"], of_instances(&[])),
            (&["a.instance.portcullis.dev \n"], of_instances(&[])),
            (&["a.myinstance.portcullis.dev"], Membership::Free),
            (&["a.instance.portcullis.dev.example.com"], Membership::Free),
            // A Gateway is the narrower of both.
            (&["a.instance.portcullis.dev", "edge.infra.gateway.portcullis.dev"], bound(&["infra/edge"])),
            (&["a.instance.portcullis.dev", "*.gateway.portcullis.dev"], bound(&[])),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(Membership::of_names(&names), expected, "{names:?}");
        }
    }
}
