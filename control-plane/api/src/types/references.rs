use schemars::JsonSchema;
use serde::Deserialize;

/// References to certificates, keys and tokens that are not in the object itself. Each excludes the fields that it replaces. A
/// change of the referenced Secret or file acts as an edit of the object does.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct References {
    /// In place of `spec.secureServing.certData` and `keyData`.
    pub serving: Option<PairReference>,
    /// In place of `spec.secureServing.clientCAData`.
    #[serde(rename = "clientCA")]
    pub client_ca: Option<AuthorityReference>,
    /// In place of `spec.clientConfig.certData` and `keyData`.
    pub client: Option<PairReference>,
    /// In place of `spec.clientConfig.bearerToken`.
    pub token: Option<TokenReference>,
    /// In place of `spec.clientConfig.caData`.
    #[serde(rename = "upstreamCA")]
    pub upstream_ca: Option<AuthorityReference>,
}

/// A certificate and its key: in a Secret or in files.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PairReference {
    /// A Secret in the control plane's own namespace that is labelled for this object; with the Kubernetes source.
    pub secret: Option<PairInSecret>,
    /// Files below the root of references; with the directory source.
    pub file: Option<PairInFiles>,
}

/// A certificate and its key in a Secret.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PairInSecret {
    /// The Secret's name.
    pub name: String,
    /// The Secret's key that holds the certificate, PEM: `tls.crt` if empty.
    pub certificate: String,
    /// The Secret's key that holds the private key, PEM: `tls.key` if empty.
    pub private_key: String,
}

/// A certificate and its key in files.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PairInFiles {
    /// The certificate's path below the root of references, PEM.
    pub certificate: String,
    /// The private key's path below the root of references, PEM.
    pub private_key: String,
}

/// Certificates of authorities: in a Secret or in a file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AuthorityReference {
    /// A Secret in the control plane's own namespace that is labelled for this object; with the Kubernetes source.
    pub secret: Option<AuthorityInSecret>,
    /// The path of a file below the root of references, PEM; with the directory source.
    pub file: Option<String>,
}

/// Certificates of authorities in a Secret.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AuthorityInSecret {
    /// The Secret's name.
    pub name: String,
    /// The Secret's key that holds them, PEM: `ca.crt` if empty.
    pub key: String,
}

/// A token: in a Secret or in a file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TokenReference {
    /// A Secret in the control plane's own namespace that is labelled for this object; with the Kubernetes source.
    pub secret: Option<TokenInSecret>,
    /// The path of a file below the root of references; with the directory source.
    pub file: Option<String>,
}

/// A token in a Secret.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TokenInSecret {
    /// The Secret's name.
    pub name: String,
    /// The Secret's key that holds it: `token` if empty.
    pub key: String,
}
