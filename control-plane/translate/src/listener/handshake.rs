//! Client certificates in the handshakes of a chain: as its cluster asks for them, and as its Gateway does.

use std::collections::BTreeSet;

use portcullis_api::{ClientVerification, Cluster, bundle_parts};

use crate::gateway_secrets::FrontendValidation;
use crate::names::{ResourceNames, parts};
use crate::resource::Resource;
use crate::secrets::listener_validation;

/// The validation of client certificates in a chain's handshakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HandshakeValidation {
    /// The name of the secret with the CAs.
    pub(super) secret: String,
    /// Whether a connection needs a certificate.
    pub(super) is_required: bool,
    /// The secret, if it is not one of the cluster's own.
    own: Option<Resource>,
}

/// The cluster and the Gateway both verify handshakes, by CAs of which neither contains the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DifferentAuthorities;

impl HandshakeValidation {
    /// As the cluster asks for them.
    pub(super) fn of_cluster(names: &ResourceNames) -> Self {
        Self { secret: names.part(parts::CLIENT_VALIDATION), is_required: false, own: None }
    }

    /// As the Gateway asks for them, too. The filter verifies each certificate by the cluster's CA in any case; what is decided here
    /// is which connections there are.
    ///
    /// Envoy verifies a handshake by one bundle. For a cluster that has its own CAs verify it the smaller of both bundles is enough: a
    /// path that ends there ends in the larger one, too.
    pub(super) fn at_gateway(
        frontend: &FrontendValidation,
        cluster: &Cluster,
        names: &ResourceNames,
        gateway: &ResourceNames,
    ) -> Result<Self, DifferentAuthorities> {
        let FrontendValidation::Required(asked) = frontend else { return Ok(Self::of_cluster(names)) };
        let of_cluster =
            cluster.client_ca.as_ref().filter(|_| cluster.client_verification == ClientVerification::Handshake);
        let trusted = match of_cluster.map(bundle_parts) {
            None => asked.clone(),
            Some(own) if asked.is_subset(&own) => asked.clone(),
            // An empty bundle would have Envoy verify nothing.
            Some(own) if own.is_subset(asked) && !own.is_empty() => own,
            Some(_) => return Err(DifferentAuthorities),
        };
        Ok(Self::of_authorities(&trusted, gateway))
    }

    /// As the Gateway asks for them where no cluster is behind; `None` if it asks for none.
    pub(super) fn of_gateway(frontend: &FrontendValidation, gateway: &ResourceNames) -> Option<Self> {
        match frontend {
            FrontendValidation::ByCluster => None,
            FrontendValidation::Required(asked) => Some(Self::of_authorities(asked, gateway)),
        }
    }

    /// The secret's content is in its name: connections that other CAs have let in end with their chain, and no chain has the CAs
    /// of before.
    fn of_authorities(trusted: &BTreeSet<String>, gateway: &ResourceNames) -> Self {
        let bundle: String = trusted.iter().map(String::as_str).collect();
        let name = gateway.of_content(parts::FRONTEND_VALIDATION, bundle.as_bytes());
        Self { own: Some(listener_validation(name.clone(), &bundle)), secret: name, is_required: true }
    }

    /// The secret that has to be sent beside those of clusters.
    pub(super) fn resource(&self) -> Option<&Resource> {
        self.own.as_ref()
    }
}
