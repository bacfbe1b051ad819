use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::KeyPair;
use portcullis_attach::{ListenerRole, ObjectName, ServedListener};

/// The Secrets of listeners' certificates, as far as they can be used. `Debug` shows no key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewaySecrets {
    /// Certificates with their keys, by the name of their Secret.
    pub serving: BTreeMap<ObjectName, Arc<KeyPair>>,
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
    ///
    /// CAs of the Gateway for client certificates would have to hold beside that of each cluster, which decides about identities:
    /// Envoy verifies a handshake by one bundle.
    pub fn closed_because(&self, listener: &ServedListener) -> Option<&'static str> {
        let ListenerRole::Terminate { certificates, client_ca, .. } = &listener.role else { return None };
        if client_ca.is_some() {
            return Some(
                "tls.frontend of the Gateway is not served yet: client certificates are verified by the UpstreamCluster's own CA",
            );
        }
        self.of(certificates).next().is_none().then_some("none of its certificates can be read")
    }
}
