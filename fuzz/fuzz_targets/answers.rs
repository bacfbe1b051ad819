//! An upstream's answers to reviews: only a plain yes authenticates a user.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use portcullis_core::Decision;
use portcullis_core::review::{Review, ReviewAnswers, ReviewResult};
use portcullis_fuzz::{NOW, age, cluster, gateway, judge};
use serde_json::Value;

static REVIEWS: LazyLock<[Vec<Review>; 2]> = LazyLock::new(|| [reviews(false), reviews(true)]);

fn reviews(token: bool) -> Vec<Review> {
    let (gateway, cluster) = (gateway(), cluster());
    let headers: &[(&[u8], &[u8])] =
        if token { &[(b"authorization", b"Bearer t")] } else { &[(b"impersonate-user", b"u")] };
    judge(&gateway, &cluster, headers, &ReviewAnswers::default(), NOW, |decision| match decision {
        Decision::Review(reviews) => reviews,
        other => panic!("{other:?}"),
    })
}

fuzz_target!(|data: &[u8]| {
    for token in [true, false] {
        for review in &REVIEWS[usize::from(token)] {
            assert_eq!(review.accept_answer(200, data, age(NOW)), ReviewResult::Failed, "only 201 is an answer");
            let result = review.accept_answer(201, data, age(NOW));
            let said: Option<Value> = match serde_json::from_slice(data) {
                // Go ignores unused numbers of any size, and so does the filter, but not this witness.
                Err(error) if error.to_string().contains("number out of range") => return,
                said => said.ok(),
            };
            let said = |pointer: &str| said.as_ref().and_then(|said| said.pointer(pointer));
            match &result {
                ReviewResult::User(user) => {
                    assert!(token);
                    assert_eq!(said("/kind"), Some(&Value::from("TokenReview")));
                    assert_eq!(said("/status/authenticated"), Some(&Value::from(true)));
                    assert_eq!(said("/status/user/username"), Some(&Value::from(user.user().name.as_str())));
                    assert!(!user.user().name.is_empty());
                    for (name, value) in user.header_lines() {
                        assert!(name.starts_with("impersonate-") && name.bytes().all(|byte| byte.is_ascii_graphic()));
                        assert!(!value.is_empty() && value.trim_matches([' ', '\t']) == value);
                        assert!(!value.bytes().any(|byte| byte < 0x20 || byte == 0x7f));
                    }
                    let told: Vec<&str> = said("/status/user/groups")
                        .and_then(Value::as_array)
                        .map(|groups| groups.iter().filter_map(Value::as_str).collect())
                        .unwrap_or_default();
                    assert!(
                        user.user()
                            .groups
                            .iter()
                            .all(|group| told.contains(&&**group) || group == "system:authenticated")
                    );
                }
                ReviewResult::Allowed => {
                    assert!(!token);
                    assert_eq!(said("/kind"), Some(&Value::from("SubjectAccessReview")));
                    assert_eq!(said("/status/allowed"), Some(&Value::from(true)));
                    assert_ne!(said("/status/denied"), Some(&Value::from(true)));
                }
                ReviewResult::Rejected => assert!(token),
                ReviewResult::Denied => assert!(!token),
                ReviewResult::Verified(_) => panic!("an answer is no key"),
                ReviewResult::Failed => {}
            }
        }
    }
});
