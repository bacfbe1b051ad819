use serde_json::Value;

use crate::secret::{PublicBytes, SecretBytes};
use crate::types::UpstreamClusterSpec;
use crate::types::{
    AuthorityInSecret, AuthorityReference, PairInSecret, PairReference, References, TokenInSecret, TokenReference,
};

/// One of the references that an object may have.
pub(super) struct ReferenceField {
    /// Its name below `spec.portcullis.references`.
    pub(super) name: &'static str,
    /// The path of the reference.
    pub(super) path: &'static str,
    /// The object below `spec` with the fields that it replaces.
    pub(super) parent: &'static str,
    /// These fields, in the order of [`Reference`]'s places.
    pub(super) fields: &'static [&'static str],
    pub(super) of: fn(&References) -> Option<Reference<'_>>,
    /// Whether a field that it replaces is set.
    pub(super) is_set: fn(&UpstreamClusterSpec) -> bool,
    /// Puts a placeholder into the fields that it replaces, so that the rest of an object can be checked.
    pub(super) assume: fn(&mut UpstreamClusterSpec),
    /// The same placeholder in a document: its field, and the content; none where the gateway's default is used.
    pub(super) placeholder: Option<(&'static str, &'static [u8])>,
}

/// A certificate whose key is unknown: the placeholder for authorities.
pub(super) const UNKNOWN_AUTHORITY: &str = include_str!("unknown-authority.pem");

fn unknown_authority() -> PublicBytes {
    PublicBytes::new(UNKNOWN_AUTHORITY.as_bytes().to_vec())
}

/// The placeholder for a token, and for a client pair: the gateway has some identity.
pub(crate) const UNKNOWN_TOKEN: &[u8] = b"unknown";

fn unknown_token(spec: &mut UpstreamClusterSpec) {
    if spec.client_config.bearer_token.is_empty() {
        spec.client_config.bearer_token = SecretBytes::new(UNKNOWN_TOKEN.to_vec());
    }
}

/// The target of a reference.
pub(super) struct Reference<'a> {
    /// The Secret's name, and under which keys.
    pub(super) secret: Option<(&'a str, Vec<&'a str>)>,
    /// The files' paths.
    pub(super) files: Option<Vec<&'a str>>,
}

pub(super) const REFERENCE_FIELDS: [ReferenceField; 5] = [
    ReferenceField {
        name: "serving",
        path: "spec.portcullis.references.serving",
        parent: "secureServing",
        fields: &["certData", "keyData"],
        of: |references| references.serving.as_ref().map(pair),
        is_set: |spec| !spec.secure_serving.cert_data.is_empty() || !spec.secure_serving.key_data.is_empty(),
        // The gateway's default certificate is used.
        assume: |_| {},
        placeholder: None,
    },
    ReferenceField {
        name: "clientCA",
        path: "spec.portcullis.references.clientCA",
        parent: "secureServing",
        fields: &["clientCAData"],
        of: |references| references.client_ca.as_ref().map(authority),
        is_set: |spec| !spec.secure_serving.client_ca_data.is_empty(),
        assume: |spec| spec.secure_serving.client_ca_data = unknown_authority(),
        placeholder: Some(("clientCAData", UNKNOWN_AUTHORITY.as_bytes())),
    },
    ReferenceField {
        name: "client",
        path: "spec.portcullis.references.client",
        parent: "clientConfig",
        fields: &["certData", "keyData"],
        of: |references| references.client.as_ref().map(pair),
        is_set: |spec| !spec.client_config.cert_data.is_empty() || !spec.client_config.key_data.is_empty(),
        assume: unknown_token,
        placeholder: Some(("bearerToken", UNKNOWN_TOKEN)),
    },
    ReferenceField {
        name: "token",
        path: "spec.portcullis.references.token",
        parent: "clientConfig",
        fields: &["bearerToken"],
        of: |references| references.token.as_ref().map(token),
        is_set: |spec| !spec.client_config.bearer_token.is_empty(),
        assume: unknown_token,
        placeholder: Some(("bearerToken", UNKNOWN_TOKEN)),
    },
    ReferenceField {
        name: "upstreamCA",
        path: "spec.portcullis.references.upstreamCA",
        parent: "clientConfig",
        fields: &["caData"],
        of: |references| references.upstream_ca.as_ref().map(authority),
        is_set: |spec| !spec.client_config.ca_data.is_empty(),
        assume: |spec| spec.client_config.ca_data = unknown_authority(),
        placeholder: Some(("caData", UNKNOWN_AUTHORITY.as_bytes())),
    },
];

impl ReferenceField {
    /// The paths of the fields that it replaces.
    pub(super) fn replaced(&self) -> impl Iterator<Item = String> + '_ {
        self.fields.iter().map(|field| format!("spec.{}.{field}", self.parent))
    }

    /// Whether a field that it replaces is set.
    pub(super) fn is_inline(&self, document: &Value) -> bool {
        let parent = document.pointer(&format!("/spec/{}", self.parent));
        let set = |field: &&str| match parent.and_then(|parent| parent.get(*field)) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.trim_ascii().is_empty(),
            Some(_) => true,
        };
        self.fields.iter().any(set)
    }
}

fn or<'a>(key: &'a str, default: &'a str) -> &'a str {
    if key.is_empty() { default } else { key }
}

/// The Secret's name and the keys of certificate and private key.
pub(super) fn pair_in_secret(secret: &PairInSecret) -> (&str, Vec<&str>) {
    (&secret.name, vec![or(&secret.certificate, "tls.crt"), or(&secret.private_key, "tls.key")])
}

/// The Secret's name and the key of the certificates.
pub(super) fn authority_in_secret(secret: &AuthorityInSecret) -> (&str, Vec<&str>) {
    (&secret.name, vec![or(&secret.key, "ca.crt")])
}

/// The Secret's name and the key of the token.
pub(super) fn token_in_secret(secret: &TokenInSecret) -> (&str, Vec<&str>) {
    (&secret.name, vec![or(&secret.key, "token")])
}

fn pair(reference: &PairReference) -> Reference<'_> {
    Reference {
        secret: reference.secret.as_ref().map(pair_in_secret),
        files: reference.file.as_ref().map(|one| vec![one.certificate.as_str(), one.private_key.as_str()]),
    }
}

fn authority(reference: &AuthorityReference) -> Reference<'_> {
    Reference {
        secret: reference.secret.as_ref().map(authority_in_secret),
        files: reference.file.as_ref().map(|path| vec![path.as_str()]),
    }
}

fn token(reference: &TokenReference) -> Reference<'_> {
    Reference {
        secret: reference.secret.as_ref().map(token_in_secret),
        files: reference.file.as_ref().map(|path| vec![path.as_str()]),
    }
}

/// The references of a document. None if there are none, or if they are not well-formed, which the parser reports.
pub(super) fn references_of(document: &Value) -> Option<References> {
    let written = document.get("spec")?.get("portcullis")?.get("references").filter(|written| !written.is_null())?;
    crate::parse::parse_part(written)
}

/// The path of each reference, and JSON pointers to the fields that hold its content once it is resolved.
pub fn content_of_references() -> impl Iterator<Item = (&'static str, Vec<String>)> {
    REFERENCE_FIELDS.iter().map(|field| {
        let pointers = field.fields.iter().map(|name| format!("/spec/{}/{name}", field.parent));
        (field.path, pointers.collect())
    })
}

/// The reference in place of the field at `path`, if the document has one: a problem of the resolved field is a problem of the
/// referenced data.
pub fn reference_of_path(document: &Value, path: &str) -> Option<&'static str> {
    let references = references_of(document)?;
    let blamed = |field: &&ReferenceField| {
        field.replaced().any(|replaced| replaced == path)
            && (field.of)(&references).is_some()
            && !field.is_inline(document)
    };
    REFERENCE_FIELDS.iter().find(blamed).map(|field| field.path)
}
