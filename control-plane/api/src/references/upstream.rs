//! The references of a `KubernetesUpstream`: objects of its own namespace, each read by its name.

use std::collections::BTreeSet;

use super::field::{UNKNOWN_AUTHORITY, UNKNOWN_TOKEN, authority_in_secret, pair_in_secret, token_in_secret};
use super::shape::{filled, secret_error};
use crate::referenced_data::{SecretData, UpstreamMaterial};
use crate::secret::{PublicBytes, SecretBytes};
use crate::types::{KubernetesUpstream, UpstreamAuthority};

/// An object that a `KubernetesUpstream` refers to, by its name in the same namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpstreamContent<'a> {
    /// A Secret.
    Secret(&'a str),
    /// A ConfigMap with CA certificates.
    ConfigMap(&'a str),
}

/// A reference that has no content, and why. Nothing of what it refers to is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct UnresolvedUpstream {
    /// The reference.
    pub path: &'static str,
    /// Why.
    pub message: String,
}

/// The message for a Secret of another owner.
const NOT_LABELLED: &str =
    "the Secret has no label portcullis.dev/kubernetes-upstream with the name of this KubernetesUpstream";

/// Placeholders for everything that an object refers to, so that the rest of it can be checked. The result must not be served.
pub fn assumed_material(raw: &KubernetesUpstream) -> UpstreamMaterial {
    let authority = |is_set: bool| if is_set { UNKNOWN_AUTHORITY.as_bytes().to_vec() } else { Vec::new() };
    let references = &raw.spec.references;
    UpstreamMaterial {
        upstream_ca: PublicBytes::new(authority(references.upstream_ca.is_some())),
        client_ca: PublicBytes::new(authority(references.client_ca.is_some())),
        token: SecretBytes::new(UNKNOWN_TOKEN.to_vec()),
        ..UpstreamMaterial::default()
    }
}

/// The objects that one refers to. A name that no object can have is not among them.
pub fn referred_by_upstream(raw: &KubernetesUpstream) -> BTreeSet<UpstreamContent<'_>> {
    let references = &raw.spec.references;
    let authorities = [&references.upstream_ca, &references.client_ca].into_iter().flatten();
    let of_authorities = authorities.flat_map(|one| {
        let map = one.config_map.as_ref().map(|map| UpstreamContent::ConfigMap(map.name.as_str()));
        map.into_iter().chain(one.secret.as_ref().map(|secret| UpstreamContent::Secret(secret.name.as_str())))
    });
    let pair = references.client.iter().map(|one| UpstreamContent::Secret(one.secret.name.as_str()));
    let token = references.token.iter().map(|one| UpstreamContent::Secret(one.secret.name.as_str()));
    of_authorities.chain(pair).chain(token).collect()
}

/// The content of all references. `secret` and `config_map` yield what was read of an object, or why nothing can be.
///
/// # Errors
/// The first reference without content.
pub fn upstream_material<'s>(
    raw: &KubernetesUpstream,
    secret: impl Fn(&str) -> Result<&'s SecretData, String>,
    config_map: impl Fn(&str) -> Result<&'s PublicBytes, String>,
) -> Result<UpstreamMaterial, UnresolvedUpstream> {
    let values = |path: &'static str, (name, keys): (&str, Vec<&str>)| {
        let unresolved = |message: String| UnresolvedUpstream { path, message };
        if let Some(error) = secret_error(name, &keys) {
            return Err(unresolved(error.to_owned()));
        }
        let secret = secret(name).map_err(unresolved)?;
        if !secret.owners.contains(&raw.metadata.name) {
            return Err(unresolved(NOT_LABELLED.to_owned()));
        }
        let value = |key: &&str| {
            let missing = || unresolved(format!("the Secret has nothing under {key}"));
            filled(secret.data.get(*key)).cloned().ok_or_else(missing)
        };
        keys.iter().map(value).collect::<Result<Vec<SecretBytes>, UnresolvedUpstream>>()
    };
    let authority = |path: &'static str, reference: &Option<UpstreamAuthority>| {
        let Some(reference) = reference else { return Ok(PublicBytes::default()) };
        match (&reference.config_map, &reference.secret) {
            (Some(map), _) => config_map(&map.name).cloned().map_err(|message| UnresolvedUpstream { path, message }),
            (None, Some(secret)) => values(path, authority_in_secret(secret)).map(first_public),
            // Its check refuses it.
            (None, None) => Ok(PublicBytes::default()),
        }
    };
    let references = &raw.spec.references;
    let mut material = UpstreamMaterial {
        upstream_ca: authority("spec.references.upstreamCA", &references.upstream_ca)?,
        client_ca: authority("spec.references.clientCA", &references.client_ca)?,
        ..UpstreamMaterial::default()
    };
    if let Some(pair) = &references.client {
        let mut pair = values("spec.references.client", pair_in_secret(&pair.secret))?.into_iter();
        material.certificate = pair.next().map(|chain| PublicBytes::new(chain.expose().to_vec())).unwrap_or_default();
        material.key = pair.next().unwrap_or_default();
    }
    if let Some(token) = &references.token {
        material.token =
            values("spec.references.token", token_in_secret(&token.secret))?.into_iter().next().unwrap_or_default();
    }
    Ok(material)
}

fn first_public(values: Vec<SecretBytes>) -> PublicBytes {
    values.first().map(|value| PublicBytes::new(value.expose().to_vec())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::parse::parse_upstream;

    fn upstream(references: &Value) -> KubernetesUpstream {
        parse_upstream(&json!({
            "apiVersion": crate::UPSTREAM_API_VERSION, "kind": crate::UPSTREAM_KIND,
            "metadata": {"name": "prod", "namespace": "team-a"}, "spec": {"references": references},
        }))
        .unwrap()
    }

    fn secret(owners: &[&str], data: &[(&str, &str)]) -> SecretData {
        SecretData {
            owners: owners.iter().map(|name| (*name).to_owned()).collect(),
            data: data
                .iter()
                .map(|(key, text)| ((*key).to_owned(), SecretBytes::new(text.as_bytes().to_vec())))
                .collect(),
        }
    }

    fn material(references: &Value) -> Result<UpstreamMaterial, String> {
        let own = [("tls.crt", "CHAIN"), ("tls.key", "KEY"), ("ca.crt", "CA"), ("token", "TOKEN"), ("empty", " ")];
        let secrets = BTreeMap::from([
            ("own", secret(&["prod", "blue"], &own)),
            ("foreign", secret(&["blue"], &own)),
            ("nobodys", secret(&[], &own)),
        ]);
        let maps = BTreeMap::from([("ca", PublicBytes::new(b"MAP".to_vec()))]);
        let raw = upstream(references);
        let secret = |name: &str| secrets.get(name).ok_or_else(|| "it is not there".to_owned());
        let map = |name: &str| maps.get(name).ok_or_else(|| "it is not there".to_owned());
        upstream_material(&raw, secret, map).map_err(|error| {
            let shown = error.to_string();
            assert!(!["CHAIN", "KEY", "TOKEN", "MAP"].iter().any(|value| shown.contains(value)), "{shown}");
            shown
        })
    }

    #[test]
    fn references_are_filled_from_labelled_secrets_and_maps() {
        let in_secret = |name: &str| json!({"secret": {"name": name}});
        let ca = json!({"configMap": {"name": "ca"}});
        let found =
            material(&json!({"upstreamCA": ca, "clientCA": in_secret("own"), "client": in_secret("own")})).unwrap();
        assert_eq!(found.upstream_ca.as_slice(), b"MAP");
        assert_eq!(found.client_ca.as_slice(), b"CA");
        assert_eq!((found.certificate.as_slice(), found.key.expose()), (&b"CHAIN"[..], &b"KEY"[..]));
        assert!(found.token.is_empty());
        let found = material(&json!({"token": in_secret("own")})).unwrap();
        assert_eq!(found.token.expose(), b"TOKEN");
        assert!(!format!("{found:?}").contains("TOKEN"), "no token is shown");
        for (references, why) in [
            (json!({"token": in_secret("absent")}), "spec.references.token: it is not there"),
            (json!({"token": in_secret("foreign")}), "spec.references.token: the Secret has no label"),
            (json!({"client": in_secret("nobodys")}), "spec.references.client: the Secret has no label"),
            (json!({"clientCA": in_secret("nobodys")}), "spec.references.clientCA: the Secret has no label"),
            (json!({"token": {"secret": {"name": "own", "key": "other"}}}), "nothing under other"),
            (json!({"token": {"secret": {"name": "own", "key": "empty"}}}), "nothing under empty"),
            (json!({"token": {"secret": {"name": "own", "key": "a/b"}}}), "the keys of a Secret"),
            (json!({"token": {"secret": {"name": "../own"}}}), "must be the name of a Secret"),
            (json!({"upstreamCA": {"configMap": {"name": "own"}}}), "spec.references.upstreamCA: it is not there"),
        ] {
            let error = material(&references).unwrap_err();
            assert!(error.contains(why), "{references}: {error}");
        }
    }

    #[test]
    fn contents_are_named_once_each() {
        let raw = upstream(&json!({
            "upstreamCA": {"secret": {"name": "s"}}, "clientCA": {"configMap": {"name": "m"}},
            "client": {"secret": {"name": "s"}}, "token": {"secret": {"name": "t"}},
        }));
        let found: Vec<_> = referred_by_upstream(&raw).into_iter().collect();
        assert_eq!(
            found,
            [UpstreamContent::Secret("s"), UpstreamContent::Secret("t"), UpstreamContent::ConfigMap("m")]
        );
        assert!(referred_by_upstream(&upstream(&json!({}))).is_empty());
    }
}
