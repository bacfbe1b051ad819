//! Access to the pages: readers, and the objects that each of them may see.
//!
//! A loopback address is open. Elsewhere a reader shows a credential: a token or client certificate that the source's Kubernetes
//! API reviews, object by object, or with a directory as the source a certificate of `--http-client-ca`. Each failure means no
//! access.

mod attempts;
mod bearers;
mod cookie;
mod origin;
mod reviewer;
mod rights;
mod sessions;
mod subject;
mod subjects;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::http::{HeaderMap, header};
use futures_util::{StreamExt, stream};
use portcullis_core::identity::UserInfo;
use portcullis_core::review::token_expiry;
use tokio::sync::watch;

use crate::listen::Connection;
use crate::serve::turns::without_turn;
use attempts::{Attempts, TokenSender};
use bearers::{BearerCache, Remembered};
pub(super) use cookie::{remove as remove_cookie, set as set_cookie};
pub(super) use origin::{Origin, origin};
pub(super) use reviewer::ReadKind;
#[cfg(test)]
pub(super) use reviewer::Right;
pub(crate) use reviewer::{KubernetesReviewer, ReviewFailed, Reviewer};
pub(super) use rights::ObjectNames;
use sessions::{DueSession, NoSession, SessionTable};
use subject::Subject;
use subjects::{SubjectTable, without_credential};

/// The longest token that is reviewed, in bytes.
const MAX_TOKEN: usize = 16_384;
/// The longest lifetime of a session.
const SESSION_LIFETIME: Duration = Duration::from_secs(8 * 3_600);
/// Added to two review intervals: the age at which a session is no longer believed whatever became of its reviews.
const REVIEW_GRACE: Duration = Duration::from_secs(15);
/// The number of sessions that are reviewed at a time.
const REVIEWS_AT_ONCE: usize = 4;

/// The credentials that open the pages.
#[derive(Clone)]
pub(crate) enum LoginPolicy {
    /// None is needed: the address is loopback.
    Open,
    /// Tokens, and client certificates where the address has TLS, whose rights this reviewer knows.
    Reviewed(Arc<dyn Reviewer>),
    /// Client certificates, all of which may see everything.
    Certificates,
    /// None can be shown.
    Impossible,
}

/// The access to the pages.
pub(super) struct Access {
    policy: LoginPolicy,
    /// Whether a proxy in front of the address ends TLS.
    behind_tls_proxy: bool,
    review_interval: Duration,
    subjects: SubjectTable,
    sessions: SessionTable,
    bearers: BearerCache,
    /// Of client certificates, by the users that they name.
    certificates: BearerCache,
    attempts: Attempts,
}

/// The reader of a request.
#[derive(Clone)]
pub(super) enum Reader {
    /// A reader who may see everything; the name is that of a certificate, if one is needed.
    Everything(Option<String>),
    /// A reader whose rights are reviewed. The session's end closes the channel.
    Subject(Arc<Subject>, Option<watch::Receiver<()>>),
}

/// The reason for which a reader gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// No credential, or a session that has ended.
    LoginRequired,
    /// A credential that is rejected.
    BadCredential,
    /// A token would travel, or has travelled, without encryption.
    Plaintext,
    /// This address has no login.
    Impossible,
    /// The reader lacks the right.
    Forbidden,
    /// The page of another site sent the request.
    OtherOrigin,
    /// Too many attempts.
    TooMany,
    /// Too many sessions.
    Full,
    /// The review has no result.
    Unavailable,
}

/// A session that has begun.
#[derive(Debug)]
pub(super) struct NewSession {
    pub(super) id: String,
    pub(super) lifetime: Duration,
}

impl From<ReviewFailed> for Denied {
    fn from(_: ReviewFailed) -> Self {
        Denied::Unavailable
    }
}

impl Access {
    pub(super) fn new(policy: LoginPolicy, behind_tls_proxy: bool, review_interval: Duration) -> Self {
        Self {
            policy,
            behind_tls_proxy,
            review_interval,
            subjects: SubjectTable::new(review_interval),
            sessions: SessionTable::default(),
            bearers: BearerCache::default(),
            certificates: BearerCache::default(),
            attempts: Attempts::default(),
        }
    }

    /// Whether tokens are taken at all.
    pub(super) fn takes_tokens(&self) -> bool {
        matches!(self.policy, LoginPolicy::Reviewed(_))
    }

    /// Whether a token may be sent on this connection: encrypted, or between two programs of one machine. Headers of the
    /// request count for nothing here.
    pub(super) fn is_private(&self, connection: &Connection) -> bool {
        connection.is_tls || connection.peer.ip().to_canonical().is_loopback() || self.behind_tls_proxy
    }

    /// The reader of a request. A token in its headers is judged before everything else.
    pub(super) async fn authenticate(
        &self,
        headers: &HeaderMap,
        connection: &Connection,
        now: Instant,
    ) -> Result<Reader, Denied> {
        let reviewer = match &self.policy {
            LoginPolicy::Open => return Ok(Reader::Everything(None)),
            LoginPolicy::Impossible => return Err(Denied::Impossible),
            LoginPolicy::Certificates => {
                let user = connection.certificate_user().ok_or(Denied::LoginRequired)?;
                return Ok(Reader::Everything(Some(user.name.clone())));
            }
            LoginPolicy::Reviewed(reviewer) => reviewer.as_ref(),
        };
        if let Some(header) = headers.get(header::AUTHORIZATION) {
            if !self.is_private(connection) {
                return Err(Denied::Plaintext);
            }
            let token = header.to_str().ok().and_then(bearer).ok_or(Denied::BadCredential)?;
            let client = TokenSender::of(headers, connection, self.behind_tls_proxy);
            return Ok(Reader::Subject(self.bearer(reviewer, token, client, now).await?, None));
        }
        let max_age = self.review_interval * 2 + REVIEW_GRACE;
        if let Some(found) = cookie::session_id(headers).and_then(|id| self.sessions.find(id, max_age, now)) {
            return Ok(Reader::Subject(found.subject, Some(found.end)));
        }
        match connection.certificate_user() {
            Some(user) => Ok(Reader::Subject(self.of_certificate(user, now), None)),
            None if !self.is_private(connection) => Err(Denied::Plaintext),
            None => Err(Denied::LoginRequired),
        }
    }

    /// The reader of a token that a program sends.
    async fn bearer(
        &self,
        reviewer: &dyn Reviewer,
        token: &str,
        client: TokenSender,
        now: Instant,
    ) -> Result<Arc<Subject>, Denied> {
        match self.bearers.find(token, now) {
            Some(Remembered::Good(subject)) => return Ok(subject),
            Some(Remembered::Rejected) => return Err(Denied::BadCredential),
            None => {}
        }
        let (subject, lifetime) = self.review(reviewer, token, client, now).await?;
        self.bearers.remember(token, Arc::clone(&subject), now + lifetime.min(self.review_interval));
        Ok(subject)
    }

    fn of_certificate(&self, user: &UserInfo, now: Instant) -> Arc<Subject> {
        // Escaped and quoted: no two users have one text.
        let identity = format!("{user:?}");
        if let Some(Remembered::Good(subject)) = self.certificates.find(&identity, now) {
            return subject;
        }
        let subject = self.subjects.of(user.clone().into_authenticated(), now);
        self.certificates.remember(&identity, Arc::clone(&subject), now + self.review_interval);
        subject
    }

    /// Reviews a token that is not known, and returns how long it can be believed at most.
    async fn review(
        &self,
        reviewer: &dyn Reviewer,
        token: &str,
        client: TokenSender,
        now: Instant,
    ) -> Result<(Arc<Subject>, Duration), Denied> {
        let lifetime = lifetime(token).filter(|lifetime| !lifetime.is_zero()).ok_or(Denied::BadCredential)?;
        let attempt = self.attempts.begin(client, now).ok_or(Denied::TooMany)?;
        let user = without_turn(reviewer.user(token)).await?;
        drop(attempt);
        let Some(user) = user else {
            self.bearers.reject(token, now);
            return Err(Denied::BadCredential);
        };
        Ok((self.subjects.of(user, now), lifetime))
    }

    /// Exchanges a token for a session. A reader of none of the objects gets none; they are asked for when the token is known.
    pub(super) async fn log_in(
        &self,
        token: &str,
        headers: &HeaderMap,
        connection: &Connection,
        objects: impl FnOnce() -> ObjectNames,
        now: Instant,
    ) -> Result<NewSession, Denied> {
        let LoginPolicy::Reviewed(reviewer) = &self.policy else { return Err(Denied::Impossible) };
        if !self.is_private(connection) {
            return Err(Denied::Plaintext);
        }
        if matches!(self.bearers.find(token, now), Some(Remembered::Rejected)) {
            return Err(Denied::BadCredential);
        }
        let client = TokenSender::of(headers, connection, self.behind_tls_proxy);
        let (subject, lifetime) = self.review(reviewer.as_ref(), token, client, now).await?;
        let may_list = subject.may_list(reviewer.as_ref(), now).await?;
        // Their names are not asked for before: strangers ask, too.
        let may_read = may_list || rights::may_get_any(&subject, reviewer.as_ref(), objects(), now).await?;
        if !may_read {
            return Err(Denied::Forbidden);
        }
        let user = subject.user().name.clone();
        let id = self.sessions.begin(token, subject, may_list, lifetime, now).map_err(|error| match error {
            NoSession::Full => Denied::Full,
            NoSession::Random => Denied::Unavailable,
        })?;
        tracing::info!(user = crate::display_text::one_line(&user), "a session of the console begins");
        Ok(NewSession { id, lifetime })
    }

    /// Ends the session of a request.
    pub(super) fn log_out(&self, headers: &HeaderMap) {
        cookie::session_id(headers).into_iter().for_each(|id| self.sessions.end(id));
    }

    /// Reviews sessions until it is dropped.
    pub(super) async fn review_sessions(&self) {
        let LoginPolicy::Reviewed(reviewer) = &self.policy else { return std::future::pending().await };
        let pause = (self.review_interval / 10).clamp(Duration::from_millis(100), Duration::from_secs(5));
        loop {
            tokio::time::sleep(pause).await;
            self.review_due(reviewer.as_ref(), Instant::now()).await;
        }
    }

    async fn review_due(&self, reviewer: &dyn Reviewer, now: Instant) {
        let due = self.sessions.due(self.review_interval, now);
        let reviews = due.into_iter().map(|session| self.review_session(reviewer, session));
        stream::iter(reviews).buffer_unordered(REVIEWS_AT_ONCE).collect::<()>().await;
    }

    /// Reviews a session again; it ends unless the token is still the same user's.
    async fn review_session(&self, reviewer: &dyn Reviewer, session: DueSession) {
        let (key, now) = (session.key, Instant::now());
        match reviewer.user(&session.token).await {
            Ok(Some(user)) if without_credential(user.clone()) == *session.subject.user() => {
                self.sessions.renew(&key, session.subject, now);
            }
            Ok(Some(user)) if user.name == session.subject.user().name => {
                self.sessions.renew(&key, self.subjects.of(user, now), now);
            }
            Ok(_) | Err(ReviewFailed) => {
                tracing::info!(
                    user = crate::display_text::one_line(&session.subject.user().name),
                    "a session of the console ends"
                );
                self.sessions.remove(&key);
            }
        }
    }
}

impl Reader {
    /// The reader's name.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Reader::Everything(name) => name.as_deref(),
            Reader::Subject(subject, _) => Some(&subject.user().name),
        }
    }

    /// Whether it is one of a session, which can be ended.
    pub(super) fn has_session(&self) -> bool {
        matches!(self, Reader::Subject(_, Some(_)))
    }
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim()).filter(|token| is_token(token))
}

fn is_token(token: &str) -> bool {
    !token.is_empty() && token.len() <= MAX_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The time for which a token can be believed at most: until its own end, or that of a session. `None` for what is no token.
fn lifetime(token: &str) -> Option<Duration> {
    if !is_token(token) {
        return None;
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let left = token_expiry(token.as_bytes()).map(|expiry| Duration::from_secs(expiry).saturating_sub(now));
    Some(left.unwrap_or(SESSION_LIFETIME).min(SESSION_LIFETIME))
}

#[cfg(test)]
impl Access {
    /// Reviews the sessions that are due at a time.
    pub(super) async fn review_all(&self, now: Instant) {
        if let LoginPolicy::Reviewed(reviewer) = &self.policy {
            self.review_due(reviewer.as_ref(), now).await;
        }
    }

    /// Whether the session of a cookie goes on.
    pub(super) fn session_of(&self, cookie: &str) -> bool {
        let id = cookie.split_once('=').map(|(_, id)| id).unwrap_or_default();
        self.sessions.find(id, self.review_interval * 2, Instant::now()).is_some()
    }
}
