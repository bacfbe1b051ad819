use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::watch;

use super::subject::Subject;

/// The number of sessions, and of sessions of one user: a further one ends the oldest of that user.
const MAX_SESSIONS: usize = 256;
const MAX_OF_USER: usize = 8;
/// The number of those that only readers have who may list all objects.
const RESERVED: usize = 32;
/// Bytes of a session's id.
const ID_BYTES: usize = 32;

/// The hash of a session's id; the id itself is in the browser only.
type SessionKey = [u8; 32];

/// Why there is no new session.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoSession {
    /// There are as many as are kept.
    Full,
    /// The system has no random numbers.
    Random,
}

/// The sessions of browsers, by the hashes of their ids. They are in memory and end with the process.
#[derive(Default)]
pub(super) struct SessionTable {
    sessions: Mutex<BTreeMap<SessionKey, ConsoleSession>>,
}

struct ConsoleSession {
    token: Arc<str>,
    subject: Arc<Subject>,
    /// Whether the reader could list all objects when it began.
    lists: bool,
    begun: Instant,
    expires: Instant,
    reviewed: Instant,
    /// Its end is seen by the receivers when this is dropped.
    end: watch::Sender<()>,
}

/// A session that is good now.
pub(super) struct FoundSession {
    pub(super) subject: Arc<Subject>,
    /// Closed when the session ends.
    pub(super) end: watch::Receiver<()>,
}

/// A session whose token is to be reviewed.
pub(super) struct DueSession {
    pub(super) key: SessionKey,
    pub(super) token: Arc<str>,
    pub(super) subject: Arc<Subject>,
}

impl SessionTable {
    /// Begins a session; returns its id, for the cookie. In a full table the oldest session of a reader who may not list all
    /// objects ends.
    pub(super) fn begin(
        &self,
        token: &str,
        subject: Arc<Subject>,
        lists: bool,
        lifetime: Duration,
        now: Instant,
    ) -> Result<String, NoSession> {
        let mut id = [0; ID_BYTES];
        SystemRandom::new().fill(&mut id).map_err(|_| NoSession::Random)?;
        let id = URL_SAFE_NO_PAD.encode(id);
        let mut sessions = self.lock();
        sessions.retain(|_, session| session.expires > now);
        let own = |session: &ConsoleSession| session.subject.user().name == subject.user().name;
        while sessions.values().filter(|session| own(session)).count() >= MAX_OF_USER {
            if !end_oldest(&mut sessions, own) {
                break;
            }
        }
        let room = if lists { MAX_SESSIONS } else { MAX_SESSIONS - RESERVED };
        if sessions.len() >= room && !end_oldest(&mut sessions, |session| !session.lists) {
            return Err(NoSession::Full);
        }
        let (token, end, expires) = (token.into(), watch::channel(()).0, now + lifetime);
        sessions.insert(key_of(&id), ConsoleSession { token, subject, lists, begun: now, expires, reviewed: now, end });
        Ok(id)
    }

    /// The session of an id, if it has not expired and its last review is younger than `max_age`.
    pub(super) fn find(&self, id: &str, max_age: Duration, now: Instant) -> Option<FoundSession> {
        let sessions = self.lock();
        let session = sessions.get(&key_of(id))?;
        let is_good = session.expires > now && now.saturating_duration_since(session.reviewed) < max_age;
        is_good.then(|| FoundSession { subject: Arc::clone(&session.subject), end: session.end.subscribe() })
    }

    /// Ends the session of an id.
    pub(super) fn end(&self, id: &str) {
        self.lock().remove(&key_of(id));
    }

    /// Ends a session.
    pub(super) fn remove(&self, key: &SessionKey) {
        self.lock().remove(key);
    }

    /// Removes expired sessions, and returns those whose last review is as old as `interval`.
    pub(super) fn due(&self, interval: Duration, now: Instant) -> Vec<DueSession> {
        let mut sessions = self.lock();
        sessions.retain(|_, session| session.expires > now);
        let due = sessions.iter().filter(|(_, one)| now.saturating_duration_since(one.reviewed) >= interval);
        let due = due.map(|(key, one)| DueSession {
            key: *key,
            token: Arc::clone(&one.token),
            subject: Arc::clone(&one.subject),
        });
        due.collect()
    }

    /// Notes that a session's token was reviewed and is good.
    pub(super) fn renew(&self, key: &SessionKey, subject: Arc<Subject>, now: Instant) {
        if let Some(session) = self.lock().get_mut(key) {
            session.subject = subject;
            session.reviewed = now;
        }
    }

    /// Each change is whole: a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionKey, ConsoleSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the oldest of some sessions; false if there is none.
fn end_oldest(sessions: &mut BTreeMap<SessionKey, ConsoleSession>, is_meant: impl Fn(&ConsoleSession) -> bool) -> bool {
    let meant = sessions.iter().filter(|(_, session)| is_meant(session));
    let oldest = meant.min_by_key(|(_, session)| session.begun).map(|(key, _)| *key);
    oldest.is_some_and(|oldest| sessions.remove(&oldest).is_some())
}

fn key_of(id: &str) -> SessionKey {
    let mut key = SessionKey::default();
    let hash = digest(&SHA256, id.as_bytes());
    key.iter_mut().zip(hash.as_ref()).for_each(|(to, from)| *to = *from);
    key
}

#[cfg(test)]
mod tests {
    use super::super::subjects::SubjectTable;
    use super::*;
    use portcullis_core::identity::UserInfo;

    const MINUTE: Duration = Duration::from_secs(60);

    fn subject(name: &str) -> Arc<Subject> {
        SubjectTable::new(MINUTE).of(UserInfo { name: name.to_owned(), ..UserInfo::default() }, Instant::now())
    }

    #[test]
    fn session_is_found_by_its_id_until_it_ends() {
        let (table, now) = (SessionTable::default(), Instant::now());
        let begin = |lifetime| table.begin("token", subject("alice"), false, lifetime, now).unwrap();
        let (id, other) = (begin(MINUTE), begin(MINUTE));
        assert!(id.len() == 43 && id != other, "{id} {other}");
        let find = |id: &str, later| table.find(id, MINUTE * 2, now + later);
        assert_eq!(find(&id, Duration::ZERO).unwrap().subject.user().name, "alice");
        assert!(find(&id, MINUTE).is_none(), "it has expired");
        assert!(find("", Duration::ZERO).is_none() && find(&id[1..], Duration::ZERO).is_none());
        table.end(&id);
        assert!(find(&id, Duration::ZERO).is_none() && find(&other, Duration::ZERO).is_some());
        let stored = table.lock().keys().map(|key| URL_SAFE_NO_PAD.encode(key)).collect::<Vec<_>>();
        assert!(!stored.contains(&other), "ids are kept as hashes only");
    }

    #[test]
    fn session_without_a_recent_review_is_not_believed() {
        let (table, now) = (SessionTable::default(), Instant::now());
        let id = table.begin("token", subject("alice"), false, MINUTE * 60, now).unwrap();
        assert!(table.due(MINUTE, now + MINUTE / 2).is_empty());
        let due = table.due(MINUTE, now + MINUTE);
        assert_eq!(due.iter().map(|one| &*one.token).collect::<Vec<_>>(), ["token"]);
        assert!(table.find(&id, MINUTE * 2, now + MINUTE * 2).is_none(), "reviews have stopped");
        table.renew(&due[0].key, subject("alice"), now + MINUTE);
        assert!(table.find(&id, MINUTE * 2, now + MINUTE * 2).is_some());
        assert!(table.due(MINUTE, now + MINUTE * 60).is_empty(), "expired sessions are forgotten");
    }

    #[test]
    fn end_of_a_session_is_seen_by_its_streams() {
        let (table, now) = (SessionTable::default(), Instant::now());
        let id = table.begin("token", subject("alice"), false, MINUTE, now).unwrap();
        let found = table.find(&id, MINUTE, now).unwrap();
        assert!(found.end.has_changed().is_ok());
        table.end(&id);
        assert!(found.end.has_changed().is_err());
    }

    #[test]
    fn sessions_are_bounded_for_each_user_and_for_all() {
        let (table, now) = (SessionTable::default(), Instant::now());
        let begin = |name: &str, lists, second| {
            table.begin("t", subject(name), lists, MINUTE * 60, now + Duration::from_secs(second))
        };
        let first = begin("alice", false, 0).unwrap();
        (1..=8).for_each(|second| drop(begin("alice", false, second).unwrap()));
        assert!(table.find(&first, MINUTE, now).is_none(), "the oldest of the user ends");
        assert_eq!(table.lock().len(), MAX_OF_USER);
        let begin_many = |name: &str, users: u64, lists| {
            (0..users * 8).filter(|at| begin(&format!("{name}-{}", at / 8), lists, 10 + at).is_ok()).count()
        };
        assert_eq!(begin_many("user", 40, false), 320);
        assert_eq!(table.lock().len(), MAX_SESSIONS - RESERVED, "places are kept for those who may list");
        assert_eq!(begin_many("operator", 31, true), 248);
        assert_eq!(table.lock().values().filter(|session| session.lists).count(), 248, "they displace others");
        assert_eq!(begin_many("more", 1, true), 8);
        assert_eq!(begin("late", true, 999), Err(NoSession::Full));
        assert_eq!(begin("late", false, 999), Err(NoSession::Full));
        assert!(begin("more-0", true, 999).is_ok(), "a user's own place is free again");
    }
}
