use super::{Default, defaults_are_told, rows};

const HEAD: &str = "# KubernetesUpstream

<!-- Written by a test from control-plane/api/src/types/kubernetes_upstream.rs. -->

`apiVersion: portcullis.dev/v1alpha1`, `kind: KubernetesUpstream`, in namespaces: the kube-apiservers of a cluster, to which `HTTPRoutes` lead. \
The page about the [Gateway API](../gateway-api.md#upstreams-of-tenants) says who may lead there, and what of it is served. `metadata.name` is a DNS label. \
`portcullis check` judges the objects, and `portcullis crd` prints the definition.

A field that is not set, or null, has the default; `-` is none.

| field | type | default | meaning |
|---|---|---|---|
";

const STATUS: &str = "
## Status

| field | type | default | meaning |
|---|---|---|---|
";

const DEFAULTS: [Default; 28] = [
    ("spec.servers[].disabled", "`false`"),
    ("spec.references.upstreamCA.secret.key", "`ca.crt`"),
    ("spec.references.clientCA.secret.key", "`ca.crt`"),
    ("spec.references.client.secret.certificate", "`tls.crt`"),
    ("spec.references.client.secret.privateKey", "`tls.key`"),
    ("spec.references.token.secret.key", "`token`"),
    ("spec.healthCheck.path", "`/readyz`"),
    ("spec.healthCheck.interval", "`5s`"),
    ("spec.healthCheck.timeout", "`5s`"),
    ("spec.healthCheck.healthyThreshold", "`1`"),
    ("spec.healthCheck.unhealthyThreshold", "`1`"),
    ("spec.requestTimeout", "`75s`"),
    ("spec.drainPeriod", "`5m`"),
    ("spec.maxSessionDuration", "unlimited"),
    ("spec.allowAnonymous", "`true`"),
    ("spec.clientCertificateVerification", "`Request`"),
    ("spec.upstreamIdentity", "`Impersonate`"),
    ("spec.requestHeader.tokenReview", "`true`"),
    ("spec.requestHeader.user", "`system:portcullis`"),
    ("spec.credentialCache.tokenTTL", "`2m`"),
    ("spec.credentialCache.rejectedTokenTTL", "`10s`"),
    ("spec.credentialCache.authorizedTTL", "`5m`"),
    ("spec.credentialCache.unauthorizedTTL", "`30s`"),
    ("spec.tokenAudiences", "those of the servers"),
    ("spec.auditAttribution", "`false`"),
    ("spec.constrainedImpersonation", "`false`"),
    ("spec.servers[].zone", "none"),
    ("spec.servers[].weight", "`1`"),
];

#[test]
fn reference_of_upstreams_says_what_the_code_does() {
    let mut page = HEAD.to_owned();
    let spec = super::super::upstream::upstream_spec();
    defaults_are_told(&spec, "spec", &DEFAULTS);
    rows(&spec, "spec", &DEFAULTS, &mut page);
    page.push_str(STATUS);
    rows(&super::super::status::upstream_status(), "status", &[], &mut page);
    portcullis_generated_docs::assert_generated("kubernetesupstream.md", &page);
}
