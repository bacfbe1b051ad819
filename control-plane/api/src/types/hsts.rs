use schemars::JsonSchema;
use serde::Deserialize;

/// The header `Strict-Transport-Security` (RFC 6797) of every answer, the gateway's own refusals included; a server's own header is
/// replaced.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StrictTransportSecurity {
    /// Seconds for which a browser uses HTTPS only; 31536000 (a year) is usual, 0 ends it.
    pub max_age_seconds: u32,
    /// Extends it to all names below the host's.
    #[serde(default)]
    pub include_sub_domains: bool,
    /// Allows browsers' makers to have the name in their lists.
    #[serde(default)]
    pub preload: bool,
}

impl StrictTransportSecurity {
    /// The header's value.
    pub(crate) fn value(&self) -> String {
        let below = if self.include_sub_domains { "; includeSubDomains" } else { "" };
        let preload = if self.preload { "; preload" } else { "" };
        format!("max-age={}{below}{preload}", self.max_age_seconds)
    }
}
