use portcullis_core::StateStore;
use portcullis_core::bucket::Rate;
use portcullis_core::exchange::HeaderLines;
use portcullis_core::review::{MIN_TRUST_SECS, ReviewResult};
use serde_json::json;
use std::time::Duration;

use super::host::Fake;
use crate::header_map::{self, OwnedHeaders};
use crate::memory::VmMemory;
use crate::shared_reviews;

#[test]
fn permits_of_a_removed_vm_are_released_after_a_while() {
    let host = Fake::default();
    let open = || VmMemory::open(&host).unwrap();
    let (one, two) = (open(), open());
    let (here, there) = (one.in_flight("c", "s"), two.in_flight("c", "s"));
    let first = here.acquire(3).unwrap();
    let second = there.acquire(3).unwrap();
    let third = here.acquire(3).unwrap();
    assert!(here.acquire(3).is_none() && there.acquire(3).is_none());
    assert_eq!((here.count(), there.count()), (2, 1), "each tells its own");
    assert!(two.in_flight("c", "other").acquire(1).is_some());
    drop(first);
    let fourth = there.acquire(3).unwrap();
    assert!(here.acquire(3).is_none());
    // The second VM panics and gives nothing back.
    std::mem::forget((second, fourth));
    for _ in 0..6 {
        host.state().seconds += 4;
        assert!(one.renew());
    }
    let (fifth, sixth) = (here.acquire(3).unwrap(), here.acquire(3).unwrap());
    assert!(here.acquire(3).is_none(), "what is held and renewed stays");
    drop((third, fifth, sixth));
    assert!(!one.renew());
}

#[test]
fn bucket_is_one_for_all_vms() {
    let host = Fake::default();
    let (one, two) = (VmMemory::open(&host).unwrap(), VmMemory::open(&host).unwrap());
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
fn maps_survive_the_abi_and_what_is_cut_is_none() {
    let lines = [(":path", "/"), ("empty", ""), ("a", "b")];
    let bytes = header_map::write(&lines);
    let expected: Vec<_> = lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    assert_eq!(OwnedHeaders::read(bytes.clone()).unwrap().lines().collect::<Vec<_>>(), expected);
    for length in 1..bytes.len() {
        assert!(OwnedHeaders::read(bytes[..length].to_vec()).is_none(), "{length}");
    }
    let huge = [&u32::MAX.to_le_bytes()[..], &[0; 8]].concat();
    assert!(OwnedHeaders::read(huge.to_vec()).is_none());
}

#[test]
fn doubted_answer_is_shared_no_longer() {
    let host = Fake::default();
    let (key, other) = ([1; 32], [1; 32].map(|byte: u8| byte + 1));
    let answer = |authenticated: bool| json!({"kind": "TokenReview", "status": {"authenticated": authenticated}});
    let put = |is_good: bool, at: u64| {
        let result = if is_good { ReviewResult::Allowed } else { ReviewResult::Rejected };
        shared_reviews::put(&host, &key, &result, answer(is_good).to_string().as_bytes(), at);
    };
    let found =
        || shared_reviews::find(&host, &key).map(|(body, at)| (body == answer(true).to_string().as_bytes(), at));
    put(true, 100);
    shared_reviews::invalidate_if_older(&host, &other, 200);
    shared_reviews::invalidate_if_older(&host, &key, 100 + MIN_TRUST_SECS - 1);
    assert_eq!(found(), Some((true, 100)), "it came just now, or is about another token");
    shared_reviews::invalidate_if_older(&host, &key, 100 + MIN_TRUST_SECS);
    assert_eq!(found(), None);
    put(true, 200);
    put(false, 201);
    assert_eq!(found(), Some((false, 201)));
}
