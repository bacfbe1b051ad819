//! The peer of a connection, and the nodes that it may be.

use std::sync::Arc;

use tonic::Status;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use crate::membership::Membership;
use crate::node_name::node_name;

/// The length limit of a peer's names in messages.
const MAX_NAMES_LENGTH: usize = 256;

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// A process of this machine that may use the Unix socket.
    Local,
    /// The holder of a client certificate that was verified, by the names in it, sorted and each once.
    Certificate(Arc<[String]>),
}

impl Peer {
    /// The peer with the certificate's common names and DNS names. A certificate that cannot be read has no names.
    pub(crate) fn of_certificate(der: &[u8]) -> Self {
        let Ok((_, certificate)) = parse_x509_certificate(der) else { return Self::Certificate(Arc::new([])) };
        let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        let mut names: Vec<String> = common.map(str::to_owned).collect();
        if let Ok(Some(alternatives)) = certificate.subject_alternative_name() {
            for name in &alternatives.value.general_names {
                if let GeneralName::DNSName(name) = name {
                    names.push((*name).to_owned());
                }
            }
        }
        Self::of_names(names)
    }

    /// The same names are the same peer, in whichever order a certificate has them and however often: each peer has bounds of its own.
    fn of_names(mut names: Vec<String>) -> Self {
        names.retain(|name| !name.is_empty());
        names.sort_unstable();
        names.dedup();
        Self::Certificate(names.into())
    }

    /// Whether this peer may be the node of that id: over the network only under a name of its certificate. The error does not
    /// reveal which names would do.
    pub(crate) fn may_be(&self, node: &str) -> Result<(), Status> {
        let is_own = match self {
            Self::Local => true,
            Self::Certificate(names) => names.iter().any(|name| speaks_for(name, node)),
        };
        if is_own { Ok(()) } else { Err(Status::permission_denied("the node id is no name of the client certificate")) }
    }

    /// Whether nodes share it whose names are not known before.
    pub(crate) fn is_of_many(&self) -> bool {
        match self {
            Self::Local => true,
            Self::Certificate(names) => names.iter().any(|name| name.starts_with("*.")),
        }
    }

    /// The Gateways and instances that a node of this peer may belong to.
    pub(crate) fn membership(&self) -> Membership {
        match self {
            Self::Local => Membership::Local,
            Self::Certificate(names) => Membership::of_names(names),
        }
    }

    /// The name under which a node of this peer is known.
    pub(crate) fn node_name(&self, id: &str) -> String {
        node_name(&self.membership(), id)
    }

    /// How logs call it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Local => "a local process".to_owned(),
            Self::Certificate(names) => {
                let names = names.join(", ");
                // A certificate holds as many names as a handshake lets in.
                format!(
                    "the certificate of {}",
                    names.get(..names.floor_char_boundary(MAX_NAMES_LENGTH)).unwrap_or_default()
                )
            }
        }
    }
}

/// Whether a name of a certificate covers a node id. As in TLS a leading `*` covers one label: the pods of a Deployment, whose
/// names are not known before, can share a certificate.
fn speaks_for(name: &str, node: &str) -> bool {
    let Some(domain) = name.strip_prefix("*.") else { return name == node };
    node.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && !rest.is_empty() && rest == domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_with_the_same_names_are_of_one_peer() {
        let of = |names: &[&str]| Peer::of_names(names.iter().map(|name| (*name).to_owned()).collect());
        let one = of(&["a", "b.example.com", "c"]);
        for names in [&["c", "a", "b.example.com"][..], &["a", "c", "", "b.example.com", "c", "a"]] {
            assert_eq!(of(names), one, "{names:?}");
        }
        assert_ne!(of(&["a", "c"]), one);
    }

    #[test]
    fn node_is_bound_to_the_names_of_its_certificate() {
        let named = |names: &[&str]| Peer::Certificate(names.iter().map(|name| (*name).to_owned()).collect());
        for (peer, node, may) in [
            (Peer::Local, "anybody", true),
            (named(&["envoy-0", "envoy.example.com"]), "envoy-0", true),
            (named(&["envoy-0", "envoy.example.com"]), "envoy.example.com", true),
            (named(&["envoy-0"]), "envoy-1", false),
            (named(&["envoy-0"]), "ENVOY-0", false),
            (named(&["*.example.com"]), "a.example.com", true),
            (named(&["*.example.com"]), "A.example.com", true),
            (named(&["*.example.com"]), "a.b.example.com", false),
            (named(&["*.example.com"]), "example.com", false),
            (named(&["*.example.com"]), ".example.com", false),
            (named(&["*.example.com"]), "a.Example.com", false),
            (named(&["*.example.com"]), "*.b.example.com", false),
            (named(&["a*.example.com"]), "ab.example.com", false),
            (named(&["*.*.com"]), "a.b.com", false),
            (named(&["*"]), "a", false),
            (named(&["*."]), "a.", false),
            (named(&["envoy-0"]), "", false),
            (named(&[]), "", false),
            (Peer::of_certificate(b"nonsense"), "", false),
        ] {
            assert_eq!(peer.may_be(node).is_ok(), may, "{peer:?} {node}");
        }
    }
}
