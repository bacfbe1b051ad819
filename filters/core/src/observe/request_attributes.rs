use std::ops::Range;

use portcullis_filter_config::names::request::{
    API_GROUP, API_VERSION, CLASS, Field, IS_RESOURCE, NAME, NAMESPACE, RESOURCE, SUBRESOURCE, USER, VERB,
};
use portcullis_filter_config::{RequestInfoExport, RequestInfoField as Asked};

use crate::header_scan::HeaderScan;
use crate::request::class_of;
use crate::request_info::RequestInfo;

/// The most characters of a value: no name of Kubernetes' has more.
pub(crate) const MAX_VALUE_CHARS: usize = 253;

/// All fields.
const MOST: usize = 10;

/// The attributes of a request that are exported to other filters, routes and logs.
///
/// Values are texts of one line, and a value that was changed or cut to be one equals no name of Kubernetes'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAttributes {
    /// Fields, each with the place of its value in the text.
    fields: [Option<(Field, Range<usize>)>; MOST],
    text: String,
    /// Whether they are dynamic metadata as well.
    pub are_metadata: bool,
}

impl RequestAttributes {
    pub(super) fn of(
        info: &RequestInfo<'_>,
        scan: &HeaderScan<'_>,
        user: Option<&str>,
        export: &RequestInfoExport,
    ) -> Self {
        let mut shown = RequestAttributes {
            fields: [const { None }; MOST],
            text: String::with_capacity(128),
            are_metadata: export.metadata,
        };
        let mut say = |asked: Asked, field: Field, value: &[u8]| {
            if export.has(asked) {
                shown.say(field, value);
            }
        };
        say(Asked::IsResourceRequest, IS_RESOURCE, if info.is_resource { b"true" } else { b"false" });
        say(Asked::Verb, VERB, &info.verb);
        say(Asked::Class, CLASS, class_of(info, scan).as_str().as_bytes());
        if info.is_resource {
            // Empty ones as well: without a subresource is something to ask for, too.
            say(Asked::ApiGroup, API_GROUP, info.api_group);
            say(Asked::ApiVersion, API_VERSION, info.api_version);
            say(Asked::Resource, RESOURCE, info.resource);
            say(Asked::Subresource, SUBRESOURCE, info.subresource);
            say(Asked::Namespace, NAMESPACE, info.namespace);
            say(Asked::Name, NAME, &info.name);
        }
        if let Some(user) = user {
            shown.say(USER, user.as_bytes());
        }
        shown
    }

    fn say(&mut self, field: Field, value: &[u8]) {
        let start = self.text.len();
        push_line(&mut self.text, value, MAX_VALUE_CHARS);
        if let Some(place) = self.fields.iter_mut().find(|place| place.is_none()) {
            *place = Some((field, start..self.text.len()));
        }
    }

    /// Fields with their values.
    pub fn fields(&self) -> impl Iterator<Item = (Field, &str)> {
        self.fields.iter().flatten().map(|(field, place)| (*field, self.text.get(place.clone()).unwrap_or_default()))
    }
}

/// Text of at most `most` characters. Bytes that are not text, or would break the line of a log, become U+FFFD; `…` marks a cut.
pub(super) fn line(value: &[u8], most: usize) -> String {
    let mut line = String::with_capacity(value.len().min(most));
    push_line(&mut line, value, most);
    line
}

fn push_line(line: &mut String, value: &[u8], most: usize) {
    if value.len() <= most
        && value.iter().all(|byte| matches!(byte, b' '..=b'~'))
        && let Ok(plain) = std::str::from_utf8(value)
    {
        line.push_str(plain);
        return;
    }
    let text = value.utf8_chunks().flat_map(|chunk| {
        chunk.valid().chars().chain((!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER))
    });
    for (number, character) in text.enumerate() {
        if number == most {
            line.push('…');
            return;
        }
        let breaks = character.is_control() || matches!(character, '\u{2028}' | '\u{2029}');
        line.push(if breaks { char::REPLACEMENT_CHARACTER } else { character });
    }
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
