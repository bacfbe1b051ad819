use schemars::JsonSchema;
use serde::Deserialize;

/// Tokens: audiences that they need to have, and issuers whose tokens the gateway verifies itself.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TokensSpec {
    /// Audiences of which a token needs to have one: the gateway asks for them in its TokenReviews (`spec.audiences`), and rejects
    /// a token of which the servers do not say that it has one. Empty: `--api-audiences` of the servers. An issuer may have no other
    /// ones. With `RequestHeader` the token goes on to the servers, which require their own audiences as well.
    pub audiences: Vec<String>,
    /// Issuers of JSON Web Tokens whose tokens the gateway verifies by their keys, without a TokenReview. A token that
    /// does not verify is reviewed by the servers as any other. Without `checkRevocation` the servers do not say of a verified one
    /// whether it was revoked: it is valid here until its end, at most for `maxAge`.
    pub issuers: Vec<TokenIssuer>,
    /// Period in which the servers are asked about each token of `issuers` that is in use, while its requests go on: a Go duration
    /// from 10s to 10m; unset, they are not asked. A token that they reject is reviewed from then on as any other, before its requests
    /// go on. No answer changes nothing.
    pub check_revocation: Option<String>,
}

/// An issuer of JSON Web Tokens. The servers have to trust it, too, with the same audiences, prefixes and claims. An issuer must not
/// be here if the servers' `AuthenticationConfiguration` has for it rules or mappings that are CEL expressions (of
/// `claimValidationRules`, `userValidationRules`, `claimMappings`), or mappings of `uid` or `extra`: the gateway does not know them.
/// Servers with `--oidc-signing-algs` accept fewer algorithms than the gateway, which takes those of the key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TokenIssuer {
    /// The claim `iss` of its tokens: `--service-account-issuer` of the servers, or `issuer.url` of their
    /// `AuthenticationConfiguration`.
    pub url: String,
    /// Audiences of which a token has at least one: `--api-audiences` of the servers, or `issuer.audiences`.
    pub audiences: Vec<String>,
    /// The issuer's public keys.
    pub jwks: Jwks,
    /// Whether its tokens are those of service accounts. This or `claimMappings` is set.
    pub service_accounts: bool,
    /// The claims that name the user, as in the servers' `AuthenticationConfiguration`. This or `serviceAccounts` is set.
    pub claim_mappings: Option<ClaimMappings>,
    /// Claims that a token needs to have, as in the servers' `AuthenticationConfiguration`.
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    /// Age of a token, since it was issued, from which the servers are asked: a Go duration from 1m to 24h, 1h if unset. For so
    /// long a deleted pod, service account or session may be unnoticed.
    pub max_age: Option<String>,
}

/// Public keys: a JSON Web Key Set (RFC 7517). The control plane reads them every five minutes if one of `fromServers`, `url` and
/// `fromIssuer` is set. Until it has read them, and when the last answer is a day old, `inline` holds.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Jwks {
    /// The set itself, JSON. Keys of other kinds than RSA of 2048 to 4096 bits, P-256 and P-384 are not used, and no two may have
    /// one `kid`.
    pub inline: String,
    /// Whether the control plane asks the servers for the set (`/openid/v1/jwks`) with the gateway's credential; for service accounts
    /// only.
    pub from_servers: bool,
    /// The `https` URL of the set. Redirects are not followed, and no proxy is used.
    pub url: String,
    /// Whether the control plane asks the issuer where the set is (OpenID Connect Discovery): `jwks_uri` of the document
    /// `/.well-known/openid-configuration` below `url` of the issuer, which is an `https` URL then. The document has to name the
    /// issuer as it is written here.
    pub from_issuer: bool,
    /// CAs (PEM) by which the servers of `url`, or of `fromIssuer`, are known: `issuer.certificateAuthority` of an
    /// `AuthenticationConfiguration`. Without it those of the control plane's system count.
    pub certificate_authority: String,
}

/// The claims that name the user.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClaimMappings {
    /// The user's name. A name that begins with `system:` is not believed here.
    pub username: PrefixedClaim,
    /// The user's groups: a text or a list of texts. A group that begins with `system:` is not believed here.
    pub groups: Option<PrefixedClaim>,
}

/// A claim, and the text that is put before its values.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrefixedClaim {
    /// The claim's name.
    pub claim: String,
    /// The prefix; may be empty, but has to be written.
    pub prefix: Option<String>,
}

/// A claim that a token needs to have.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClaimValidationRule {
    /// The claim's name.
    pub claim: String,
    /// Its value, a text.
    pub required_value: String,
}
