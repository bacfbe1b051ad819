//! `docs/reference/policies.md`, written from the code.

use std::fmt::Write;

use serde_json::Value;

use super::rows;
use crate::kind::PolicyKind;

const HEAD: &str = "# Policies

<!-- Written by a test from control-plane/api/src/types/attached.rs and control-plane/api/src/schema. -->

`apiVersion: portcullis.dev/v1alpha1`, in namespaces. [Policies](../policies.md) has the rules by which they attach. `defaults` and `overrides` \
have the same fields, listed here once; these are those of an [UpstreamCluster](upstreamcluster.md), which has their defaults and the fields below them.
";

const TABLE: &str = "
| field | type | default | meaning |
|---|---|---|---|
";

#[test]
fn reference_of_policies_says_what_the_code_does() {
    let mut page = HEAD.to_owned();
    for kind in PolicyKind::ALL {
        write!(page, "\n## {kind}\n{TABLE}").unwrap();
        let mut spec = super::super::policies::policy_spec(kind);
        // The same fields, and below each of them those of the cluster's page.
        let overrides = spec.pointer_mut("/properties/overrides").unwrap();
        for (_, field) in overrides["properties"].as_object_mut().unwrap() {
            *field = without_fields(field);
        }
        spec["properties"]["defaults"]["properties"] = Value::Null;
        rows(&spec, "spec", &[], &mut page);
    }
    write!(page, "\n## Status\n{TABLE}").unwrap();
    rows(&super::super::status::policy_status(), "status", &[], &mut page);
    portcullis_generated_docs::assert_generated("policies.md", &page);
}

/// A field as one row.
fn without_fields(field: &Value) -> Value {
    let mut field = field.clone();
    let fields = field.as_object_mut().unwrap();
    fields.remove("properties");
    if let Some(items) = fields.get_mut("items").and_then(Value::as_object_mut) {
        items.remove("properties");
    }
    field
}
