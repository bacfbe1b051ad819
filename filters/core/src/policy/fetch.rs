//! Brings rules into the processor's cache.

use std::hint::black_box;

use portcullis_filter_config::Rule;

/// Number of rules that are fetched at once: their texts fit into the cache that is nearest.
pub(super) const FETCHED: usize = 16;

/// Reads a little of each text of rules. Compilation reads them one after the other, with much to do in between: it would wait
/// for the memory of each. Here no read needs what another one has found, so that the processor waits for many at once.
pub(super) fn fetch<'c>(rules: impl Iterator<Item = &'c Rule>) {
    let mut all = [const { &[] as &[String] }; FETCHED * 9];
    let mut len = 0;
    for (lists, rule) in all.as_chunks_mut::<9>().0.iter_mut().zip(rules) {
        *lists = [
            &rule.verbs,
            &rule.api_groups,
            &rule.api_versions,
            &rule.resources,
            &rule.resource_names,
            &rule.namespaces,
            &rule.users,
            &rule.user_groups,
            &rule.non_resource_urls,
        ];
        len += 9;
    }
    let lists = all.get(..len).unwrap_or_default();
    black_box(lists.iter().fold(0, |sum, list| sum ^ list.first().map_or(0, String::len)));
    let texts = lists.iter().copied().flatten();
    black_box(texts.fold(0, |sum, text| sum ^ text.as_bytes().first().copied().unwrap_or(0)));
}
