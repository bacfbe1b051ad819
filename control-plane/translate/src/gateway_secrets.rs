use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{KeyPair, PublicBytes, bundle_parts, read_client_bundle};
use portcullis_attach::{ListenerRole, ObjectName, ServedListener, ValidationMode};

/// Most bytes of the CAs of a port: each chain there has a copy of its own in Envoy.
const MAX_AUTHORITIES: usize = 64 * 1024;

/// The certificates of listeners, as far as they can be used. `Debug` shows no key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewaySecrets {
    /// Certificates with their keys, by the name of their Secret.
    pub serving: BTreeMap<ObjectName, Arc<KeyPair>>,
    /// CAs of client certificates, by the name of their `ConfigMap`.
    pub client_authorities: BTreeMap<ObjectName, Arc<PublicBytes>>,
}

/// The client certificates that a Gateway asks for at a listener, beside its `UpstreamClusters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FrontendValidation {
    /// None: each cluster decides.
    ByCluster,
    /// One of these CAs, each as PEM by itself, must have signed the certificate of every connection.
    Required(BTreeSet<String>),
}

impl GatewaySecrets {
    /// Those of a listener's certificates that are there, in its order.
    pub(crate) fn of<'a>(
        &'a self,
        certificates: &'a [ObjectName],
    ) -> impl Iterator<Item = (&'a ObjectName, &'a Arc<KeyPair>)> {
        certificates.iter().filter_map(move |name| self.serving.get_key_value(name))
    }

    /// Why all connections to an accepted listener are closed; `None` if they are not.
    pub fn closed_because(&self, listener: &ServedListener) -> Option<&'static str> {
        let ListenerRole::Terminate { certificates, .. } = &listener.role else { return None };
        if self.of(certificates).next().is_none() {
            return Some("none of its certificates can be read");
        }
        self.frontend(listener).err()
    }

    /// The client certificates that a Gateway asks for at a listener.
    ///
    /// # Errors
    /// Why none can be verified: then every connection is closed.
    pub(crate) fn frontend(&self, listener: &ServedListener) -> Result<FrontendValidation, &'static str> {
        let ListenerRole::Terminate { client_ca: Some(client_ca), .. } = &listener.role else {
            return Ok(FrontendValidation::ByCluster);
        };
        match client_ca.mode {
            // A connection goes on without a valid certificate, and a user is whom the cluster's CA names: nothing is left to these.
            ValidationMode::AllowInsecureFallback => return Ok(FrontendValidation::ByCluster),
            ValidationMode::AllowValidOnly => {}
            ValidationMode::Other(_) => return Err("the mode of tls.frontend is not known"),
        }
        // One that cannot be read is not trusted.
        let known = client_ca.config_maps.iter().filter_map(|name| self.client_authorities.get(name));
        let all: Vec<u8> = known.flat_map(|bundle| bundle.as_slice()).copied().collect();
        if all.is_empty() {
            return Err("none of the CAs of tls.frontend can be read");
        }
        let bundle = PublicBytes::new(all);
        if bundle.as_slice().len() > MAX_AUTHORITIES || read_client_bundle(&bundle).is_err() {
            return Err(
                "the CAs of tls.frontend take more than 64 KiB, or their names more than a handshake has room for",
            );
        }
        Ok(FrontendValidation::Required(bundle_parts(&bundle)))
    }
}
