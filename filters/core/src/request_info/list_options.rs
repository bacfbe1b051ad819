use std::borrow::Cow;

use super::escape::unescape_query;
use super::{field_selector, label_selector};

/// What of a list's options bears on the verb and the name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListOptions<'a> {
    pub(super) watch: bool,
    /// The name that the field selector requires, if all options decode.
    pub(super) required_name: Option<Cow<'a, [u8]>>,
}

/// Reads the options from a raw query. Where kube-apiserver could not decode them, it still honours `watch` and narrows
/// nothing.
pub(super) fn read(query: &[u8]) -> ListOptions<'_> {
    let mut watch = None;
    let mut field_selector = None;
    let mut label_selector = None;
    let mut decodes = true;
    let mut limit_seen = false;
    let mut timeout_seen = false;
    for (key, value) in pairs(query) {
        match &*key {
            b"watch" if watch.is_none() => watch = Some(is_true(&value)),
            b"fieldSelector" if field_selector.is_none() => field_selector = Some(value),
            b"labelSelector" if label_selector.is_none() => label_selector = Some(value),
            b"limit" if !std::mem::replace(&mut limit_seen, true) => decodes &= is_int64(&value),
            b"timeoutSeconds" if !std::mem::replace(&mut timeout_seen, true) => decodes &= is_int64(&value),
            _ => {}
        }
    }
    decodes &= label_selector.is_none_or(|selector| label_selector::is_valid(&selector));
    let required_name = field_selector
        .and_then(|selector| field_selector::required_name(&selector))
        .filter(|name| decodes && is_path_segment(name))
        .map(Cow::Owned);
    ListOptions { watch: watch.unwrap_or(false), required_name }
}

/// The first field selector and the first label selector, decoded, but not read.
pub(super) fn selectors(query: &[u8]) -> (Cow<'_, [u8]>, Cow<'_, [u8]>) {
    let first =
        |wanted: &[u8]| pairs(query).find(|(key, _)| **key == *wanted).map(|(_, value)| value).unwrap_or_default();
    (first(b"fieldSelector"), first(b"labelSelector"))
}

/// Key and value of every pair that Go's `url.ParseQuery` keeps: one with a raw semicolon or a bad escape is dropped.
fn pairs(query: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty() && !pair.contains(&b';')).filter_map(|pair| {
        let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (key, value) = pair.split_at(end);
        Some((unescape_query(key).ok()?, unescape_query(value.get(1..).unwrap_or_default()).ok()?))
    })
}

/// Only `0` and any spelling of `false` are false (apimachinery, `conversion.go`); a bare `?watch` is true.
fn is_true(value: &[u8]) -> bool {
    value != b"0" && !value.eq_ignore_ascii_case(b"false")
}

fn is_int64(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|text| text.parse::<i64>().is_ok())
}

/// A name that can stand in a path (apimachinery, `path.IsValidPathSegmentName`).
fn is_path_segment(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| matches!(byte, b'/' | b'%'))
}
