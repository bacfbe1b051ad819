use serde::{Deserialize, Serialize};

/// The certificate validator's configuration (`DynamicModuleCertValidatorConfig.validator_config`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValidatorConfig {
    /// PEM bundle of CAs that a presented certificate must verify against for the handshake to go on. Without it any
    /// certificate is taken, and only judged request by request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<String>,
}
