//! Brings rules into the processor's cache.

use std::hint::black_box;

use portcullis_filter_config::Rule;

/// Number of rules that are fetched at once: their texts fit into the cache that is nearest.
pub(super) const FETCHED: usize = 16;

/// Reads a byte of each text of rules. Compilation reads them one after the other, with much to do in between, and would wait for
/// the memory of each. Here no read needs what another one has found, so that the processor waits for many at once.
pub(super) fn fetch<'c>(rules: impl Iterator<Item = &'c Rule>) {
    let sum = rules.fold(0, |sum, rule| {
        let lists = [
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
        lists.into_iter().flatten().fold(sum, |sum, text| sum ^ text.as_bytes().first().copied().unwrap_or(0))
    });
    // Otherwise the compiler leaves out what nothing uses.
    black_box(sum);
}
