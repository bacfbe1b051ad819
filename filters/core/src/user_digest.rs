//! Digests of users, by which questions about them are named.

use ring::digest::{SHA256, digest};

use crate::identity::{Extra, UserInfo};

/// The SHA-256 of everything that a user is: other users have other ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserDigest([u8; 32]);

impl UserDigest {
    pub(crate) fn of(user: &UserInfo) -> Self {
        let mut texts = Vec::with_capacity(user.size().saturating_mul(2));
        let UserInfo { name, uid, groups, extra } = user;
        push_text(&mut texts, name);
        push_text(&mut texts, uid);
        push_texts(&mut texts, groups);
        push_length(&mut texts, extra.len());
        for Extra { key, values } in extra {
            push_text(&mut texts, key);
            push_texts(&mut texts, values);
        }
        let mut of_texts = [0; 32];
        of_texts.copy_from_slice(digest(&SHA256, &texts).as_ref());
        UserDigest(of_texts)
    }

    pub(crate) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Adds a text with its length before it, so that texts in a row can be taken apart in one way only.
pub(crate) fn push_text(to: &mut Vec<u8>, text: &str) {
    push_length(to, text.len());
    to.extend_from_slice(text.as_bytes());
}

fn push_texts(to: &mut Vec<u8>, texts: &[String]) {
    push_length(to, texts.len());
    texts.iter().for_each(|text| push_text(to, text));
}

/// No text of a request or of an answer has as many bytes as this can count.
fn push_length(to: &mut Vec<u8>, length: usize) {
    to.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[ab]{0,2}", 0..3)
    }

    fn users() -> impl Strategy<Value = UserInfo> {
        let extra = ("[ab]{0,2}", texts()).prop_map(|(key, values)| Extra { key, values });
        let extra = proptest::collection::vec(extra, 0..3);
        let all = ("[ab]{0,2}", "[ab]{0,2}", texts(), extra);
        all.prop_map(|(name, uid, groups, extra)| UserInfo { name, uid, groups, extra })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]
        #[test]
        fn users_have_equal_digests_if_they_are_equal(one in users(), other in users()) {
            prop_assert_eq!(UserDigest::of(&one), UserDigest::of(&one.clone()));
            prop_assert_eq!(UserDigest::of(&one) == UserDigest::of(&other), one == other);
        }
    }

    /// The same letters in the same order, with other borders between them.
    #[test]
    fn text_that_moves_to_another_field_changes_the_digest() {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let extra = |key: &str, values: &[&str]| vec![Extra { key: key.to_owned(), values: list(values) }];
        let user = |name: &str, uid: &str, groups: &[&str], extra: &[Extra]| {
            UserDigest::of(&UserInfo {
                name: name.into(),
                uid: uid.into(),
                groups: list(groups),
                extra: extra.to_vec(),
            })
        };
        let digests = [
            user("abc", "", &[], &[]),
            user("ab", "c", &[], &[]),
            user("ab", "", &["c"], &[]),
            user("a", "", &["bc"], &[]),
            user("a", "", &["b", "c"], &[]),
            user("a", "", &["bc", ""], &[]),
            user("a", "", &[], &extra("bc", &[])),
            user("a", "", &[], &extra("b", &["c"])),
            user("a", "", &[], &extra("", &["b", "c"])),
            user("a", "", &[], &[extra("b", &[]), extra("c", &[])].concat()),
            user("a", "", &["b"], &extra("c", &[])),
        ];
        for (index, digest) in digests.iter().enumerate() {
            assert!(!digests.iter().skip(index + 1).any(|later| later == digest), "{index}");
        }
    }
}
