use std::borrow::Cow;

use super::escape::unescape_query;
use super::field_selector::InvalidSelector;
use super::{field_selector, label_selector};
use crate::go_strings::equal_fold;

/// The options of a list that bear on the verb and the name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListOptions<'a> {
    pub(super) watch: bool,
    /// The name that the field selector requires, if all options decode.
    pub(super) required_name: Option<Cow<'a, [u8]>>,
}

/// Reads the options from a raw query. If kube-apiserver could not decode them, it still honours `watch` and narrows nothing.
pub(super) fn read(query: &[u8]) -> ListOptions<'_> {
    let mut watch = None;
    let mut field_selector = None;
    let mut label_selector = None;
    let mut decodes = true;
    let mut limit_seen = false;
    let mut timeout_seen = false;
    for (key, value) in pairs(query) {
        match &*key {
            b"watch" if watch.is_none() => watch = Some(value),
            b"fieldSelector" if field_selector.is_none() => field_selector = Some(value),
            b"labelSelector" if label_selector.is_none() => label_selector = Some(value),
            b"limit" if !std::mem::replace(&mut limit_seen, true) => decodes &= is_int64(&value),
            b"timeoutSeconds" if !std::mem::replace(&mut timeout_seen, true) => decodes &= is_int64(&value),
            _ => {}
        }
    }
    decodes &= label_selector.is_none_or(|selector| label_selector::is_valid(&selector));
    let mut required_name = None;
    if let Some(selector) = field_selector {
        match field_selector::required_name(&selector) {
            Ok(name) => required_name = name.filter(|name| decodes && is_path_segment(name)).map(Cow::Owned),
            Err(InvalidSelector) => decodes = false,
        }
    }
    ListOptions { watch: watch.is_some_and(|value| is_true(&value, decodes)), required_name }
}

/// The selectors of a query as they are written, percent-decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors<'a> {
    /// The first `fieldSelector`.
    pub field: Option<Cow<'a, [u8]>>,
    /// The first `labelSelector`.
    pub label: Option<Cow<'a, [u8]>>,
}

/// The number of objects to which a list confines the server: `None` if it may look at all of them, because there is no `limit`, or a
/// selector, or the list comes from the watch cache.
pub(crate) fn limit(query: &[u8]) -> Option<u64> {
    let mut limit = None;
    let mut is_confined = true;
    for (key, value) in pairs(query) {
        match &*key {
            b"limit" if limit.is_none() => limit = Some(value),
            b"fieldSelector" | b"labelSelector" => is_confined &= value.is_empty(),
            b"resourceVersion" => is_confined &= *value != *b"0",
            _ => {}
        }
    }
    let limit = std::str::from_utf8(&limit?).ok()?.parse().ok()?;
    (is_confined && limit > 0).then_some(limit)
}

/// Whether a list by name is read by that name alone: it goes on with no earlier one, and is not from the watch cache.
pub(crate) fn reads_one(query: &[u8]) -> bool {
    pairs(query).all(|(key, value)| match &*key {
        b"continue" => value.is_empty(),
        b"resourceVersion" => *value != *b"0",
        _ => true,
    })
}

/// Whether a watch begins with all objects: without a version to begin from, or by `sendInitialEvents` (KEP-3157).
pub(crate) fn begins_with_all(query: &[u8]) -> bool {
    let version = pairs(query).find(|(key, _)| **key == *b"resourceVersion").map(|(_, version)| version);
    let asks = pairs(query).any(|(key, value)| *key == *b"sendInitialEvents" && is_true(&value, true));
    asks || version.is_none_or(|version| matches!(&*version, b"" | b"0"))
}

pub(super) fn selectors(query: &[u8]) -> Selectors<'_> {
    let mut found = Selectors::default();
    for (key, value) in pairs(query) {
        match &*key {
            b"fieldSelector" if found.field.is_none() => found.field = Some(value),
            b"labelSelector" if found.label.is_none() => found.label = Some(value),
            _ => {}
        }
    }
    found
}

/// Key and value of every pair that Go's `url.ParseQuery` keeps: one with a raw semicolon or a bad escape is dropped, and
/// of a query with too many nothing is kept.
fn pairs(query: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    let query = if has_too_many_parameters(query) { &[] } else { query };
    query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty() && !pair.contains(&b';')).filter_map(|pair| {
        let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (key, value) = pair.split_at(end);
        Some((unescape_query(key).ok()?, unescape_query(value.get(1..).unwrap_or_default()).ok()?))
    })
}

/// Parameters that Go 1.26 reads, empty ones counted.
const MAX_PARAMETERS: usize = 10_000;

/// Whether Go drops the whole query (`net/url`, `urlmaxqueryparams`).
pub(super) fn has_too_many_parameters(query: &[u8]) -> bool {
    query.len() >= MAX_PARAMETERS && query.iter().filter(|byte| **byte == b'&').count() >= MAX_PARAMETERS
}

/// Only `0` and any spelling of `false` are false (apimachinery, `conversion.go`); a bare `?watch` is true. Decoding
/// compares by Unicode's folding, where the long s is an s; where the options do not decode, kube-apiserver lowers the
/// text instead, and the long s stays what it is.
fn is_true(value: &[u8], decodes: bool) -> bool {
    let is_false = if decodes { equal_fold(value, b"false") } else { value.eq_ignore_ascii_case(b"false") };
    value != b"0" && !is_false
}

fn is_int64(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|text| text.parse::<i64>().is_ok())
}

/// A name that is possible in a path (apimachinery, `path.IsValidPathSegmentName`).
fn is_path_segment(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| matches!(byte, b'/' | b'%'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_confined_by_a_plain_limit_alone() {
        let rows: [(&[u8], Option<u64>); 14] = [
            (b"", None),
            (b"limit=500", Some(500)),
            (b"limit=0", None),
            (b"limit=-1", None),
            (b"limit=x", None),
            (b"limit=7&limit=9", Some(7)),
            (b"%6cimit=100000&limit=1", Some(100_000)),
            (b"limit=1;x&limit=2", Some(2)),
            (b"limit=1&resourceVersion=0", None),
            (b"limit=1&resourceVersion=12", Some(1)),
            (b"limit=1&labelSelector=a%3Dnever", None),
            (b"limit=1&fieldSelector=spec.nodeName%3Dn", None),
            (b"limit=1&labelSelector=", Some(1)),
            (b"continue=x&limit=5", Some(5)),
        ];
        for (query, expected) in rows {
            assert_eq!(limit(query), expected, "{}", String::from_utf8_lossy(query));
        }
        let begins: [&[u8]; 4] = [
            b"watch=1&resourceVersion=7&sendInitialEvents=true&allowWatchBookmarks=true",
            b"watch=1",
            b"watch=1&resourceVersion=0",
            b"watch=1&resourceVersion=",
        ];
        assert!(begins.into_iter().all(begins_with_all));
        assert!(!begins_with_all(b"watch=1&resourceVersion=7&sendInitialEvents=false"));
        assert!(!begins_with_all(b"watch=1&resourceVersion=%37"));
        assert!(reads_one(b"fieldSelector=metadata.name%3Da&limit=1") && reads_one(b"continue="));
        assert!(!reads_one(b"continue=x") && !reads_one(b"resourceVersion=0"));
    }
}
