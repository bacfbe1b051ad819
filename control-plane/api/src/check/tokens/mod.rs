use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use portcullis_filter_config::{PrefixedClaim, TokenIssuer, TokenKey, TokenUsers};

use super::Findings;
use super::asked_issuer::{AskedIssuer, check_asked_issuer};
use super::jwks::read_keys;
use crate::bounds::{MAX_AUDIENCES, MAX_CLAIM, MAX_CLAIM_RULES, MAX_TOKEN_ISSUERS};
use crate::duration::parse_duration;
use crate::problem::{Problem, ProblemCode};
use crate::shown_keys::{KeySource, ShownKeys, shown_keys_of};
use crate::types;

/// The path at which a kube-apiserver shows the public keys of its service accounts' tokens.
pub const TOKEN_KEYS_PATH: &str = "/openid/v1/jwks";

const PATH: &str = "spec.portcullis.tokens.issuers";
const AUDIENCES: &str = "spec.portcullis.tokens.audiences";
const CHECK: &str = "spec.portcullis.tokens.checkRevocation";

/// The default of `maxAge`: as long as a pod's token is valid that says nothing else.
const MAX_AGE: Duration = Duration::from_secs(3600);
const MAX_AGES: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(24 * 3600);
/// A kube-apiserver believes its own answer about a token for ten seconds.
const CHECK_PERIODS: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(600);

/// Consequences of the verification of tokens, for the object's status.
const UNNOTICED: &str = "tokens of these issuers are not reviewed: a deleted service account or pod, and a session that was revoked, \
                         stay valid here until the token ends, at most until maxAge after it was issued";
const CHECKED: &str = "tokens of these issuers are reviewed beside their requests: a deleted service account or pod, and a session \
                       that was revoked, are noticed by the review after a request, at most one in checkRevocation; until its answer \
                       the token stays valid here, a review without an answer changes nothing, and running watches and sessions go on";
const BY_HTTP1: &str = "tokens of these issuers are not reviewed: they go to the servers by HTTP/1.1, so that each watch holds a \
                        connection, and policies, limits and metrics know the user by the token alone, also after a server has \
                        rejected it";

const CHECKED_BY_HTTP1: &str = "tokens of these issuers go to the servers by HTTP/1.1, so that each watch holds a connection, and are \
                                reviewed beside their requests, at most once in checkRevocation: until a review or a server rejects \
                                one its user is known by the token alone, and a review without an answer changes nothing";
const UNREVIEWED: &str = "is for TokenReviews, which requestHeader.tokenReview: false turns off, unless access lists or protected \
                          identities, also those of the GatewaySettings, need users";

/// Keys while there are no newer ones.
const KEPT: &str = "; the last keys hold for a day at most, then every token is reviewed";

/// The same where the object has keys itself.
const KEPT_BEFORE_WRITTEN: &str = "; the last keys hold for a day at most, then those in inline, without an end";

/// The keys in use while there are no newer ones, in words.
fn kept(jwks: &types::Jwks) -> &'static str {
    if jwks.inline.is_empty() { KEPT } else { KEPT_BEFORE_WRITTEN }
}

/// How tokens are reviewed and verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Audiences of which a reviewed token needs to have one; empty where the servers take their own.
    pub audiences: Vec<String>,
    /// Issuers of tokens that the filter verifies itself.
    pub issuers: Vec<TokenIssuer>,
    /// Period in which a token that was verified is reviewed once, beside its requests, if it is at all.
    pub check_revocation: Option<Duration>,
    /// Issuers whose keys the control plane reads from a URL.
    pub asked_issuers: Vec<AskedIssuer>,
}

/// Checks how tokens are reviewed and verified. `allow_loopback` is `allowLoopbackUpstreams` of the settings.
pub(super) fn check_tokens(raw: &types::UpstreamCluster, allow_loopback: bool, findings: &mut Findings) -> Tokens {
    let ours = &raw.spec.portcullis;
    let audiences = ours.tokens.audiences.clone();
    check_audiences(&audiences, AUDIENCES, findings);
    let check_revocation = check_period(ours.tokens.check_revocation.as_deref(), findings);
    let is_unreviewed = is_unreviewed(raw);
    let fields = [(!audiences.is_empty()).then_some(AUDIENCES), check_revocation.map(|_| CHECK)];
    for field in fields.into_iter().flatten().filter(|_| is_unreviewed) {
        findings.warn(Problem::coded(ProblemCode::Caution, field, UNREVIEWED));
    }
    if check_revocation.is_some() && ours.tokens.issuers.is_empty() {
        let message = "is for tokens of issuers, and there is none: every token is reviewed before its request goes on";
        findings.warn(Problem::coded(ProblemCode::NoEffect, CHECK, message));
    }
    let (issuers, asked_issuers) = check_issuers(raw, allow_loopback, findings);
    Tokens { issuers, audiences, check_revocation, asked_issuers }
}

fn is_unreviewed(raw: &types::UpstreamCluster) -> bool {
    let ours = &raw.spec.portcullis;
    ours.upstream_identity == "RequestHeader" && ours.request_header.token_review == Some(false)
}

fn check_audiences(audiences: &[String], path: &str, findings: &mut Findings) {
    if audiences.iter().any(String::is_empty) {
        findings.problem(path, "must have none that is empty");
    } else if audiences.len() > MAX_AUDIENCES {
        findings.problem(path, format!("must not have more than {MAX_AUDIENCES} entries"));
    }
}

fn check_issuers(
    raw: &types::UpstreamCluster,
    allow_loopback: bool,
    findings: &mut Findings,
) -> (Vec<TokenIssuer>, Vec<AskedIssuer>) {
    let spec = &raw.spec.portcullis.tokens;
    if spec.issuers.len() > MAX_TOKEN_ISSUERS {
        findings.problem(PATH, format!("must not have more than {MAX_TOKEN_ISSUERS} entries"));
        return (Vec::new(), Vec::new());
    }
    let of_servers = shown_keys_of(raw.status.as_ref(), &KeySource::Servers);
    let mut urls = BTreeSet::new();
    let (mut checked, mut asked) = (Vec::new(), Vec::new());
    for (index, issuer) in spec.issuers.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        if issuer.url.is_empty() {
            findings.problem(format!("{path}.url"), "is required");
        } else if !urls.insert(&issuer.url) {
            findings.problem(format!("{path}.url"), "is listed twice");
        }
        if !spec.audiences.is_empty() && !issuer.audiences.iter().all(|audience| spec.audiences.contains(audience)) {
            let message = format!("has one that is not among {AUDIENCES}: a review would reject its tokens");
            findings.problem(format!("{path}.audiences"), message);
        }
        let at_url = check_asked_issuer(issuer, &format!("{path}.jwks"), allow_loopback, findings);
        let shown = match &at_url {
            Some(at_url) => shown_keys_of(raw.status.as_ref(), &KeySource::Issuer(at_url.issuer.clone())),
            None if issuer.jwks.from_servers => of_servers.clone(),
            None => ShownKeys::default(),
        };
        if let Some(why) = at_url.as_ref().and(shown.error.as_ref()) {
            let message = format!("{why}{}", kept(&issuer.jwks));
            findings.warn(Problem::coded(ProblemCode::Caution, format!("{path}.jwks"), message));
        }
        checked.extend(check_issuer(issuer, &shown, &path, findings));
        if issuer.jwks.from_servers {
            check_asked_servers(raw, format!("{path}.jwks.fromServers"), findings);
        }
        asked.extend(at_url);
    }
    if !spec.issuers.is_empty() {
        let is_impersonating = matches!(raw.spec.portcullis.upstream_identity.as_str(), "" | "Impersonate");
        let message = match &spec.check_revocation {
            Some(_) if !is_impersonating && !is_unreviewed(raw) => CHECKED_BY_HTTP1,
            _ if !is_impersonating => BY_HTTP1,
            Some(_) => CHECKED,
            None => UNNOTICED,
        };
        findings.warn(Problem::coded(ProblemCode::Caution, PATH, message));
    }
    let mut asking = spec.issuers.iter().filter(|issuer| issuer.jwks.from_servers);
    // One without written keys is the worse.
    let asks = asking.clone().find(|issuer| issuer.jwks.inline.is_empty()).or_else(|| asking.next());
    if let Some((why, issuer)) = of_servers.error.zip(asks) {
        let message = format!("fromServers: {why}{}", kept(&issuer.jwks));
        findings.warn(Problem::coded(ProblemCode::Caution, PATH, message));
    }
    (checked, asked)
}

/// Keys are asked for at written servers, before the discovered ones are known, and they are believed for a day.
fn check_asked_servers(raw: &types::UpstreamCluster, path: String, findings: &mut Findings) {
    if raw.spec.client_config.insecure {
        findings.problem(path, "needs servers that are verified: remove spec.clientConfig.insecure, and set caData");
    } else if raw.spec.servers.is_empty() {
        let message = "asks written servers only, and there is none: every token of this issuer is reviewed. Write one in \
                       spec.servers, with disabled: true if it is to have no requests";
        findings.warn(Problem::coded(ProblemCode::NoEffect, path, message));
    }
}

fn check_issuer(
    raw: &types::TokenIssuer,
    shown: &ShownKeys,
    path: &str,
    findings: &mut Findings,
) -> Option<TokenIssuer> {
    let of_audiences = format!("{path}.audiences");
    if raw.audiences.is_empty() {
        findings.problem(of_audiences, "needs at least one");
    } else {
        check_audiences(&raw.audiences, &of_audiences, findings);
    }
    let (keys, keys_valid_until) = check_keys(raw, shown, path, findings);
    let users = check_users(raw, path, findings);
    let required_claims = check_rules(&raw.claim_validation_rules, path, findings);
    let max_age = check_max_age(raw.max_age.as_deref(), path, findings);
    Some(TokenIssuer {
        url: raw.url.clone(),
        audiences: raw.audiences.clone(),
        keys,
        keys_valid_until,
        users: users?,
        required_claims,
        max_age_seconds: max_age.as_secs(),
    })
}

/// The keys, and the time up to which they hold if they were read elsewhere.
fn check_keys(
    raw: &types::TokenIssuer,
    shown: &ShownKeys,
    path: &str,
    findings: &mut Findings,
) -> (Vec<TokenKey>, Option<u64>) {
    if raw.jwks.from_servers && !raw.service_accounts {
        findings.problem(
            format!("{path}.jwks.fromServers"),
            "is for serviceAccounts only: servers have keys of no other issuer",
        );
    }
    let path = format!("{path}.jwks.inline");
    // Whatever was shown: a mistake is not to come to light when there is no answer.
    let written = match raw.jwks.inline.as_str() {
        "" => None,
        text => match read_keys(text) {
            Ok(keys) => Some(keys),
            Err(error) => {
                findings.problem(path, error.to_string());
                return (Vec::new(), None);
            }
        },
    };
    if let Some((keys, until)) = shown.keys.as_ref().and_then(|(text, until)| Some((read_keys(text).ok()?, *until))) {
        return (keys, Some(until));
    }
    let Some(keys) = written else {
        let jwks = &raw.jwks;
        if jwks.from_servers || !jwks.url.is_empty() || jwks.from_issuer {
            let message = "no key is known yet: every token of this issuer is reviewed until its keys have been read";
            findings.warn(Problem::coded(ProblemCode::Caution, path, message));
        } else {
            findings.problem(path, "is required without fromServers, url or fromIssuer");
        }
        return (Vec::new(), None);
    };
    if keys.is_empty() {
        let message = "has no key that can be used: every token of this issuer is reviewed";
        findings.warn(Problem::coded(ProblemCode::NoEffect, path, message));
    }
    (keys, None)
}

fn check_users(raw: &types::TokenIssuer, path: &str, findings: &mut Findings) -> Option<TokenUsers> {
    match (raw.service_accounts, &raw.claim_mappings) {
        (true, None) => Some(TokenUsers::ServiceAccounts),
        (false, Some(mappings)) => {
            let path = format!("{path}.claimMappings");
            Some(TokenUsers::ClaimMappings {
                username: check_claim(&mappings.username, &format!("{path}.username"), findings)?,
                groups: match &mappings.groups {
                    Some(groups) => Some(check_claim(groups, &format!("{path}.groups"), findings)?),
                    None => None,
                },
            })
        }
        _ => {
            findings.problem(path, "exactly one of serviceAccounts and claimMappings is required");
            None
        }
    }
}

fn check_claim(raw: &types::PrefixedClaim, path: &str, findings: &mut Findings) -> Option<PrefixedClaim> {
    if raw.claim.is_empty() || raw.claim.len() > MAX_CLAIM {
        findings.problem(format!("{path}.claim"), format!("must have 1 to {MAX_CLAIM} bytes"));
    }
    let Some(prefix) = &raw.prefix else {
        findings.problem(format!("{path}.prefix"), "is required; it may be empty, as in the servers' configuration");
        return None;
    };
    if prefix.starts_with("system:") {
        let message =
            "begins with system: no user or group of this issuer is believed here, and every token is reviewed";
        findings.warn(Problem::coded(ProblemCode::NoEffect, format!("{path}.prefix"), message));
    }
    Some(PrefixedClaim { claim: raw.claim.clone(), prefix: prefix.clone() })
}

fn check_rules(rules: &[types::ClaimValidationRule], path: &str, findings: &mut Findings) -> BTreeMap<String, String> {
    if rules.len() > MAX_CLAIM_RULES {
        let message = format!("must not have more than {MAX_CLAIM_RULES} entries");
        findings.problem(format!("{path}.claimValidationRules"), message);
    }
    let mut required = BTreeMap::new();
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{path}.claimValidationRules[{index}]");
        if rule.claim.is_empty() || rule.required_value.is_empty() {
            findings.problem(path, "needs claim and requiredValue");
        } else if required.insert(rule.claim.clone(), rule.required_value.clone()).is_some() {
            findings.problem(format!("{path}.claim"), "is listed twice");
        }
    }
    required
}

fn check_period(raw: Option<&str>, findings: &mut Findings) -> Option<Duration> {
    let problem = match raw.map(parse_duration)? {
        Ok(period) if CHECK_PERIODS.contains(&period) => return Some(period),
        Ok(_) => "must be from 10s to 10m".to_owned(),
        Err(error) => error.to_string(),
    };
    findings.problem(CHECK, problem);
    None
}

fn check_max_age(raw: Option<&str>, path: &str, findings: &mut Findings) -> Duration {
    let problem = match raw.map(parse_duration) {
        None => return MAX_AGE,
        Some(Ok(age)) if MAX_AGES.contains(&age) => return age,
        Some(Ok(_)) => "must be from 1m to 24h".to_owned(),
        Some(Err(error)) => error.to_string(),
    };
    findings.problem(format!("{path}.maxAge"), problem);
    MAX_AGE
}

#[cfg(test)]
mod tests;
