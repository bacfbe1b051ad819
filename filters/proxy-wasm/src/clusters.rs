//! The clusters' configurations. Envoy has no configuration of a wasm filter by route, so a virtual host carries it as
//! metadata: the text, and a digest of it, so that no request has to look at the text.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use portcullis_core::exchange::RouteConfig;
use portcullis_core::x509::hex_digest;
use portcullis_filter_config::{ClusterConfig, names};

use crate::hostcalls::Hostcalls;
use crate::long_streams::LongStreams;
use crate::memory::VmMemory;

/// A configuration that was not asked for so long is forgotten.
const IDLE: Duration = Duration::from_secs(600);

/// The configurations that this VM has met.
#[derive(Default)]
pub(crate) struct Clusters {
    /// By digest.
    compiled: HashMap<Vec<u8>, CompiledEntry>,
}

/// One cluster's configuration, with the streams of the cluster.
pub(crate) struct KnownCluster {
    name: String,
    pub(crate) route: RouteConfig<u32>,
}

struct CompiledEntry {
    /// `None` for what does not compile.
    known: Option<Rc<KnownCluster>>,
    used: Duration,
}

impl Clusters {
    /// The configuration of the current request's virtual host. `None` if there is none that can be used: the request fails
    /// closed.
    pub(crate) fn current<H: Hostcalls>(
        &mut self,
        host: &H,
        memory: &VmMemory<H>,
        long_streams: &mut LongStreams,
        uptime: Duration,
    ) -> Option<Rc<KnownCluster>> {
        let told = host.property(names::wasm::DIGEST).filter(|digest| !digest.is_empty());
        if let Some(entry) = told.as_ref().and_then(|digest| self.compiled.get_mut(digest)) {
            entry.used = uptime;
            return entry.known.clone();
        }
        let text = host.property(names::wasm::CONFIG)?;
        let digest = hex_digest(&text).to_vec();
        if told.is_some_and(|told| told != digest) {
            host.log("portcullis: a cluster's configuration and its digest do not belong together");
            return None;
        }
        // Without a digest in the metadata this one has been met before, too.
        if let Some(entry) = self.compiled.get_mut(&digest) {
            entry.used = uptime;
            return entry.known.clone();
        }
        let known = compile(&text, host, memory, long_streams, uptime).map(Rc::new);
        self.forget(known.as_ref().map(|known| known.name.as_str()), uptime);
        self.compiled.insert(digest, CompiledEntry { known: known.clone(), used: uptime });
        known
    }

    /// Earlier configurations of the cluster, and those of clusters that are asked for no longer.
    fn forget(&mut self, name: Option<&str>, uptime: Duration) {
        self.compiled.retain(|_, entry| {
            let is_same = entry.known.as_ref().is_some_and(|known| Some(known.name.as_str()) == name);
            !is_same && uptime.saturating_sub(entry.used) < IDLE
        });
    }
}

fn compile<H: Hostcalls>(
    text: &[u8],
    host: &H,
    memory: &VmMemory<H>,
    long_streams: &mut LongStreams,
    uptime: Duration,
) -> Option<KnownCluster> {
    let config: ClusterConfig = serde_json::from_slice(text)
        .map_err(|error| host.log(&format!("portcullis: a cluster's configuration does not parse: {error}")))
        .ok()?;
    let streams = long_streams.of_cluster(&config.name);
    let (route, next) = RouteConfig::compile(&config, memory, streams, uptime)
        .map_err(|error| host.log(&format!("portcullis: {}: {error}", config.identity)))
        .ok()?;
    if let Some(at) = next {
        long_streams.call_at(&route.streams, at);
    }
    Some(KnownCluster { name: config.name, route })
}
