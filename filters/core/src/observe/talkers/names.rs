//! Names as they are kept and shown: short, and without characters that no name has. Different texts that become one name count
//! together.

use std::borrow::Cow;

/// Bytes of a user's or group's name.
const MAX_NAME: usize = 256;
/// Bytes of a user agent.
const MAX_AGENT: usize = 96;

/// The name of a user or group.
pub(super) fn user_name(name: &str) -> Cow<'_, str> {
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    shown(Cow::Borrowed(name.get(..end).unwrap_or_default()))
}

/// The part of the header `User-Agent` that is counted: the first word, `kubectl/v1.36.3` of kubectl's.
pub(super) fn first_word(value: &[u8]) -> &[u8] {
    let value = value.get(..MAX_AGENT).unwrap_or(value);
    value.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default()
}

/// The name of a [`first_word`].
pub(super) fn agent_name(word: &[u8]) -> Cow<'_, str> {
    if word.is_empty() { Cow::Borrowed("-") } else { shown(String::from_utf8_lossy(word)) }
}

fn shown(name: Cow<'_, str>) -> Cow<'_, str> {
    if name.chars().any(char::is_control) {
        return Cow::Owned(
            name.chars().map(|one| if one.is_control() { char::REPLACEMENT_CHARACTER } else { one }).collect(),
        );
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_without_control_characters() {
        let agent = |value: &str| agent_name(first_word(value.as_bytes())).into_owned();
        assert_eq!(agent("kubectl/v1.36.3 (linux/amd64) kubernetes/abc"), "kubectl/v1.36.3");
        assert_eq!([agent(""), agent(" x"), agent("x\ty")], ["-", "-", "x"]);
        assert_eq!(agent(&"a".repeat(1_000)).len(), MAX_AGENT);
        assert_eq!(agent_name(b"a\xff\x01b"), "a\u{fffd}\u{fffd}b");
        assert_eq!(user_name("a\nb\u{9b}"), "a\u{fffd}b\u{fffd}");
        assert_eq!(user_name(&"ü".repeat(1_000)).len(), MAX_NAME);
        assert_eq!(user_name(&format!("x{}", "ü".repeat(1_000))).len(), MAX_NAME - 1);
        assert!(matches!(user_name("system:serviceaccount:a:b"), Cow::Borrowed(_)));
    }
}
