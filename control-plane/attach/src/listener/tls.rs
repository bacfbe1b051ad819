//! Certificates of HTTPS listeners.

use portcullis_gateway_api::{
    CaReference, ClientValidation, GATEWAY_API_GROUP, Gateway, Listener, SecretReference, ValidationMode,
};

use crate::condition::{Note, Rejection};
use crate::contents::{ContentKind, ContentName, ReferredContents};
use crate::former::{FormerCertificates, ListenerName};
use crate::grants::{Grants, Referent, Referrer};
use crate::input::{Inventory, Presence};
use crate::name::ObjectName;

/// The listener whose references are resolved.
pub(super) struct ReferenceContext<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) listener: &'a str,
    pub(super) grants: &'a Grants<'a>,
    pub(super) contents: &'a ReferredContents,
    pub(super) inventory: &'a Inventory,
}

/// The CAs that verify clients of a listener, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedClientCa {
    /// The `ConfigMaps`.
    pub config_maps: Vec<ObjectName>,
    /// Whether a connection needs a valid certificate.
    pub mode: ValidationMode,
}

/// The certificates of a listener.
#[derive(Default)]
pub(super) struct Certificates {
    pub(super) usable: Vec<ObjectName>,
    pub(super) unresolved: Option<Rejection>,
    pub(super) notes: Vec<Note>,
}

/// The CAs of a listener.
#[derive(Default)]
pub(super) struct ClientCas {
    pub(super) served: Option<ServedClientCa>,
    pub(super) unresolved: Option<Rejection>,
    pub(super) refusal: Option<Rejection>,
    pub(super) notes: Vec<Note>,
}

/// Resolves the certificates. One that cannot be used leaves the others in use.
pub(super) fn certificates(at: &ReferenceContext<'_>, spec: &Listener) -> Certificates {
    let mut found = Certificates::default();
    let references = spec.tls.iter().flat_map(|tls| &tls.certificate_refs).enumerate();
    for (index, reference) in references {
        let path = format!("{}.tls.certificateRefs[{index}]", at.listener);
        match certificate(at, reference, &path) {
            Ok(name) => {
                if !at.inventory.is_complete && !at.inventory.secrets.contains_key(&name) {
                    found.notes.push(Note::unread(&path, "Secret", &name));
                }
                found.usable.push(name);
            }
            Err(rejection) => found.unresolved = found.unresolved.or(Some(rejection)),
        }
    }
    if spec.tls.as_ref().is_none_or(|tls| tls.certificate_refs.is_empty()) {
        let message = format!("{}.tls.certificateRefs: a certificate is required", at.listener);
        found.unresolved = Some(Rejection::new("InvalidCertificateRef", message));
    }
    if found.usable.is_empty() {
        found.usable = former(at, spec);
    }
    found
}

/// The certificates from before an edit, as far as they are permitted and usable now.
fn former(at: &ReferenceContext<'_>, spec: &Listener) -> Vec<ObjectName> {
    let is_usable = |content: &ContentName| {
        at.contents.contains(content)
            && permits(at.gateway, at.grants, content)
            && at.inventory.secret(&content.object) == Presence::Present
    };
    former_contents(at.gateway, spec, &at.inventory.former_certificates)
        .filter(is_usable)
        .map(|content| content.object)
        .collect()
}

fn certificate(at: &ReferenceContext<'_>, reference: &SecretReference, path: &str) -> Result<ObjectName, Rejection> {
    let invalid = |why: String| Err(Rejection::new("InvalidCertificateRef", format!("{path}: {why}")));
    let Some(content) = secret_name(at.gateway, reference) else {
        return invalid(format!("{} is not a Secret of the core group", reference.kind));
    };
    at.permitted(&content, path)?;
    if let Some(why) = at.contents.excess(&content) {
        return invalid(why);
    }
    let name = content.object;
    match at.inventory.secret(&name) {
        Presence::Present => Ok(name),
        Presence::Malformed(why) => invalid(format!("Secret {name}: {why}")),
        Presence::Absent => invalid(format!("there is no Secret {name}")),
    }
}

/// Resolves the CAs of a port. Without a single one that can be used the listener is not accepted: it would ask for no
/// certificate, or believe any.
pub(super) fn client_ca(at: &ReferenceContext<'_>, port: u16) -> ClientCas {
    let mut found = ClientCas::default();
    let Some((path, validation)) = validation(at.gateway, port) else { return found };
    let mut config_maps = Vec::new();
    for (index, reference) in validation.ca_certificate_refs.iter().enumerate() {
        let path = format!("{path}.caCertificateRefs[{index}]");
        match authority(at, reference, &path) {
            Ok(name) => {
                if !at.inventory.is_complete && !at.inventory.config_maps.contains_key(&name) {
                    found.notes.push(Note::unread(&path, "ConfigMap", &name));
                }
                config_maps.push(name);
            }
            Err(rejection) => found.unresolved = found.unresolved.or(Some(rejection)),
        }
    }
    if config_maps.is_empty() {
        let message = format!("{path}.caCertificateRefs: none of them can be used");
        found.refusal = Some(Rejection::new("NoValidCACertificate", message));
    }
    found.served = Some(ServedClientCa { config_maps, mode: validation.mode.clone() });
    found
}

/// Fields of TLS that a listener which passes connections on does not use.
pub(super) fn passed_on(at: &ReferenceContext<'_>, spec: &Listener) -> Vec<Note> {
    let has_certificates = spec.tls.as_ref().is_some_and(|tls| !tls.certificate_refs.is_empty());
    let certificates = has_certificates.then(|| format!("{}.tls.certificateRefs", at.listener));
    let asked = validation(at.gateway, spec.port).map(|(path, _)| path);
    let message = format!("has no effect at listener {}: its connections are passed on", spec.name);
    certificates.into_iter().chain(asked).map(|path| Note::no_effect(path, message.clone())).collect()
}

/// The verification at a port: its own settings replace the default ones as a whole.
fn validation(gateway: &Gateway, port: u16) -> Option<(String, &ClientValidation)> {
    let frontend = gateway.spec.tls.as_ref()?.frontend.as_ref()?;
    let path = "spec.tls.frontend";
    let own = frontend.per_port.iter().enumerate().find(|(_, one)| one.port == port);
    match own {
        Some((index, own)) => Some((format!("{path}.perPort[{index}].tls.validation"), own.tls.validation.as_ref()?)),
        None => Some((format!("{path}.default.validation"), frontend.default.validation.as_ref()?)),
    }
}

fn authority(at: &ReferenceContext<'_>, reference: &CaReference, path: &str) -> Result<ObjectName, Rejection> {
    let Some(content) = config_map_name(at.gateway, reference) else {
        let message = format!("{path}: {} is not a ConfigMap of the core group", reference.kind);
        return Err(Rejection::new("InvalidCACertificateKind", message));
    };
    at.permitted(&content, path)?;
    let invalid = |why: String| Err(Rejection::new("InvalidCACertificateRef", format!("{path}: {why}")));
    if let Some(why) = at.contents.excess(&content) {
        return invalid(why);
    }
    let name = content.object;
    match at.inventory.config_map(&name) {
        Presence::Present => Ok(name),
        Presence::Malformed(why) => invalid(format!("ConfigMap {name}: {why}")),
        Presence::Absent => invalid(format!("there is no ConfigMap {name}")),
    }
}

impl ReferenceContext<'_> {
    /// Whether the Gateway may refer to it. This is asked before whether it is there: another namespace's objects are not to be
    /// found out.
    fn permitted(&self, content: &ContentName, path: &str) -> Result<(), Rejection> {
        if permits(self.gateway, self.grants, content) {
            return Ok(());
        }
        let (kind, ObjectName { namespace, name }) = (content.kind.as_str(), &content.object);
        let message = format!("{path}: no ReferenceGrant in namespace {namespace} permits {kind} {name}");
        Err(Rejection::new("RefNotPermitted", message))
    }
}

/// The contents to which a listener that ends TLS refers, permitted or not.
pub(super) fn contents_of<'a>(gateway: &'a Gateway, listener: &'a Listener) -> impl Iterator<Item = ContentName> + 'a {
    let authorities = validation(gateway, listener.port).map(|(_, validation)| &validation.ca_certificate_refs);
    let authorities = authorities.into_iter().flatten().filter_map(|reference| config_map_name(gateway, reference));
    listener_secrets(gateway, listener).chain(authorities)
}

/// The former certificates of a listener, permitted or not.
pub(super) fn former_contents<'a>(
    gateway: &Gateway,
    listener: &Listener,
    former: &'a FormerCertificates,
) -> impl Iterator<Item = ContentName> + 'a {
    let name = ListenerName { gateway: ObjectName::of(&gateway.metadata), listener: listener.name.clone() };
    let secrets = former.get(&name).into_iter().flatten();
    secrets.map(|secret| ContentName { kind: ContentKind::Secret, object: secret.clone() })
}

/// The Secrets that a listener's `certificateRefs` name, permitted or not.
pub fn listener_secrets(gateway: &Gateway, listener: &Listener) -> impl Iterator<Item = ContentName> {
    let references = listener.tls.iter().flat_map(|tls| &tls.certificate_refs);
    references.filter_map(|reference| secret_name(gateway, reference))
}

/// Whether a Gateway may refer to it.
pub(crate) fn permits(gateway: &Gateway, grants: &Grants<'_>, content: &ContentName) -> bool {
    let from = Referrer { group: GATEWAY_API_GROUP, kind: "Gateway", namespace: &gateway.metadata.namespace };
    let ObjectName { namespace, name } = &content.object;
    grants.permit(from, Referent { group: "", kind: content.kind.as_str(), namespace, name })
}

fn secret_name(gateway: &Gateway, reference: &SecretReference) -> Option<ContentName> {
    let is_secret = reference.group.is_empty() && reference.kind == "Secret";
    let namespace = reference.namespace.as_deref();
    is_secret.then(|| content_name(gateway, ContentKind::Secret, namespace, &reference.name))
}

fn config_map_name(gateway: &Gateway, reference: &CaReference) -> Option<ContentName> {
    let is_config_map = reference.group.is_empty() && reference.kind == "ConfigMap";
    let namespace = reference.namespace.as_deref();
    is_config_map.then(|| content_name(gateway, ContentKind::ConfigMap, namespace, &reference.name))
}

fn content_name(gateway: &Gateway, kind: ContentKind, namespace: Option<&str>, name: &str) -> ContentName {
    ContentName { kind, object: ObjectName::new(namespace.unwrap_or(&gateway.metadata.namespace), name) }
}
