use portcullis_api::Settings;
use portcullis_filter_config::{
    CONFIG_VERSION, ClusterConfig, FilterConfig, Inexpressible, NODE_FILTER_MODULE, NODE_FILTER_WASM, PREVIOUS_VERSION,
    PeerSource,
};

use crate::policy::reserved_headers;

/// Which of the two builds an Envoy runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// `libportcullis.so`.
    #[default]
    Module,
    /// `portcullis.wasm`.
    Wasm,
}

impl Filter {
    /// The build that a node tells under [`portcullis_filter_config::NODE_FILTER`]; the module if it tells none.
    ///
    /// # Errors
    /// [`FlavourError::Filter`].
    pub fn of_metadata(told: Option<&str>) -> Result<Self, FlavourError> {
        match told {
            None | Some(NODE_FILTER_MODULE) => Ok(Self::Module),
            Some(NODE_FILTER_WASM) => Ok(Self::Wasm),
            Some(_) => Err(FlavourError::Filter),
        }
    }
}

/// What differs between the Envoys of one gateway in how the same objects are told to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flavour {
    /// Which build it runs.
    pub filter: Filter,
    /// How the filter learns a client's certificate.
    pub peer_source: PeerSource,
    /// The version of the filter's configuration: the newest, or the one before.
    config_version: u32,
}

impl Default for Flavour {
    /// That of a current Envoy with a current filter.
    fn default() -> Self {
        Self { filter: Filter::Module, peer_source: PeerSource::Connection, config_version: CONFIG_VERSION }
    }
}

/// Why an Envoy cannot be told anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlavourError {
    /// Its filter and this control plane are too many releases apart.
    #[error(
        "its module reads configuration version {0}, and this control plane writes {CONFIG_VERSION} and \
         {PREVIOUS_VERSION}: bring them to neighbouring releases"
    )]
    Version(u32),
    /// Certificates would reach the filter in a way that it does not know.
    #[error(
        "its module reads configuration version {PREVIOUS_VERSION}, which cannot be used with Envoy before 1.39: take a \
         newer module or a newer Envoy"
    )]
    Certificates,
    /// There is no such build.
    #[error("its filter is neither module nor wasm")]
    Filter,
}

impl Flavour {
    /// The flavour of an Envoy whose filter is that build and reads configurations of that version.
    ///
    /// Envoy before 1.39 keeps the connection that a validator judges in a place that all workers share, so that of two
    /// handshakes at the same time one could be given the other's certificate (envoyproxy/envoy#45597). The previous filter
    /// knows no other way.
    ///
    /// # Errors
    /// [`FlavourError`]: nothing can be told to it. The operator has to act.
    pub fn of_node(envoy: Option<(u32, u32)>, filter: Filter, config_version: u32) -> Result<Self, FlavourError> {
        let has_own_place = envoy.is_some_and(|version| version >= (1, 39));
        let peer_source = match (filter, config_version) {
            (Filter::Module, CONFIG_VERSION) => PeerSource::Connection,
            (Filter::Module, PREVIOUS_VERSION) if has_own_place => PeerSource::Validator,
            // A VM reads what every listener can be made to write.
            (Filter::Wasm, CONFIG_VERSION) => PeerSource::ForwardedClientCert,
            (_, PREVIOUS_VERSION) => return Err(FlavourError::Certificates),
            (_, other) => return Err(FlavourError::Version(other)),
        };
        Ok(Self { filter, peer_source, config_version })
    }

    /// Whether the filter reads the newest configuration.
    pub fn is_newest_version(&self) -> bool {
        self.config_version == CONFIG_VERSION
    }

    /// The listener's part of the filter's configuration. What no filter of that version could read, stays as it is, and
    /// is refused by it.
    pub(crate) fn filter_config(self, settings: &Settings) -> FilterConfig {
        let newest = FilterConfig {
            peer_source: self.peer_source,
            reserved_headers: reserved_headers(settings),
            ..FilterConfig::new(&settings.instance)
        };
        if self.is_newest_version() {
            return newest;
        }
        newest.clone().into_previous().unwrap_or(newest)
    }

    /// A cluster's part of the filter's configuration, in the words of the filter's version.
    pub(crate) fn cluster_config(self, newest: ClusterConfig) -> Result<ClusterConfig, Inexpressible> {
        if self.is_newest_version() { Ok(newest) } else { newest.into_previous() }
    }
}

impl std::fmt::Display for Flavour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let peer = match self.peer_source {
            PeerSource::Validator => "validator",
            PeerSource::ForwardedClientCert => "forwarded-client-cert",
            PeerSource::Connection => "connection",
        };
        let filter = match self.filter {
            Filter::Module => "",
            Filter::Wasm => "/wasm",
        };
        write!(f, "config-{}/{peer}{filter}", self.config_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envoy_gets_what_it_and_its_filter_understand() {
        for (envoy, version, expected) in [
            (Some((1, 40)), 2, Ok("config-2/connection")),
            (Some((1, 38)), 2, Ok("config-2/connection")),
            (None, 2, Ok("config-2/connection")),
            (Some((1, 40)), 1, Ok("config-1/validator")),
            (Some((1, 39)), 1, Ok("config-1/validator")),
            (Some((1, 38)), 1, Err(FlavourError::Certificates)),
            (Some((1, 40)), 3, Err(FlavourError::Version(3))),
            (Some((1, 40)), 0, Err(FlavourError::Version(0))),
        ] {
            let flavour = Flavour::of_node(envoy, Filter::Module, version).map(|flavour| flavour.to_string());
            assert_eq!(flavour, expected.map(str::to_owned), "{envoy:?} {version}");
        }
        let wasm = |version| Flavour::of_node(Some((1, 40)), Filter::Wasm, version).map(|flavour| flavour.to_string());
        assert_eq!(wasm(CONFIG_VERSION).unwrap(), format!("config-{CONFIG_VERSION}/forwarded-client-cert/wasm"));
        assert_eq!(wasm(PREVIOUS_VERSION), Err(FlavourError::Certificates));
        assert_eq!(Flavour::default().to_string(), "config-2/connection");
    }
}
