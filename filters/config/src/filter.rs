use serde::{Deserialize, Serialize};

/// The listener's part of the configuration (`DynamicModuleFilter.filter_config`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilterConfig {
    /// Must equal [`crate::CONFIG_VERSION`].
    pub version: u32,
    /// The gateway's instance id: what it writes into `Via`, and what it refuses to meet there.
    pub instance: String,
}
