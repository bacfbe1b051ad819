//! Classes and Gateways.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use portcullis_gateway_api::{
    AddressKind, AllowedListeners, Gateway, GatewayClass, GatewayTls, Listener, ParametersReference, ValidationMode,
};

use crate::CONTROLLER_NAME;
use crate::condition::{ConditionVerdict, Note, Rejection, effects_in_words};
use crate::contents::ReferredContents;
use crate::former::FormerCertificates;
use crate::grants::Grants;
use crate::input::{GatewayObjects, Inventory, Presence};
use crate::listener::{JudgedListener, contents_of, judge_listeners, permits};
use crate::name::{CreationOrder, ObjectName};
use crate::upstream::within_bounds;

/// API group and kind of a class's parameters.
const PARAMETERS: (&str, &str) = ("portcullis.dev", "GatewaySettings");

/// A class of this controller.
pub(crate) struct JudgedClass<'a> {
    pub(crate) class: &'a GatewayClass,
    pub(crate) refusal: Option<Rejection>,
    /// Why its settings are not those of their newest version.
    outdated: Option<String>,
}

/// A Gateway of such a class.
pub(crate) struct JudgedGateway<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) name: ObjectName,
    pub(crate) listeners: Vec<JudgedListener<'a>>,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) settings: Option<&'a str>,
    pub(crate) notes: Vec<Note>,
    refusal: Option<Rejection>,
}

pub(crate) fn judge_classes<'a>(objects: &'a GatewayObjects, inventory: &Inventory) -> Vec<JudgedClass<'a>> {
    let mut classes: Vec<_> = own_classes(objects).collect();
    classes.sort_by_key(|class| &class.metadata.name);
    let judged = classes.into_iter().map(|class| JudgedClass {
        class,
        refusal: refuse_class(class, inventory),
        outdated: outdated_settings(class, inventory),
    });
    judged.collect()
}

fn own_classes(objects: &GatewayObjects) -> impl Iterator<Item = &GatewayClass> {
    objects.classes.iter().filter(|class| class.spec.controller_name == CONTROLLER_NAME)
}

/// The Secrets and `ConfigMaps` of Gateways of this controller, and those of upstreams. The oldest Gateways have room first, so that a new one takes nothing
/// from them.
pub(crate) fn referred_contents(
    objects: &GatewayObjects,
    grants: &Grants<'_>,
    former: &FormerCertificates,
) -> ReferredContents {
    let classes: BTreeSet<&str> = own_classes(objects).map(|class| class.metadata.name.as_str()).collect();
    let is_own = |gateway: &&Gateway| {
        classes.contains(gateway.spec.gateway_class_name.as_str())
            || is_orphan(&ObjectName::of(&gateway.metadata), objects)
    };
    let mut gateways: Vec<&Gateway> = objects.gateways.iter().filter(is_own).collect();
    gateways.sort_by_key(|gateway| CreationOrder::of(&gateway.metadata));
    let mut contents = ReferredContents::default();
    for gateway in gateways {
        let referred = contents_of(gateway, former);
        contents.charge(&gateway.metadata.namespace, referred, |content| permits(gateway, grants, content));
    }
    let upstreams = within_bounds(objects);
    contents.add_upstreams(upstreams.into_iter().flat_map(|one| one.contents.iter().cloned()));
    contents
}

fn refuse_class(class: &GatewayClass, inventory: &Inventory) -> Option<Rejection> {
    let unsupported: Vec<String> = class.spec.other.paths("spec").collect();
    let fields = Rejection::of_fields(&unsupported);
    fields.or_else(|| class.spec.parameters_ref.as_ref().and_then(|reference| refuse_parameters(reference, inventory)))
}

fn outdated_settings(class: &GatewayClass, inventory: &Inventory) -> Option<String> {
    let name = &class.spec.parameters_ref.as_ref()?.name;
    let why = inventory.newest_settings_refusal(name)?;
    Some(format!("{} {name} are used as they were accepted last: {why}", PARAMETERS.1))
}

fn refuse_parameters(reference: &ParametersReference, inventory: &Inventory) -> Option<Rejection> {
    let invalid = |why: String| Some(Rejection::new("InvalidParameters", format!("spec.parametersRef: {why}")));
    if (reference.group.as_str(), reference.kind.as_str()) != PARAMETERS {
        return invalid(format!("{} is not {} of {}", reference.kind, PARAMETERS.1, PARAMETERS.0));
    }
    if reference.namespace.is_some() {
        return invalid(format!("{} is cluster-scoped and has no namespace", PARAMETERS.1));
    }
    match inventory.settings(&reference.name) {
        Presence::Absent => invalid(format!("there is no {} {}", PARAMETERS.1, reference.name)),
        Presence::Malformed(why) => invalid(format!("{} {}: {why}", PARAMETERS.1, reference.name)),
        Presence::Present => None,
    }
}

fn is_orphan(gateway: &ObjectName, objects: &GatewayObjects) -> bool {
    objects.orphans.contains(gateway)
}

/// Judges the Gateways of these classes, and those whose class is gone. Others are another controller's.
pub(crate) fn judge_gateways<'a>(
    objects: &'a GatewayObjects,
    classes: &[JudgedClass<'a>],
    grants: &Grants<'_>,
    inventory: &Inventory,
) -> Vec<JudgedGateway<'a>> {
    let contents = referred_contents(objects, grants, &inventory.former_certificates);
    let classes: BTreeMap<&str, &JudgedClass<'a>> =
        classes.iter().map(|class| (class.class.metadata.name.as_str(), class)).collect();
    let ours = |gateway: &'a Gateway| {
        let class = classes.get(gateway.spec.gateway_class_name.as_str()).copied();
        (class.is_some() || is_orphan(&ObjectName::of(&gateway.metadata), objects)).then_some((gateway, class))
    };
    let mut judged: Vec<_> = objects
        .gateways
        .iter()
        .filter_map(ours)
        .map(|(gateway, class)| judge(gateway, class, grants, &contents, inventory))
        .collect();
    judged.sort_by(|one, other| one.name.cmp(&other.name));
    judged
}

fn judge<'a>(
    gateway: &'a Gateway,
    class: Option<&JudgedClass<'a>>,
    grants: &Grants<'_>,
    contents: &ReferredContents,
    inventory: &Inventory,
) -> JudgedGateway<'a> {
    let addresses = addresses(gateway);
    let parameters = class.and_then(|class| class.class.spec.parameters_ref.as_ref());
    JudgedGateway {
        name: ObjectName::of(&gateway.metadata),
        listeners: judge_listeners(gateway, grants, contents, inventory),
        settings: parameters.map(|reference| reference.name.as_str()),
        notes: notes(gateway),
        refusal: class_refusal(gateway, class)
            .or_else(|| Rejection::of_fields(&unsupported(gateway)))
            .or_else(|| own_parameters(gateway))
            .or_else(|| addresses.as_ref().err().cloned()),
        addresses: addresses.unwrap_or_default(),
        gateway,
    }
}

fn class_refusal(gateway: &Gateway, class: Option<&JudgedClass<'_>>) -> Option<Rejection> {
    let Some(class) = class else {
        let message = format!("GatewayClass {} is not there", gateway.spec.gateway_class_name);
        return Some(Rejection::new("Pending", message));
    };
    let why = class.refusal.as_ref()?;
    let message = format!("GatewayClass {} is not accepted: {}", class.class.metadata.name, why.message);
    Some(Rejection::new("InvalidParameters", message))
}

fn own_parameters(gateway: &Gateway) -> Option<Rejection> {
    gateway.spec.infrastructure.as_ref()?.parameters_ref.as_ref()?;
    let message = "spec.infrastructure.parametersRef: settings are referred to by the GatewayClass only";
    Some(Rejection::new("InvalidParameters", message))
}

fn unsupported(gateway: &Gateway) -> Vec<String> {
    let spec = &gateway.spec;
    let mut paths: Vec<String> = spec.other.paths("spec").collect();
    let infrastructure = spec.infrastructure.iter();
    paths.extend(infrastructure.flat_map(|one| one.other.paths("spec.infrastructure")));
    paths.extend(spec.tls.iter().flat_map(unsupported_tls));
    paths
}

fn unsupported_tls(tls: &GatewayTls) -> Vec<String> {
    let mut paths: Vec<String> = tls.other.paths("spec.tls").collect();
    let Some(frontend) = &tls.frontend else { return paths };
    paths.extend(frontend.other.paths("spec.tls.frontend"));
    let by_port = frontend.per_port.iter().enumerate();
    let by_port = by_port.map(|(index, one)| (format!("spec.tls.frontend.perPort[{index}].tls"), &one.tls));
    for (path, settings) in by_port.chain([("spec.tls.frontend.default".to_owned(), &frontend.default)]) {
        paths.extend(settings.other.paths(&path));
        let Some(validation) = &settings.validation else { continue };
        paths.extend(validation.other.paths(&format!("{path}.validation")));
        if let ValidationMode::Other(mode) = &validation.mode {
            paths.push(format!("{path}.validation.mode {mode}"));
        }
    }
    paths
}

/// Addresses to listen at. If there are none, the Envoys' settings have them.
fn addresses(gateway: &Gateway) -> Result<Vec<IpAddr>, Rejection> {
    let mut addresses = Vec::new();
    for (index, address) in gateway.spec.addresses.iter().enumerate() {
        let path = format!("spec.addresses[{index}]");
        if let AddressKind::Other(kind) = &address.kind {
            let message = format!("{path}.type: {kind} is not supported; IPAddress is");
            return Err(Rejection::new("UnsupportedAddress", message));
        }
        if address.value.is_empty() {
            continue;
        }
        let parsed = address.value.parse();
        let message = || format!("{path}.value: {:?} is not an IP address", address.value);
        addresses.push(parsed.map_err(|_| Rejection::new("UnsupportedAddress", message()))?);
    }
    Ok(addresses)
}

fn notes(gateway: &Gateway) -> Vec<Note> {
    let spec = &gateway.spec;
    let mut notes = Vec::new();
    if let Some(infrastructure) = &spec.infrastructure
        && !(infrastructure.labels.is_empty() && infrastructure.annotations.is_empty())
    {
        let message = "labels and annotations have no effect: no object is made for a Gateway";
        notes.push(Note::no_effect("spec.infrastructure", message));
    }
    notes.extend(spec.allowed_listeners.iter().flat_map(listener_sets));
    notes.extend(frontend_notes(gateway));
    notes.extend(unassigned_addresses(gateway));
    notes
}

/// No field of these can have an effect, one of a later release neither.
fn listener_sets(allowed: &AllowedListeners) -> Vec<Note> {
    let (path, namespaces) = ("spec.allowedListeners", "spec.allowedListeners.namespaces");
    let own = (allowed.namespaces.from != "None").then(|| path.to_owned());
    let others = allowed.other.paths(path).chain(allowed.namespaces.other.paths(namespaces));
    let note = |path| Note::no_effect(path, "has no effect: ListenerSets are not served");
    own.into_iter().chain(others).map(note).collect()
}

/// Addresses without a value beside one with a value: the Envoys listen at the latter alone.
fn unassigned_addresses(gateway: &Gateway) -> Vec<Note> {
    let addresses = || gateway.spec.addresses.iter().enumerate();
    if addresses().all(|(_, address)| address.value.is_empty()) {
        return Vec::new();
    }
    let empty = addresses().filter(|(_, address)| address.value.is_empty());
    let message = "has no effect: no address is chosen beside those that have a value";
    empty.map(|(index, _)| Note::no_effect(format!("spec.addresses[{index}]"), message)).collect()
}

/// Client certificates that no listener asks for. A listener that passes TLS on says so itself.
fn frontend_notes(gateway: &Gateway) -> Vec<Note> {
    let Some(frontend) = gateway.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref()) else { return Vec::new() };
    let has_tls = |listener: &&Listener| matches!(listener.protocol.as_str(), "HTTPS" | "TLS");
    let ports: BTreeSet<u16> = gateway.spec.listeners.iter().filter(has_tls).map(|listener| listener.port).collect();
    let by_port = frontend.per_port.iter().enumerate().filter(|(_, one)| !ports.contains(&one.port));
    let unused = by_port.map(|(index, one)| {
        let path = format!("spec.tls.frontend.perPort[{index}]");
        Note::no_effect(path, format!("has no effect: no listener with TLS has port {}", one.port))
    });
    let is_idle = ports.is_empty() && frontend.default.validation.is_some();
    let default =
        is_idle.then(|| Note::no_effect("spec.tls.frontend.default.validation", "has no effect: no listener has TLS"));
    unused.chain(default).collect()
}

impl JudgedClass<'_> {
    pub(crate) fn conditions(&self) -> Vec<ConditionVerdict> {
        vec![match &self.refusal {
            Some(why) => ConditionVerdict::fails("Accepted", why),
            None => ConditionVerdict::holds("Accepted", "Accepted", self.outdated.clone().unwrap_or_default()),
        }]
    }
}

impl JudgedGateway<'_> {
    /// The port of a listener whose requests or connections may lead to a server.
    pub(crate) fn leading_port(&self, listener: usize) -> Option<u16> {
        let leads_on = |one: &&JudgedListener<'_>| one.protocol.is_some() && !one.is_plain();
        self.listeners.get(listener).filter(leads_on).map(|listener| listener.spec.port)
    }

    /// Whether any of its listeners can be served.
    pub(crate) fn is_accepted(&self) -> bool {
        self.refusal.is_none() && self.listeners.iter().any(|listener| listener.refusal().is_none())
    }

    pub(crate) fn conditions(&self) -> Vec<ConditionVerdict> {
        let mut conditions = vec![self.accepted(), self.resolved()];
        let falls_back = |listener: &JudgedListener<'_>| {
            listener.client_ca.as_ref().is_some_and(|ca| ca.mode == ValidationMode::AllowInsecureFallback)
        };
        if self.listeners.iter().any(falls_back) {
            let message = "a connection is accepted without a valid client certificate";
            let kind = "InsecureFrontendValidationMode";
            conditions.push(ConditionVerdict::holds(kind, "ConfigurationChanged", message));
        }
        conditions
    }

    fn accepted(&self) -> ConditionVerdict {
        if let Some(why) = &self.refusal {
            return ConditionVerdict::fails("Accepted", why);
        }
        if self.listeners.is_empty() {
            let why = Rejection::new("Invalid", "spec.listeners: at least one is needed");
            return ConditionVerdict::fails("Accepted", &why);
        }
        let refused = self.listeners.iter().filter_map(|one| Some((one.spec.name.as_str(), one.refusal()?)));
        let refused: Vec<String> = refused.map(|(name, why)| format!("{name}: {}", why.message)).collect();
        let mut message: Vec<String> = Vec::new();
        if !refused.is_empty() {
            message.push(format!("listeners that are not accepted: {}", refused.join("; ")));
        }
        message.extend(effects_in_words(&self.notes));
        let message = message.join("; ");
        match (refused.is_empty(), self.is_accepted()) {
            (true, _) => ConditionVerdict::holds("Accepted", "Accepted", message),
            (false, true) => ConditionVerdict::holds("Accepted", "ListenersNotValid", message),
            (false, false) => ConditionVerdict::fails("Accepted", &Rejection::new("ListenersNotValid", message)),
        }
    }

    fn resolved(&self) -> ConditionVerdict {
        let unresolved: Vec<&str> =
            self.listeners.iter().filter(|one| !one.is_resolved()).map(|one| one.spec.name.as_str()).collect();
        let why = (!unresolved.is_empty())
            .then(|| Rejection::new("ListenersNotResolved", format!("see listeners {}", unresolved.join(", "))));
        ConditionVerdict::unless("ResolvedRefs", "ResolvedRefs", why.as_ref())
    }
}
