//! The headers, and how they are sent.

/// How a header is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Once,
    /// The second line says something else.
    Twice,
    MixedCase,
    /// Underscores for hyphens.
    Underscore,
    /// `Connection` names it.
    Nominated,
    Upgrade,
    /// On an upgrade, whose `Connection` names it.
    NominatedUpgrade,
    H2Once,
    H2Twice,
}

pub(super) const FORMS: [Form; 9] = [
    Form::Once,
    Form::Twice,
    Form::MixedCase,
    Form::Underscore,
    Form::Nominated,
    Form::Upgrade,
    Form::NominatedUpgrade,
    Form::H2Once,
    Form::H2Twice,
];

/// Header lines that are sent together, the first one in various forms.
pub(super) type Case = &'static [(&'static str, &'static str)];
pub(super) type Lines<'a> = &'a [(&'static str, &'static str)];

pub(super) const ACCOUNT: &str = "system:serviceaccount:default:robot";

/// Impersonations, which kube-apiserver judges: the answer equals that to the same request sent directly.
pub(super) const IMPERSONATIONS: [Case; 24] = [
    &[("Impersonate-User", "dave")],
    &[("Impersonate-User", "carol")],
    &[("Impersonate-User", "")],
    &[("Impersonate-User", "Zoë")],
    &[("Impersonate-User", "a,b")],
    &[("Impersonate-User", "  dave  ")],
    &[("Impersonate-User", ACCOUNT)],
    &[("Impersonate-User", "system:serviceaccount:default:robot:x")],
    &[("Impersonate-User", "system:anonymous")],
    &[("Impersonate-User", "system:node:n")],
    &[("Impersonate-Group", "dev")],
    &[("Impersonate-Uid", "7")],
    &[("Impersonate-Extra-Scopes", "view")],
    &[("Impersonate-Group", "dev"), ("Impersonate-User", "dave")],
    &[("Impersonate-Group", "system:masters"), ("Impersonate-User", "dave")],
    &[("Impersonate-Group", "system:unauthenticated"), ("Impersonate-User", "dave")],
    &[("Impersonate-Group", "own"), ("Impersonate-User", ACCOUNT)],
    &[("Impersonate-Uid", "7"), ("Impersonate-User", "dave")],
    &[("Impersonate-Extra-Scopes", "view"), ("Impersonate-User", "dave")],
    &[("Impersonate-Extra-%41b", "view"), ("Impersonate-User", "dave")],
    &[("Impersonate-Extra-%zz", "view"), ("Impersonate-User", "dave")],
    &[("Impersonate-Extra-a.example%2fKey", "v"), ("Impersonate-User", "dave")],
    &[
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Extra-Scopes", "x"),
        ("Impersonate-User", "d"),
    ],
    &[
        ("Impersonate-User", "dave"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
        ("Impersonate-Group", "g1"),
    ],
];

/// Headers without a meaning: the answer equals that to the request without them.
pub(super) const FORGERIES: [Case; 15] = [
    &[("X-Remote-User", "admin")],
    &[("X-Remote-Group", "system:masters")],
    &[("X-Remote-Uid", "0")],
    &[("X-Remote-Extra-Scopes", "all")],
    &[("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")],
    &[("X-Forwarded-Client-Cert", "Hash=00;Subject=\"CN=admin,O=system:masters\"")],
    &[("X-Envoy-Original-Path", "/api/v1/secrets")],
    &[("X-Envoy-Retry-On", "5xx")],
    &[("X-Envoy-Upstream-Rq-Timeout-Ms", "1")],
    &[("X-Envoy-Expected-Rq-Timeout-Ms", "1")],
    &[("X-Envoy-Decorator-Operation", "x")],
    &[("X-Envoy-Internal", "true")],
    &[("X-Portcullis-Destination", "all.h2.read")],
    &[("X-Portcullis-Cluster", "e2e/-/prod.example.com/all.h2")],
    &[("X-Portcullis-User", "admin")],
];
