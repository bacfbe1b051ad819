//! Authentication of a request. Certificate, then bearer token, then anonymous: the first credential that succeeds wins, and a
//! client is anonymous only if it presented none.

use std::borrow::Cow;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::credential::{BrokenToken, bearer_token, subprotocol_token};
use crate::local_token::{TokenIssuers, VerifiedToken};
use crate::refusal::Refusal;
use crate::request::{Client, Interrupt, Peer, RequestContext};
use crate::review::{Review, ReviewKey, ReviewResult, TokenEnd};
use crate::upstream_user::UpstreamUser;
use crate::x509::{ChainError, ClientChain};

/// The result of one kind of credential.
enum AuthResult {
    /// It was not presented.
    Nothing,
    /// It is good.
    Client(Client),
    /// It was presented and fails.
    Failed,
}

/// Authenticates the client. `check` becomes a review of its token for which the request need not wait, if one is due.
pub(crate) fn authenticate(
    cluster: &Cluster,
    request: &RequestContext<'_>,
    check: &mut Option<Box<Review>>,
) -> Result<Client, Interrupt> {
    let mut has_failed = false;
    match certificate(cluster, request)? {
        AuthResult::Client(client) => return Ok(client),
        AuthResult::Failed => has_failed = true,
        AuthResult::Nothing => {}
    }
    let scan = request.scan;
    let from_header = || scan.authorization.map_or(Ok(None), bearer_token);
    let from_subprotocol = || {
        // Beside an Authorization that goes on and is no bearer token, it is unknown which of them counts.
        let is_beside = || cluster.identity.is_unchanged() && scan.authorization.is_some() && from_header() == Ok(None);
        if scan.is_websocket && !is_beside() { subprotocol_token(&scan.subprotocols) } else { Ok(None) }
    };
    for presented in [from_header(), from_subprotocol()] {
        match token(cluster, presented, request, check)? {
            AuthResult::Client(client) => return Ok(client),
            AuthResult::Failed => has_failed = true,
            AuthResult::Nothing => {}
        }
    }
    if has_failed || !cluster.anonymous {
        return Err(Refusal::unauthorized().into());
    }
    // An Authorization that Kubernetes does not know may be a credential for the upstream.
    let may_be_credential = cluster.identity.is_unchanged() && (scan.authorization.is_some() || scan.token_subprotocol);
    Ok(if may_be_credential { Client::Opaque { is_token: false } } else { Client::Anonymous })
}

fn certificate(cluster: &Cluster, request: &RequestContext<'_>) -> Result<AuthResult, Refusal> {
    if cluster.identity.is_unchanged() {
        return Ok(AuthResult::Nothing);
    }
    let encoded = match request.peer {
        Peer::None => return Ok(AuthResult::Nothing),
        Peer::Unreadable => return Err(Refusal::certificate_not_readable()),
        Peer::Chain(encoded) => encoded,
    };
    let chain = match ClientChain::decode(encoded) {
        Ok(chain) => chain,
        Err(ChainError::TooLarge) => return Ok(AuthResult::Failed),
        Err(ChainError::Malformed) => return Err(Refusal::certificate_not_readable()),
    };
    // Without client CAs a certificate is ignored, as in a kube-apiserver without --client-ca-file.
    let Some(ca) = &cluster.client_ca else { return Ok(AuthResult::Nothing) };
    Ok(match cluster.caches.certificates.user(&chain, ca, &cluster.identity.names, request.moment()) {
        Ok(Some(user)) => AuthResult::Client(Client::Certificate(user)),
        Ok(None) => AuthResult::Nothing,
        Err(_) => AuthResult::Failed,
    })
}

fn token(
    cluster: &Cluster,
    presented: Result<Option<Cow<'_, [u8]>>, BrokenToken>,
    request: &RequestContext<'_>,
    check: &mut Option<Box<Review>>,
) -> Result<AuthResult, Interrupt> {
    let token = match presented {
        // kube-apiserver overlooks line ends in a token. Each spelling of one good token would be a review of its own, and take
        // the place of another token's answer.
        Ok(Some(token)) if is_printable(&token) => token,
        Ok(None) => return Ok(AuthResult::Nothing),
        Ok(Some(_)) | Err(BrokenToken) if cluster.identity.is_unchanged() && cluster.reviewer.is_none() => {
            return Ok(AuthResult::Client(Client::Opaque { is_token: true }));
        }
        Ok(Some(_)) | Err(BrokenToken) => return Ok(AuthResult::Failed),
    };
    if let Some(issuers) = &cluster.token_issuers
        && let Some((user, confirmed)) = verified(issuers, &token, cluster, request, check)
    {
        return Ok(AuthResult::Client(Client::Bearer(user, confirmed)));
    }
    let Some(reviewer) = &cluster.reviewer else {
        // The upstream judges the token itself.
        return if cluster.identity.passes() {
            Ok(AuthResult::Client(Client::Opaque { is_token: true }))
        } else {
            Err(Refusal::token_not_reviewed().into())
        };
    };
    let (key, known) = Review::known_token(&token, &cluster.caches, request.answers, request.moment());
    match known {
        Some(ReviewResult::User(user)) => Ok(AuthResult::Client(Client::Bearer(user, Some(key)))),
        Some(ReviewResult::Rejected) => Ok(AuthResult::Failed),
        None | Some(ReviewResult::Verified(_)) => {
            let review = Review::of_token(&token, reviewer, &cluster.caches).with_check_period(cluster.check_period);
            Err(Interrupt::Review(vec![review]))
        }
        Some(_) => Err(Refusal::review_failed().into()),
    }
}

/// The user of a token that needs no review: it is remembered, or the keys of its issuer verify it. That they do not is no answer:
/// the upstream may know a newer key. Its own answer goes before, and after it has rejected the token once keys are not asked.
fn verified(
    issuers: &TokenIssuers,
    token: &[u8],
    cluster: &Cluster,
    request: &RequestContext<'_>,
    check: &mut Option<Box<Review>>,
) -> Option<(Arc<UpstreamUser>, Option<ReviewKey>)> {
    let (key, known) = Review::known_token(token, &cluster.caches, request.answers, request.moment());
    let verified = match known {
        Some(ReviewResult::Verified(known)) if known.edition == issuers.edition() => known,
        Some(ReviewResult::User(user)) => return Some((user, Some(key))),
        Some(ReviewResult::Verified(_)) | None => {
            if cluster.caches.distrusts(&key, request.uptime) {
                return None;
            }
            let VerifiedToken { user, until, expires } = issuers.verify(token, request.now.as_secs()).ok()?;
            let user = Arc::new(UpstreamUser::new(user).ok()?);
            let end = TokenEnd { until, expires };
            cluster.caches.insert_verified(key, (user, issuers.edition()), end, request.moment())?
        }
        Some(_) => return None,
    };
    if let (Some(period), Some(reviewer)) = (cluster.check_period, &cluster.reviewer)
        && verified.claim_check(period, request.uptime)
    {
        let review = Review::of_revocation(token, &verified, reviewer, &cluster.caches);
        *check = Some(Box::new(review.with_check_period(cluster.check_period)));
    }
    Some((Arc::clone(&verified.user), None))
}

/// Folded instead of searched, so that several bytes are looked at in one instruction.
fn is_printable(token: &[u8]) -> bool {
    token.iter().fold(true, |printable, byte| printable & byte.is_ascii_graphic())
}
