use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use portcullis_core::identity::UserInfo;
use tokio::sync::Semaphore;

use super::subject::{AT_ONCE_OF_ALL, Subject};

/// The number of readers whose rights are remembered without a credential of theirs.
const MAX_SUBJECTS: usize = 256;
/// The extra by which kube-apiserver names the credential: another one with each token, and none that rights depend on.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Readers by everything that their rights depend on, so that their tokens and sessions share the answers to reviews.
pub(super) struct SubjectTable {
    max_age: Duration,
    reviews: Arc<Semaphore>,
    subjects: Mutex<BTreeMap<String, (Instant, Arc<Subject>)>>,
}

impl SubjectTable {
    /// Rights are believed to that age.
    pub(super) fn new(max_age: Duration) -> Self {
        Self { max_age, reviews: Arc::new(Semaphore::new(AT_ONCE_OF_ALL)), subjects: Mutex::default() }
    }

    /// The reader that is this user.
    pub(super) fn of(&self, user: UserInfo, now: Instant) -> Arc<Subject> {
        let user = without_credential(user);
        // Escaped and quoted: no two users have one text.
        let key = format!("{user:?}");
        let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, subject)) = subjects.get_mut(&key) {
            *used = now;
            return Arc::clone(subject);
        }
        if subjects.len() >= MAX_SUBJECTS {
            let oldest = subjects.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            oldest.map(|oldest| subjects.remove(&oldest));
        }
        let subject = Arc::new(Subject::new(user, self.max_age, Arc::clone(&self.reviews)));
        subjects.insert(key, (now, Arc::clone(&subject)));
        subject
    }
}

/// A user without the name of its credential.
pub(super) fn without_credential(mut user: UserInfo) -> UserInfo {
    user.extra.retain(|extra| extra.key != CREDENTIAL_ID);
    user
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis_core::identity::Extra;

    #[test]
    fn credentials_of_one_user_share_their_rights() {
        let (table, now) = (SubjectTable::new(Duration::from_secs(60)), Instant::now());
        let user = |name: &str, key: &str, value: &str| UserInfo {
            name: name.to_owned(),
            extra: vec![Extra { key: key.to_owned(), values: vec![value.to_owned()] }],
            ..UserInfo::default()
        };
        let of = |name, key, value| table.of(user(name, key, value), now);
        let first = of("alice", CREDENTIAL_ID, "JTI=1");
        assert!(Arc::ptr_eq(&first, &of("alice", CREDENTIAL_ID, "JTI=2")));
        assert!(first.user().extra.is_empty());
        assert!(
            !Arc::ptr_eq(&first, &of("alice", "scopes", "few")) && !Arc::ptr_eq(&first, &of("bob", "scopes", "few"))
        );
        for number in 0..1_000 {
            drop(table.of(user(&format!("user-{number}"), "a", "b"), now + Duration::from_secs(number)));
        }
        assert_eq!(table.subjects.lock().unwrap().len(), MAX_SUBJECTS);
    }
}
