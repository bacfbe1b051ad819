use schemars::JsonSchema;
use serde::Deserialize;

/// Options of `upstreamIdentity: RequestHeader`, an authenticating proxy of kube-apiserver.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RequestHeaderSpec {
    /// Whether tokens are reviewed by the servers before requests are forwarded; true if unset. If not, the user is unknown:
    /// rules with users, service accounts or groups do not match, and requests share no connection.
    pub token_review: Option<bool>,
    /// The user of the gateway's own requests, for TokenReviews and health checks; `system:portcullis` if unset. It needs the
    /// permission to create TokenReviews.
    pub user: Option<String>,
}

/// The header names for users, as the servers' `--requestheader-*` flags have them. No client's header of one of these names
/// reaches a server.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RequestHeaderNames {
    /// The user's name (`--requestheader-username-headers`); `X-Remote-User` if unset.
    pub user: Option<String>,
    /// The user's groups (`--requestheader-group-headers`); `X-Remote-Group` if unset.
    pub group: Option<String>,
    /// The user's UID (`--requestheader-uid-headers`, kube-apiserver 1.32 and later); `X-Remote-Uid` if unset, not sent if
    /// empty.
    pub uid: Option<String>,
    /// The start of the names of the user's extra attributes (`--requestheader-extra-headers-prefix`); `X-Remote-Extra-` if
    /// unset.
    pub extra_prefix: Option<String>,
    /// Further names, or starts of names, that the servers' `--requestheader-*` flags list beside the four above. The gateway
    /// never writes them, and no client's header that starts with one of them reaches a server.
    pub reserved: Vec<String>,
}
