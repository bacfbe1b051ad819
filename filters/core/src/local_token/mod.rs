//! Verification of JSON Web Tokens by the keys of their issuers, without the upstream.
//!
//! There are two outcomes: a token is verified, and whose it is is known, or the upstream is asked as for any other token. Nothing
//! here refuses a token, so everything that kube-apiserver may read in another way is left to it: a claim that is there twice or in
//! other letters, a header that it may not know, an encoding that is not the usual one. A token that is verified here is one that kube-apiserver's
//! own authenticators accept, as far as it depends on the token and its keys. They also look whether a service account and the pod of its
//! token still exist; that is what verification here does not see, for the time that [`TokenIssuer`] bounds.
//!
//! `token` takes a token apart, `keys` checks its signature, `claims` its times and audience, and `users` reads the user.

mod claims;
mod json;
mod keys;
mod token;
mod users;

use portcullis_filter_config::{ClusterConfig, TokenIssuer, TokenUsers};
use ring::digest;

use crate::identity::UserInfo;
use claims::TokenClaims;
use keys::IssuerKey;
use token::SignedToken;

/// The issuers of a cluster.
#[derive(Debug)]
pub struct TokenIssuers {
    issuers: Box<[Issuer]>,
    edition: u64,
}

#[derive(Debug)]
struct Issuer {
    url: Box<str>,
    audiences: Box<[Box<str>]>,
    keys: Box<[IssuerKey]>,
    keys_valid_until: u64,
    users: TokenUsers,
    required: Box<[(Box<str>, Box<str>)]>,
    max_age: u64,
}

/// The user of a token, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The user.
    pub user: UserInfo,
    /// The time from which on the upstream is asked, in seconds since 1970: the token's own expiry, its greatest age, or the end of its
    /// issuer's keys.
    pub until: u64,
    /// The token's own expiry.
    pub expires: u64,
}

/// Why the upstream is asked about a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotVerified {
    /// It is no compact JSON Web Signature with the headers that are known here.
    #[error("it is not a JSON Web Token of the usual form")]
    Form,
    /// No issuer of the cluster has its key, or its claim `iss` is another.
    #[error("no issuer of this cluster has a key of its key id")]
    Key,
    /// The algorithm is none of the key's.
    #[error("its algorithm is none of its key")]
    Algorithm,
    /// The signature.
    #[error("its signature is not of its key")]
    Signature,
    /// A claim is missing, or is not what it has to be.
    #[error("a claim ({0}) is missing, or is not what it has to be")]
    Claim(&'static str),
    /// A required claim.
    #[error("it has not all claims that are required")]
    RequiredClaim,
    /// It is not valid yet, or no longer.
    #[error("it is not valid at this time")]
    Time,
    /// The keys are older than keys are believed.
    #[error("its issuer's keys were read too long ago")]
    OldKeys,
    /// It is older than its issuer's tokens are verified.
    #[error("it is older than maxAge")]
    Age,
    /// Its user is none that an issuer may name.
    #[error("its user is not one of its issuer's")]
    User,
}

/// A configuration of issuers that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuersError {
    /// More of them, or more keys, than a cluster may have.
    #[error("there are too many issuers or keys")]
    TooMany,
    /// A key.
    #[error("a key is unreadable, too short or too long")]
    Key,
    /// A key id that is there twice.
    #[error("two keys of an issuer have one id")]
    KeyId,
    /// An issuer without a name or an audience, or one that is there twice.
    #[error("an issuer has no url, no audience, or is there twice")]
    Issuer,
    /// An audience for which a review would reject a token.
    #[error("an issuer has an audience that reviews of tokens do not ask for")]
    Audience,
}

impl TokenIssuers {
    /// Compiles the issuers of a cluster with its reviews: no token is verified that a review would reject for its audiences.
    pub(crate) fn for_cluster(config: &ClusterConfig) -> Result<Option<Self>, IssuersError> {
        let reviewed = config.reviews.as_ref().map_or(&[][..], |reviews| &reviews.token_audiences);
        let mut audiences = config.token_issuers.iter().flat_map(|issuer| &issuer.audiences);
        if !reviewed.is_empty() && !audiences.all(|audience| reviewed.contains(audience)) {
            return Err(IssuersError::Audience);
        }
        TokenIssuers::compile(&config.token_issuers)
    }

    /// Compiles the issuers of a cluster; `None` if there are none.
    ///
    /// # Errors
    /// [`IssuersError`], the control plane's fault.
    pub fn compile(config: &[TokenIssuer]) -> Result<Option<Self>, IssuersError> {
        if config.len() > TokenIssuer::MAX_ISSUERS {
            return Err(IssuersError::TooMany);
        }
        let mut issuers: Vec<Issuer> = Vec::with_capacity(config.len());
        for raw in config {
            if issuers.iter().any(|issuer| *issuer.url == *raw.url) {
                return Err(IssuersError::Issuer);
            }
            issuers.push(Issuer::compile(raw)?);
        }
        let edition = edition(config);
        Ok((!issuers.is_empty()).then(|| TokenIssuers { issuers: issuers.into(), edition }))
    }

    /// A word for this edition of the issuers, by which an answer that is remembered is known to be of it: a key that is taken away
    /// verifies nothing from then on.
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    /// The user of a token, at a time in seconds since 1970.
    ///
    /// # Errors
    /// [`NotVerified`]: the upstream has to be asked.
    pub fn verify(&self, token: &[u8], now: u64) -> Result<VerifiedToken, NotVerified> {
        let token = SignedToken::read(token)?;
        // By the key id first: it costs less than reading the claims of a stranger's token.
        if !self.issuers.iter().any(|issuer| issuer.keys_of(&token).next().is_some()) {
            return Err(NotVerified::Key);
        }
        let claims = TokenClaims::read(token.payload)?;
        let url = claims.text("iss")?;
        let issuer = self.issuers.iter().find(|issuer| *issuer.url == *url).ok_or(NotVerified::Key)?;
        // The signature after what costs less: a forged token is to cost as little as it can.
        let (until, expires) = issuer.check_use(&claims, now)?;
        issuer.check_signature(&token)?;
        Ok(VerifiedToken { user: issuer.user(&claims)?, until, expires })
    }
}

impl TokenIssuers {
    /// The issuer of the cluster that a token names, whether it is of that issuer or not, and the claim that the issuer requires and
    /// the token does not have, if there is one. For explanations: nothing of it is verified.
    pub fn named(&self, token: &[u8]) -> Option<(&str, Option<&str>)> {
        let claims = TokenClaims::read(SignedToken::read(token).ok()?.payload).ok()?;
        let url = claims.text("iss").ok()?;
        let issuer = self.issuers.iter().find(|issuer| *issuer.url == *url)?;
        Some((&issuer.url, issuer.missing(&claims)))
    }
}

impl Issuer {
    fn compile(raw: &TokenIssuer) -> Result<Self, IssuersError> {
        if raw.url.is_empty() || raw.audiences.is_empty() {
            return Err(IssuersError::Issuer);
        }
        if raw.keys.len() > TokenIssuer::MAX_KEYS {
            return Err(IssuersError::TooMany);
        }
        let mut keys: Vec<IssuerKey> = Vec::with_capacity(raw.keys.len());
        for key in &raw.keys {
            // A signature is checked once, whatever the token.
            if keys.iter().any(|known| *known.id == *key.id) {
                return Err(IssuersError::KeyId);
            }
            keys.push(IssuerKey::compile(key).ok_or(IssuersError::Key)?);
        }
        let required = raw.required_claims.iter().map(|(claim, value)| (claim.as_str().into(), value.as_str().into()));
        Ok(Issuer {
            url: raw.url.as_str().into(),
            audiences: raw.audiences.iter().map(|audience| audience.as_str().into()).collect(),
            keys: keys.into(),
            keys_valid_until: raw.keys_valid_until.unwrap_or(u64::MAX),
            users: raw.users.clone(),
            required: required.collect(),
            max_age: raw.max_age_seconds,
        })
    }

    fn keys_of(&self, token: &SignedToken<'_>) -> impl Iterator<Item = &IssuerKey> {
        self.keys.iter().filter(|key| *key.id == *token.key_id)
    }

    fn check_signature(&self, token: &SignedToken<'_>) -> Result<(), NotVerified> {
        self.keys_of(token).next().ok_or(NotVerified::Key)?.check(token)
    }

    /// Checks times, the keys' too, and audience. Returns up to when a token is valid here, and its own expiry.
    fn check_use(&self, claims: &TokenClaims, now: u64) -> Result<(u64, u64), NotVerified> {
        if now >= self.keys_valid_until {
            return Err(NotVerified::OldKeys);
        }
        let (until, expires) = claims.valid_until(now, self.max_age)?;
        claims.check_audience(&self.audiences)?;
        Ok((until.min(self.keys_valid_until), expires))
    }

    fn user(&self, claims: &TokenClaims) -> Result<UserInfo, NotVerified> {
        let user = match &self.users {
            TokenUsers::ServiceAccounts => users::service_account(claims)?,
            TokenUsers::ClaimMappings { username, groups } => users::mapped(claims, username, groups.as_ref())?,
        };
        if self.missing(claims).is_some() { Err(NotVerified::RequiredClaim) } else { Ok(user) }
    }

    /// A required claim that a token does not have.
    fn missing(&self, claims: &TokenClaims) -> Option<&str> {
        let lacks = |(claim, value): &&(Box<str>, Box<str>)| !claims.text(claim).is_ok_and(|text| *text == **value);
        self.required.iter().find(lacks).map(|(claim, _)| &**claim)
    }
}

fn edition(config: &[TokenIssuer]) -> u64 {
    let text = serde_json::to_vec(config).unwrap_or_default();
    digest::digest(&digest::SHA256, &text).as_ref().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
pub(crate) mod tests;
