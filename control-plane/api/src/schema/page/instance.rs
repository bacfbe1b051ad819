use super::rows;

const HEAD: &str = "# Instance

<!-- Written by a test from control-plane/api/src/types/instance.rs. -->

`apiVersion: portcullis.dev/v1alpha1`, `kind: Instance`, cluster-scoped: gateways and `UpstreamClusters` that are served apart from the others. Each belongs to one instance at most; the page about [instances](../instances.md) has the rules, and says what of \
them is served. `metadata.name` is a DNS label. `portcullis check` judges the objects, and `portcullis crd` prints the definition.

A field that is not set, or null, has the default; `-` is none. A null within a selector is refused.

| field | type | default | meaning |
|---|---|---|---|
";

const STATUS: &str = "
## Status

| field | type | default | meaning |
|---|---|---|---|
";

#[test]
fn reference_of_instances_says_what_the_code_does() {
    let mut page = HEAD.to_owned();
    rows(&super::super::instance_spec(), "spec", &[], &mut page);
    page.push_str(STATUS);
    rows(&super::super::status::instance_status(), "status", &[], &mut page);
    portcullis_generated_docs::assert_generated("instance.md", &page);
}
