use std::sync::Arc;

use portcullis_api::{
    AttachablePolicy, MergeStrategy, PolicyKind, PolicyTarget, check_policy, targets_of, without_nulls,
};
use portcullis_gateway_api::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use crate::name::ObjectName;

/// A policy as it was read, good or not.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyObject {
    /// Its kind.
    pub kind: PolicyKind,
    /// Name, namespace and age.
    pub metadata: ObjectMeta,
    /// `metadata.uid`, if the source gives one.
    pub uid: Option<String>,
    /// Its targets, as far as they can be read.
    pub targets: Vec<PolicyTarget>,
    /// Its place among others, as far as that can be read.
    pub strategy: MergeStrategy,
    /// Its fields, or every problem of the policy.
    pub checked: Result<Arc<Value>, Vec<portcullis_api::Problem>>,
    /// Accepted fields that may not do what their author expects.
    pub warnings: Vec<portcullis_api::Problem>,
}

impl PolicyObject {
    /// Reads a document of a kind.
    pub fn read(kind: PolicyKind, document: &Value) -> Self {
        let metadata = document.get("metadata").map(without_nulls).unwrap_or_default();
        let uid = metadata.get("uid").and_then(Value::as_str).map(str::to_owned);
        let has_defaults = document.pointer("/spec/defaults").is_some_and(|fields| !fields.is_null());
        let has_overrides = document.pointer("/spec/overrides").is_some_and(|fields| !fields.is_null());
        let checked = check_policy(kind, document);
        Self {
            kind,
            metadata: ObjectMeta::deserialize(metadata).unwrap_or_default(),
            uid,
            targets: targets_of(document),
            // In doubt it counts as the one that refuses more if it is wrong.
            strategy: match has_defaults && !has_overrides {
                true => MergeStrategy::Defaults,
                false => MergeStrategy::Overrides,
            },
            checked: checked.outcome.map(|AttachablePolicy { fields, .. }| Arc::new(fields)),
            warnings: checked.warnings,
        }
    }

    /// Its name.
    pub fn name(&self) -> ObjectName {
        ObjectName::of(&self.metadata)
    }

    /// Every problem in one line; `None` if it is good.
    pub(super) fn refusal(&self) -> Option<String> {
        let problems = self.checked.as_ref().err()?;
        Some(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }
}
