use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, with_policies};
use serde_json::Value;

use crate::policies::name_of;

/// Documents with their policies. One whose object and policies are what they were is the same one, so that nothing behind takes it for
/// an edit.
#[derive(Default)]
pub(super) struct MergedDocuments {
    by_name: BTreeMap<String, MergedDocument>,
}

struct MergedDocument {
    own: Arc<Value>,
    policies: Vec<PolicyInEffect>,
    merged: Arc<Value>,
}

impl MergedDocuments {
    /// The documents of all objects, in their order. Those that are not among them are forgotten.
    pub(super) fn merged(
        &mut self,
        clusters: &[Arc<Value>],
        in_effect: &BTreeMap<String, Vec<PolicyInEffect>>,
    ) -> Vec<Arc<Value>> {
        let mut known = std::mem::take(&mut self.by_name);
        let document = |own: &Arc<Value>| {
            let name = name_of(own);
            let Some(policies) = in_effect.get(name) else { return with_policies(own, &[]) };
            let same = known.remove(name).filter(|one| Arc::ptr_eq(&one.own, own) && one.policies == *policies);
            let one = same.unwrap_or_else(|| MergedDocument {
                own: Arc::clone(own),
                policies: policies.clone(),
                merged: with_policies(own, policies),
            });
            let merged = Arc::clone(&one.merged);
            self.by_name.insert(name.to_owned(), one);
            merged
        };
        clusters.iter().map(document).collect()
    }
}
