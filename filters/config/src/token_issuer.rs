use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An issuer of JSON Web Tokens whose tokens the filter verifies itself. Any other token, and any that does not verify, is
/// reviewed by the upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenIssuer {
    /// The claim `iss`; unique in the cluster.
    pub url: String,
    /// Audiences of which a token names at least one.
    pub audiences: Vec<String>,
    /// The issuer's public keys, at most [`TokenIssuer::MAX_KEYS`], no two with one id. Without any no token is verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<TokenKey>,
    /// The time from which on the keys verify nothing, in seconds since 1970: an Envoy that hears of no newer ones must not believe
    /// old ones for ever. Without it they have no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_valid_until: Option<u64>,
    /// The users that tokens name.
    pub users: TokenUsers,
    /// Claims that a token has, and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub required_claims: BTreeMap<String, String>,
    /// Age, in seconds from the claim `iat` on, from which a token is not verified but reviewed.
    pub max_age_seconds: u64,
}

impl TokenIssuer {
    /// Maximum number of issuers of a cluster.
    pub const MAX_ISSUERS: usize = 16;
    /// Maximum number of an issuer's keys.
    pub const MAX_KEYS: usize = 32;
}

/// The way in which tokens name users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum TokenUsers {
    /// Service accounts, by the claim `kubernetes.io` of a kube-apiserver.
    ServiceAccounts,
    /// Users of an OpenID Connect provider.
    ClaimMappings {
        /// The claim that is the user's name.
        username: PrefixedClaim,
        /// The claim that is the user's groups. Without it users have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        groups: Option<PrefixedClaim>,
    },
}

/// A claim, and the text that is put before its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrefixedClaim {
    /// The claim's name.
    pub claim: String,
    /// The prefix, perhaps empty.
    pub prefix: String,
}

/// A public key of an issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenKey {
    /// The key's id: the header `kid` of tokens.
    pub id: String,
    /// The only algorithm that it is for (`RS256`, …). Without it any that the key can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// The key.
    pub key: TokenPublicKey,
}

/// The numbers of a public key as a JSON Web Key has them: base64url without padding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum TokenPublicKey {
    /// RSA, 2048 to 4096 bits.
    #[serde(rename = "RSA")]
    Rsa {
        /// The modulus.
        n: String,
        /// The exponent.
        e: String,
    },
    /// The curve P-256.
    #[serde(rename = "P-256")]
    P256 {
        /// The first coordinate.
        x: String,
        /// The second coordinate.
        y: String,
    },
    /// The curve P-384.
    #[serde(rename = "P-384")]
    P384 {
        /// The first coordinate.
        x: String,
        /// The second coordinate.
        y: String,
    },
}
