use std::fmt;

use portcullis_harness::deps;
use serde::{Deserialize, Serialize};

/// A build of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filter {
    /// libportcullis.so.
    Module,
    /// portcullis.wasm.
    Wasm,
}

impl Filter {
    /// Both builds.
    pub const ALL: [Filter; 2] = [Filter::Module, Filter::Wasm];
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Filter::Module => "module",
            Filter::Wasm => "wasm",
        })
    }
}

/// An Envoy with a build of the filter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Combination {
    /// Envoy's version to the patch, like `1.38.3`.
    pub envoy: String,
    /// The build.
    pub filter: Filter,
}

impl Combination {
    /// Every supported Envoy (`testenv/scripts/versions.env`) with each build, the oldest first.
    pub fn all() -> Vec<Self> {
        let pinned = |name| deps::pinned(name).unwrap_or_default();
        let versions = [pinned("ENVOY_COMPAT_VERSIONS"), pinned("ENVOY_VERSION")].join(" ");
        let with_each = |envoy: String| Filter::ALL.map(|filter| Combination { envoy: envoy.clone(), filter });
        versions.split_whitespace().map(str::to_owned).flat_map(with_each).collect()
    }

    /// Envoy's version without the patch, like `1.38`.
    pub fn minor(&self) -> &str {
        self.envoy.rsplit_once('.').map_or(&self.envoy, |(minor, _)| minor)
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Envoy {}, {}", self.envoy, self.filter)
    }
}
