use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ring::hmac;
use serde_json::json;

use super::answers;
use super::counts::SharedBucket;
use super::{SharedData, SharedState, StateStore};
use crate::bucket::{Rate, TokenBucket};
use crate::identity::UserInfo;
use crate::review::{CredentialCaches, Lifetimes, MIN_TRUST_SECS, Review, ReviewResult, Store, TokenEnd};
use crate::testing::{moment, now, reviewer};
use crate::upstream_user::UpstreamUser;

type Values = HashMap<Vec<u8>, (Vec<u8>, u32)>;

/// Shared data in memory; clones are other workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Arc<Mutex<(Values, u64)>>);

impl Memory {
    pub(super) fn advance(&self, seconds: u64) {
        self.0.lock().unwrap().1 += seconds;
    }
}

impl SharedData for Memory {
    fn shared(&self, key: &[u8]) -> Option<(Vec<u8>, u32)> {
        self.0.lock().unwrap().0.get(key).cloned()
    }

    fn set_shared(&self, key: &[u8], value: &[u8], cas: u32) -> bool {
        let values = &mut self.0.lock().unwrap().0;
        let known = values.get(key).map_or(0, |(_, number)| *number);
        let is_current = cas == 0 || cas == known;
        if is_current {
            values.insert(key.to_vec(), (value.to_vec(), known + 1));
        }
        is_current
    }

    fn uptime(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.0.lock().unwrap().1))
    }

    fn random(&self) -> Option<[u8; 32]> {
        let next = u8::try_from(self.0.lock().unwrap().0.len() % 200).unwrap();
        self.0.lock().unwrap().0.insert(vec![next], (Vec::new(), 1));
        Some([next; 32])
    }
}

#[test]
fn permits_of_a_removed_worker_are_released_after_a_while() {
    let host = Memory::default();
    let open = || SharedState::open(&host).unwrap();
    let (one, two) = (open(), open());
    let (here, there) = (one.in_flight("c", "s"), two.in_flight("c", "s"));
    let first = here.acquire(3).unwrap();
    let second = there.acquire(3).unwrap();
    let third = here.acquire(3).unwrap();
    assert!(here.acquire(3).is_none() && there.acquire(3).is_none());
    assert_eq!((here.count(), there.count()), (2, 1), "each counts its own");
    assert!(two.in_flight("c", "other").acquire(1).is_some());
    drop(first);
    let fourth = there.acquire(3).unwrap();
    assert!(here.acquire(3).is_none());
    // The second VM panics and gives nothing back.
    std::mem::forget((second, fourth));
    for _ in 0..6 {
        host.advance(4);
        assert!(one.maintain().is_some());
    }
    let (fifth, sixth) = (here.acquire(3).unwrap(), here.acquire(3).unwrap());
    assert!(here.acquire(3).is_none(), "what is held and renewed stays");
    drop((third, fifth, sixth));
    assert_eq!(one.maintain(), None);
}

#[test]
fn buckets_that_are_full_again_take_no_room() {
    let host = Memory::default();
    let state = SharedState::open(&host).unwrap();
    let bytes = || -> usize {
        let values = host.0.lock().unwrap();
        values
            .0
            .iter()
            .filter(|(key, _)| key.starts_with(b"portcullis/levels/"))
            .map(|(_, (value, _))| value.len())
            .sum()
    };
    let take = |rate| state.token_bucket("c", "s", rate).take(host.uptime().unwrap());
    // As many rates as edits of a day bring: a second later most buckets are full.
    for burst in 1..=20_000 {
        assert!(take(Rate { qps: 1, burst }));
        host.0.lock().unwrap().1 = u64::from(burst) / 100;
    }
    assert!(bytes() < 400 * 40, "{}", bytes());
    // Buckets that never refill are kept for a while.
    host.0.lock().unwrap().1 += 100;
    assert!((1..=2_000).all(|burst| take(Rate { qps: 0, burst })));
    let drained = state.token_bucket("other", "s", Rate { qps: 0, burst: 1 });
    assert!(drained.take(host.uptime().unwrap()) && !drained.take(host.uptime().unwrap()));
    assert!(bytes() >= 2_001 * 40);
    host.0.lock().unwrap().1 += 601;
    assert!((1..=2_000).all(|burst| take(Rate { qps: 1, burst })));
    assert!(bytes() <= 2_000 * 40, "{}", bytes());
}

#[test]
fn buckets_of_one_value_are_bounded() {
    let host = Memory::default();
    let _state = SharedState::open(&host).unwrap();
    let rate = Rate { qps: 0, burst: 1 };
    for number in 0..2_500_u16 {
        let mut id = [0; 16];
        id[1..3].copy_from_slice(&number.to_le_bytes());
        let level = SharedBucket { host: host.clone(), id, rate };
        assert!(TokenBucket::shared(rate, Box::new(level)).take(Duration::from_secs(u64::from(number))));
    }
    assert_eq!(host.shared(b"portcullis/levels/0").unwrap().0.len(), 2_048 * 40);
}

#[test]
fn bucket_is_one_for_all_workers() {
    let host = Memory::default();
    let (one, two) = (SharedState::open(&host).unwrap(), SharedState::open(&host).unwrap());
    let rate = Rate { qps: 1, burst: 3 };
    let buckets = [one.token_bucket("c", "s", rate), two.token_bucket("c", "s", rate)];
    let admitted =
        |seconds: u64| (0..20).filter(|number| buckets[number % 2].take(Duration::from_secs(seconds))).count();
    assert_eq!(admitted(0), 3);
    assert_eq!(admitted(2), 2);
    assert_eq!(admitted(100), 3);
    assert!(two.token_bucket("c", "s", Rate { qps: 2, burst: 3 }).take(Duration::from_secs(100)), "another rate");
}

#[test]
fn answer_that_is_contradicted_is_shared_no_longer() {
    let host = Memory::default();
    let (key, other) = ([1; 32], [1; 32].map(|byte: u8| byte + 1));
    let answer = |authenticated: bool| json!({"kind": "TokenReview", "status": {"authenticated": authenticated}});
    let put = |is_good: bool, at: u64| {
        let result = if is_good { ReviewResult::Allowed } else { ReviewResult::Rejected };
        answers::put(&host, &key, &result, answer(is_good).to_string().as_bytes(), at);
    };
    let found = || answers::find(&host, &key).map(|(body, at)| (body == answer(true).to_string().as_bytes(), at));
    put(true, 100);
    answers::invalidate_if_older(&host, &other, 200);
    answers::invalidate_if_older(&host, &key, 100 + MIN_TRUST_SECS - 1);
    assert_eq!(found(), Some((true, 100)), "it came just now, or is about another token");
    answers::invalidate_if_older(&host, &key, 100 + MIN_TRUST_SECS);
    assert_eq!(found(), None);
    put(true, 200);
    put(false, 201);
    assert_eq!(found(), Some((false, 201)));
}

/// A worker that has seen a token rejected is to ask a server: another one may have confirmed it to another worker just before.
#[test]
fn answer_to_a_check_is_shared_with_no_worker() {
    let host = Memory::default();
    let state = SharedState::open(&host).unwrap();
    let caches = Arc::new(CredentialCaches::new(&[7; 32], Lifetimes::default(), &Store::default()));
    let waiting = Review::of_token(b"t", &reviewer(), &caches);
    let body = json!({"kind": "TokenReview", "status": {"authenticated": true, "user": {"username": "alice"}}});
    let body = body.to_string();
    let good = waiting.read(201, body.as_bytes());
    let user = Arc::new(UpstreamUser::new(UserInfo { name: "alice".into(), ..UserInfo::default() }).unwrap());
    let until = now().as_secs() + 600;
    let end = TokenEnd { until, expires: until };
    let verified = caches.insert_verified(waiting.key(), (user, 1), end, moment(Duration::ZERO)).unwrap();
    let check = Review::of_revocation(b"t", &verified, &reviewer(), &caches);
    let share = |review: &Review, result: &ReviewResult| {
        state.share_answer(review, result, body.as_bytes(), Duration::ZERO);
        state.find_answer(&waiting)
    };
    assert!(!share(&check, &good) && !share(&check, &ReviewResult::Rejected));
    assert!(share(&waiting, &good) && share(&check, &good), "what a request has waited for is");
    assert!(!share(&check, &ReviewResult::Rejected), "and is believed no more");
}

/// An owner who could compute them would choose names whose rows crowd out those of others.
#[test]
fn rows_of_the_same_words_differ_by_the_secret() {
    let of =
        |secret: u8, words: &[&[u8]]| super::table::row_id(&hmac::Key::new(hmac::HMAC_SHA256, &[secret; 32]), words);
    let ids = [of(1, &[b"a", b"bc"]), of(1, &[b"ab", b"c"]), of(2, &[b"a", b"bc"])];
    assert!(ids[0] != ids[1] && ids[0] != ids[2], "{ids:?}");
    assert_eq!(ids[0], of(1, &[b"a", b"bc"]));
}
