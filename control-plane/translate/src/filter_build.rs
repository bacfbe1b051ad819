use portcullis_api::Settings;
use portcullis_filter_config::{FilterConfig, NODE_FILTER_MODULE, NODE_FILTER_WASM, PeerSource, SpanSettings};

use crate::generation::reserved_headers;

/// The build of the filter that an Envoy runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FilterBuild {
    /// `libportcullis.so`.
    #[default]
    Module,
    /// `portcullis.wasm`.
    Wasm,
}

/// A node names no build that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its filter is neither module nor wasm")]
pub struct UnknownBuild;

impl FilterBuild {
    /// The build that a node names under [`portcullis_filter_config::NODE_FILTER`]; the module if it names none.
    ///
    /// # Errors
    /// [`UnknownBuild`].
    pub fn from_metadata(value: Option<&str>) -> Result<Self, UnknownBuild> {
        match value {
            None | Some(NODE_FILTER_MODULE) => Ok(Self::Module),
            Some(NODE_FILTER_WASM) => Ok(Self::Wasm),
            Some(_) => Err(UnknownBuild),
        }
    }

    /// The listener's part of the filter's configuration.
    pub(crate) fn filter_config(settings: &Settings, tracing: Option<SpanSettings>) -> FilterConfig {
        FilterConfig {
            tracing,
            peer_source: PeerSource::Connection,
            reserved_headers: reserved_headers(settings),
            ..FilterConfig::new(&settings.instance)
        }
    }
}

impl std::fmt::Display for FilterBuild {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Module => NODE_FILTER_MODULE,
            Self::Wasm => NODE_FILTER_WASM,
        })
    }
}
