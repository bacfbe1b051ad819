//! Questions to the upstream that judging a request may need: whose token is it (TokenReview), may this user act as
//! another, and for this request (SubjectAccessReview). The core writes the question and reads the answer; the host carries them.
//!
//! [`Review::accept_answer`] reads an answer and keeps it. `cache` holds the answers of one `UpstreamCluster`, `store` the memory that
//! all of them share. `token` and `access` write the two kinds of questions. `queue` and `pending` hold reviews under way and the
//! requests that wait for them; `callouts` carries them where workers share memory. `revocation` reviews tokens that were verified
//! without the upstream, beside requests; `verified` holds what is known of them.

mod access;
mod cache;
mod callouts;
mod pending;
mod queue;
mod revocation;
mod store;
mod token;
mod verified;

use std::sync::Arc;
use std::time::Duration;

pub use cache::{CACHES, CredentialCaches, Lifetimes, MIN_TRUST_SECS, ReviewPermit};
pub use callouts::{ReviewCallouts, WaitingStream};
use portcullis_filter_config as config;
pub use queue::{AwaitedAnswers, CalloutResult, ReviewOutcome, ReviewQueue};
pub(crate) use revocation::TokenEnd;
pub use store::Store;
pub use token::expiry as token_expiry;
pub use verified::{CHECK_RESULTS, VerifiedUser};

use crate::identity::UserInfo;
use crate::moment::Moment;
use crate::resource_attributes::AccessAttributes;
use crate::upstream_user::{HeaderNames, UpstreamUser};
use crate::user_digest::UserDigest;

/// How long a review may take, in milliseconds, from its start to its answer.
pub const DEADLINE_MS: u64 = 5_000;

/// The most bytes of an answer that is read. An honest one is the question and a user.
pub const MAX_ANSWER: usize = 256 * 1024;

/// The start of the verbs by which a client may impersonate for a kind of request.
pub(crate) const IMPERSONATE_ON: &str = "impersonate-on:";

/// Names a question, and through it the answer in a cache: a keyed hash, so that no cache holds a token.
pub type ReviewKey = [u8; 32];

/// A question to ask with the gateway's own credential.
pub struct Review {
    key: ReviewKey,
    kind: ReviewKind,
    path: &'static str,
    body: String,
    cluster: Arc<str>,
    user: Option<Arc<(String, String)>>,
    /// Audiences of which a token needs to have one, if there are any.
    audiences: Arc<[String]>,
    caches: Arc<CredentialCaches>,
    requester: Requester,
    traceparent: Option<Box<str>>,
    /// The longest time for which a token's user is believed after keys were not.
    check_period: Option<Duration>,
}

/// The upstream that answers reviews.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reviewer {
    /// The Envoy cluster to ask.
    pub(crate) cluster: Arc<str>,
    /// The header that says who asks, where the cluster's credential does not.
    pub(crate) user: Option<Arc<(String, String)>>,
    /// Whether grants of constrained impersonation count.
    pub(crate) looks_for_constrained: bool,
    /// Audiences of which a token needs to have one; empty where the upstream takes its own.
    pub(crate) audiences: Arc<[String]>,
}

impl Reviewer {
    pub(crate) fn from_config(reviews: &config::Reviews, names: &HeaderNames) -> Self {
        let user = reviews.user.as_ref().map(|user| Arc::new((names.user().to_owned(), user.clone())));
        Reviewer {
            cluster: reviews.cluster.as_str().into(),
            user,
            looks_for_constrained: reviews.constrained_impersonation,
            audiences: reviews.token_audiences.as_slice().into(),
        }
    }
}

/// The client that causes a review. Each kind has review slots of its own, so that none keeps another out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    /// Nothing was presented.
    Unauthenticated,
    /// A token that the review is about.
    Token,
    /// An authenticated user.
    User,
    /// No client: a token is checked that was verified, while its request goes on.
    Check,
}

/// The user of a question about access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReviewSubject<'a> {
    pub(crate) user: &'a UserInfo,
    /// Of this user.
    pub(crate) digest: UserDigest,
    pub(crate) requester: Requester,
}

impl std::fmt::Debug for Review {
    /// The body may hold a token.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Review { kind, cluster, .. } = self;
        formatter.debug_struct("Review").field("kind", &kind.name()).field("cluster", cluster).finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq)]
enum ReviewKind {
    /// With the token's own expiry, if it has one.
    Token {
        expires: Option<u64>,
    },
    /// Of a token that was verified, with its user by that.
    Revocation(Arc<VerifiedUser>),
    Access,
    /// About one kind of request of many: the answers of one client must not take the room of others.
    Request,
}

impl ReviewKind {
    /// Nothing of whom it is about.
    fn name(&self) -> &'static str {
        match self {
            ReviewKind::Token { .. } => "Token",
            ReviewKind::Revocation(_) => "Revocation",
            ReviewKind::Access => "Access",
            ReviewKind::Request => "Request",
        }
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewResult {
    /// The token is this user's.
    User(Arc<UpstreamUser>),
    /// The token is this user's by the keys of its issuer; the upstream was not asked.
    Verified(Arc<VerifiedUser>),
    /// The token is not valid.
    Rejected,
    /// The user may.
    Allowed,
    /// The user may not.
    Denied,
    /// There is no answer. Never cached; the request fails with 503.
    Failed,
}

/// Answers that a request has waited for. They count for that request even where no cache may keep them.
#[derive(Clone, Debug, Default)]
pub struct ReviewAnswers(Vec<(ReviewKey, ReviewResult)>);

impl ReviewAnswers {
    /// Adds an answer.
    pub fn push(&mut self, key: ReviewKey, result: ReviewResult) {
        self.0.push((key, result));
    }

    /// Adds the answers of another wait.
    pub fn extend(&mut self, others: ReviewAnswers) {
        self.0.extend(others.0);
    }

    fn get(&self, key: &ReviewKey) -> Option<ReviewResult> {
        self.0.iter().find(|(asked, _)| asked == key).map(|(_, result)| result.clone())
    }
}

/// A token that was reviewed as good and goes to the upstream, which has the last word on it.
#[derive(Debug)]
pub struct PassedToken {
    key: ReviewKey,
    caches: Arc<CredentialCaches>,
}

impl PassedToken {
    pub(crate) fn new(key: ReviewKey, caches: &Arc<CredentialCaches>) -> Self {
        PassedToken { key, caches: Arc::clone(caches) }
    }

    /// The name of its review, under which others may keep the answer, too.
    pub fn key(&self) -> ReviewKey {
        self.key
    }

    /// The upstream has answered 401: the token is reviewed again when it is presented next, unless it was just now.
    pub fn report_rejected(&self, uptime: Duration) {
        self.caches.invalidate_if_older(&self.key, uptime);
    }
}

impl Review {
    pub(crate) fn of_token(token: &[u8], reviewer: &Reviewer, caches: &Arc<CredentialCaches>) -> Review {
        Review {
            key: caches.token_key(token),
            kind: ReviewKind::Token { expires: token::expiry(token) },
            path: token::PATH,
            body: token::request_body(token, &reviewer.audiences),
            cluster: Arc::clone(&reviewer.cluster),
            user: reviewer.user.clone(),
            audiences: Arc::clone(&reviewer.audiences),
            caches: Arc::clone(caches),
            requester: Requester::Token,
            traceparent: None,
            check_period: None,
        }
    }

    /// In a cluster that reviews verified tokens once in a period. The user of a token that a review has rejected before is believed no
    /// longer than that: the next answer may be another server's.
    pub(crate) fn with_check_period(self, check_period: Option<Duration>) -> Review {
        Review { check_period, ..self }
    }

    /// Of a token that was verified: whether the upstream still accepts it. No request waits for it.
    pub(crate) fn of_revocation(
        token: &[u8],
        verified: &Arc<VerifiedUser>,
        reviewer: &Reviewer,
        caches: &Arc<CredentialCaches>,
    ) -> Review {
        let kind = ReviewKind::Revocation(Arc::clone(verified));
        Review { kind, requester: Requester::Check, ..Review::of_token(token, reviewer, caches) }
    }

    /// The key of a token's review, and the answer if one is known: from the reviews that this request has waited for, else from
    /// the cache. Asked first, because writing a question costs more than the rest of a request.
    pub(crate) fn known_token(
        token: &[u8],
        caches: &CredentialCaches,
        answers: &ReviewAnswers,
        at: Moment,
    ) -> (ReviewKey, Option<ReviewResult>) {
        let key = caches.token_key(token);
        (key, answers.get(&key).or_else(|| caches.token(&key, at)))
    }

    /// The answer about access that is known: from the reviews that this request has waited for, else from the cache. Asked first, as
    /// in [`Review::known_token`].
    pub(crate) fn known_access(
        subject: ReviewSubject<'_>,
        attributes: &AccessAttributes<'_>,
        caches: &CredentialCaches,
        answers: &ReviewAnswers,
        at: Moment,
    ) -> Option<ReviewResult> {
        let key = caches.access_key(&access::question(&subject.digest, attributes));
        answers.get(&key).or_else(|| caches.access(&key, at))
    }

    pub(crate) fn of_access(
        ReviewSubject { user, digest, requester }: ReviewSubject<'_>,
        attributes: &AccessAttributes<'_>,
        reviewer: &Reviewer,
        caches: &Arc<CredentialCaches>,
    ) -> Review {
        Review {
            key: caches.access_key(&access::question(&digest, attributes)),
            kind: if attributes.verb().starts_with(IMPERSONATE_ON) { ReviewKind::Request } else { ReviewKind::Access },
            path: access::PATH,
            body: access::request_body(user, attributes),
            cluster: Arc::clone(&reviewer.cluster),
            user: reviewer.user.clone(),
            audiences: Arc::clone(&reviewer.audiences),
            caches: Arc::clone(caches),
            requester,
            traceparent: None,
            check_period: None,
        }
    }

    /// Names the question: equal questions of one cluster have equal keys, and share one answer.
    pub fn key(&self) -> ReviewKey {
        self.key
    }

    /// Whether it asks whose a token is; otherwise whether a user may impersonate another.
    pub fn is_of_token(&self) -> bool {
        matches!(self.kind, ReviewKind::Token { .. } | ReviewKind::Revocation(_))
    }

    /// Whether no request waits for its answer, which then is none to a request of another worker either.
    pub(crate) fn is_check(&self) -> bool {
        matches!(self.kind, ReviewKind::Revocation(_))
    }

    /// The Envoy cluster to ask.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// A header that says who asks, where the Envoy cluster's credential does not.
    fn user_header(&self) -> Option<(&str, &str)> {
        self.user.as_deref().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Has the question go on with a request's trace (`traceparent`). Of equal questions the one that is sent counts.
    pub(crate) fn join_trace(&mut self, traceparent: &str) {
        self.traceparent = Some(traceparent.into());
    }

    /// The path to POST to.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The JSON to POST. May hold a token: for the upstream only.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// A slot for the review, or `None` where too many reviews of this cluster are under way for clients of this kind. A review
    /// that renews a good answer finds more room.
    pub fn permit(&self) -> Option<ReviewPermit> {
        self.caches.permit(&self.key, self.requester)
    }

    /// It cannot begin now: it is tried again a moment later.
    pub(super) fn postpone(&self, uptime: Duration) {
        if let ReviewKind::Revocation(verified) = &self.kind {
            verified.postpone_check(uptime);
        }
    }

    /// Reads the upstream's answer and keeps it, if it is one ([`Review::read`]), from the uptime on at which it came.
    pub fn accept_answer(&self, status: u16, body: &[u8], came: Duration) -> ReviewResult {
        let result = self.read(status, body);
        let expires = match &self.kind {
            ReviewKind::Token { expires } => *expires,
            ReviewKind::Revocation(verified) => {
                self.caches.accept_check(self.key, (verified, self.check_period), &result, came);
                return result;
            }
            ReviewKind::Access => None,
            ReviewKind::Request => {
                self.caches.insert_briefly(self.key, &result, came);
                return result;
            }
        };
        let longest = self.check_period.filter(|_| self.caches.distrusts(&self.key, came));
        self.caches.insert_for(self.key, &result, (expires, longest), came);
        result
    }

    /// Reads the upstream's answer. Anything but a 201 with the expected object is none: Envoy makes a 503 or 504 of its own
    /// where the upstream was not reached. For tools, which remember nothing; a host keeps it with [`Review::accept_answer`].
    pub fn read(&self, status: u16, body: &[u8]) -> ReviewResult {
        match self.kind {
            // The parser skips what it does not keep without looking whether it is text.
            _ if status != 201 || body.len() > MAX_ANSWER || std::str::from_utf8(body).is_err() => ReviewResult::Failed,
            ReviewKind::Token { .. } => token::parse_response(body, &self.audiences),
            ReviewKind::Revocation(_) => token::parse_check(body, &self.audiences),
            ReviewKind::Access | ReviewKind::Request => access::parse_response(body),
        }
    }
}

#[cfg(test)]
mod tests;
