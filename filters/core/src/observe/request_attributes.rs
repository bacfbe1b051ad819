use portcullis_filter_config::names::request::{
    API_GROUP, API_VERSION, CLASS, Field, IS_RESOURCE, NAME, NAMESPACE, RESOURCE, SUBRESOURCE, USER, VERB,
};

use crate::header_scan::HeaderScan;
use crate::request::class_of;
use crate::request_info::RequestInfo;

/// The most characters of a value: no name of Kubernetes' has more.
pub(crate) const MAX_VALUE_CHARS: usize = 253;

/// The attributes of a request that are exported to other filters, routes and logs.
///
/// Values are texts of one line, and a value that was changed or cut to be one equals no name of Kubernetes'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestAttributes(Vec<(Field, String)>);

impl RequestAttributes {
    pub(super) fn of(info: &RequestInfo<'_>, scan: &HeaderScan<'_>, user: Option<&str>) -> Self {
        let mut shown = Vec::with_capacity(10);
        let mut say = |field: Field, value: &[u8]| shown.push((field, line(value, MAX_VALUE_CHARS)));
        say(IS_RESOURCE, if info.is_resource { b"true" } else { b"false" });
        say(VERB, &info.verb);
        say(CLASS, class_of(info, scan).as_str().as_bytes());
        if info.is_resource {
            // Empty ones as well: without a subresource is something to ask for, too.
            say(API_GROUP, info.api_group);
            say(API_VERSION, info.api_version);
            say(RESOURCE, info.resource);
            say(SUBRESOURCE, info.subresource);
            say(NAMESPACE, info.namespace);
            say(NAME, &info.name);
        }
        if let Some(user) = user {
            say(USER, user.as_bytes());
        }
        RequestAttributes(shown)
    }

    /// Fields with their values.
    pub fn fields(&self) -> impl Iterator<Item = (Field, &str)> {
        self.0.iter().map(|(field, value)| (*field, value.as_str()))
    }
}

/// Text of at most `most` characters. Bytes that are not text, or would break the line of a log, become U+FFFD; `…` marks a cut.
pub(super) fn line(value: &[u8], most: usize) -> String {
    if value.len() <= most && value.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return String::from_utf8_lossy(value).into_owned();
    }
    let mut line = String::with_capacity(value.len().min(most));
    let text = value.utf8_chunks().flat_map(|chunk| {
        chunk.valid().chars().chain((!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER))
    });
    for (number, character) in text.enumerate() {
        if number == most {
            line.push('…');
            break;
        }
        let breaks = character.is_control() || matches!(character, '\u{2028}' | '\u{2029}');
        line.push(if breaks { char::REPLACEMENT_CHARACTER } else { character });
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(value: &[u8]) -> String {
        line(value, MAX_VALUE_CHARS)
    }

    #[test]
    fn value_is_shown_as_it_is_or_as_no_name() {
        for plain in ["", "pods", "system:node:a", "größe", "a\"b"] {
            assert_eq!(text(plain.as_bytes()), plain);
        }
        for (odd, expected) in [
            (&b"a\nb"[..], "a\u{fffd}b"),
            (b"a\0", "a\u{fffd}"),
            (b"\xff\xfe", "\u{fffd}\u{fffd}"),
            ("\u{85}\u{2028}".as_bytes(), "\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(text(odd), expected);
        }
        let name = "n".repeat(MAX_VALUE_CHARS);
        assert_eq!(text(name.as_bytes()), name);
        assert_eq!(text(format!("{name}n").as_bytes()), format!("{name}…"));
    }

    proptest! {
        #[test]
        fn attributes_stay_on_their_line(value: Vec<u8>) {
            let shown = text(&value);
            prop_assert!(!shown.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')), "{shown:?}");
            prop_assert!(shown.chars().count() <= MAX_VALUE_CHARS + 1);
        }
    }
}
