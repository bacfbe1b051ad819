use std::collections::HashMap;
use std::sync::Arc;

use portcullis_api::PolicyKind;
use portcullis_attach::PolicyObject;
use portcullis_sources::{GatewayApiObjects, WatchedKind};
use serde_json::Value;

/// Policies that were read, by their documents: one that has not changed is not read again.
#[derive(Default)]
pub(super) struct ReadPolicies {
    /// By the addresses of the documents, which are kept alive here.
    by_document: HashMap<usize, (Arc<Value>, Arc<PolicyObject>)>,
}

impl ReadPolicies {
    /// All policies, by kind. Those that are not among them are forgotten.
    pub(super) fn read(&mut self, policies: &GatewayApiObjects) -> Vec<Arc<PolicyObject>> {
        let mut known = std::mem::take(&mut self.by_document);
        let mut read = Vec::new();
        for kind in PolicyKind::ALL {
            for document in policies.of(WatchedKind::Policy(kind)) {
                let address = Arc::as_ptr(document).addr();
                let (_, policy) = known
                    .remove(&address)
                    .unwrap_or_else(|| (Arc::clone(document), Arc::new(PolicyObject::read(kind, document))));
                read.push(Arc::clone(&policy));
                self.by_document.insert(address, (Arc::clone(document), policy));
            }
        }
        read
    }
}
