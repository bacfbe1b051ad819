use std::rc::Rc;

use portcullis_core::Gateway;
use portcullis_filter_config::{FilterConfig, PeerSource};

use crate::host::Host;
use crate::metrics::Metrics;

/// One configuration of the filter: what a root context is to Envoy.
pub(crate) struct Root {
    pub(crate) gateway: Gateway,
    pub(crate) metrics: Metrics,
}

impl Root {
    /// Compiles a configuration. `None` refuses it, and says why in Envoy's log.
    pub(crate) fn compile(text: &[u8], host: &impl Host) -> Option<Rc<Root>> {
        let config: FilterConfig = serde_json::from_slice(text)
            .map_err(|error| host.log(&format!("portcullis: the configuration does not parse: {error}")))
            .ok()?;
        if config.peer_source != PeerSource::ForwardedClientCert {
            host.log("portcullis: in wasm, certificates come by peerSource ForwardedClientCert only");
            return None;
        }
        let gateway = Gateway::compile(&config).map_err(|error| host.log(&format!("portcullis: {error}"))).ok()?;
        Some(Rc::new(Root { gateway, metrics: Metrics::new(host) }))
    }
}
