//! Objects of the Gateway API, by the attach step that serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{Problem, ProblemCode, SETTINGS_KIND};
use portcullis_attach::{
    Attached, AttachedPolicies, CONTROLLER_NAME, ConditionVerdict, GatewayObjects, GatewayVerdict, Inventory, Note,
    NoteKind, ObjectName, RouteVerdict, Usability, attach,
};
use portcullis_gateway_api::{
    GatewayApiObject, GatewayClass, NAMESPACE_NAME_LABEL, OtherFields, ParentReference, ReadError, is_gateway_api,
    read_object,
};
use portcullis_instances::Settlement;
use portcullis_sources::{FileDiagnosis, ObjectSet, Place};
use portcullis_translate::{Diagnosis, Reason};
use serde_json::Value;

use super::checked::{CheckedObject, Finding};
use super::routed_clusters::RoutedClusters;
use super::upstreams::{CheckedUpstreams, is_upstream};
use crate::gateway_objects::{NOT_USED, gateway_objects, service_ports};
use crate::routed::unfit;

/// The outcome of objects of the Gateway API.
#[derive(Debug, Default)]
pub(super) struct CheckedGatewayApi {
    pub(super) objects: Vec<CheckedObject>,
    /// Objects that are not here and are assumed to exist.
    pub(super) notes: Vec<String>,
}

/// The control plane that would have the objects.
pub(super) struct AssumedControlPlane<'a> {
    pub(super) home_namespace: &'a str,
    /// The `GatewaySettings` that a flag names.
    pub(super) settings_name: Option<&'a str>,
    /// `GatewaySettings` that are refused, and why.
    pub(super) refused_settings: BTreeMap<String, String>,
    /// `allowLoopbackUpstreams` of the settings.
    pub(super) allow_loopback: bool,
    pub(super) owners: &'a Settlement,
}

/// One document that can be read.
struct ReadDocument<'a> {
    object: GatewayApiObject,
    name: ObjectName,
    kind: &'a str,
    place: &'a Place,
}

/// Whether there is an object of the Gateway API, or one of ours that is judged with them.
pub(super) fn has_any(objects: &ObjectSet) -> bool {
    objects.others.iter().any(|document| is_gateway_api(document) || is_upstream(document))
}

/// Whether a diagnosis calls a document ignored that is checked here, or is needed for that.
pub(super) fn is_checked(objects: &ObjectSet, diagnosis: &FileDiagnosis) -> bool {
    let is_at = |place: &Place| *place.file == *diagnosis.file && Some(place.spans.find("kind")) == diagnosis.at;
    let known =
        |document: &Value| !matches!(read_object(document), Err(ReadError::Kind(_))) || !is_gateway_api(document);
    let documents = objects.others.iter().zip(&objects.others_places);
    has_any(objects) && documents.into_iter().any(|(document, place)| is_at(place) && known(document))
}

/// Checks all objects. `clusters` are the `UpstreamClusters` beside them, and to which of these routes may lead, `policies` those that
/// are attached to others than these.
pub(super) fn check(
    objects: &ObjectSet,
    (clusters, routed): (&[Diagnosis], &RoutedClusters<'_>),
    policies: &AttachedPolicies,
    control_plane: &AssumedControlPlane<'_>,
) -> CheckedGatewayApi {
    let mut checked = CheckedGatewayApi::default();
    let mut documents: Vec<ReadDocument<'_>> = Vec::new();
    let mut seen = BTreeSet::new();
    for (value, place) in objects.others.iter().zip(&objects.others_places).filter(|(value, _)| is_gateway_api(value)) {
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        let name = name_of(value);
        match read_object(value) {
            // Another kind of the group is ignored, as every object that is not of Portcullis.
            Err(ReadError::Kind(_)) => {}
            Err(error) => checked.objects.push(invalid(kind, &name, place, error.to_string())),
            Ok(_) if !seen.insert((kind, name.clone())) => {
                checked.objects.push(invalid(kind, &name, place, "another one has the same name".to_owned()));
            }
            Ok(object) => documents.push(ReadDocument { object, name, kind, place }),
        }
    }
    let mut upstreams = CheckedUpstreams::of(objects, &policies.at_upstreams, control_plane.allow_loopback);
    let mut read = gateway_objects(documents.iter().map(|document| document.object.clone()));
    read.upstreams = std::mem::take(&mut upstreams.objects);
    let mut inventory = Inventory {
        door_policies: policies.at_doors.clone(),
        upstream_policies: policies.at_upstreams.clone(),
        owners: control_plane.owners.clone(),
        settings: usable_settings(objects, &read, control_plane),
        ..inventory(objects, clusters, control_plane.home_namespace)
    };
    inventory.upstreams = std::mem::take(&mut upstreams.states);
    let mut attached = attach(&read, &inventory);
    inventory.unfit_policies = unfit(&attached, objects, &policies.at_upstreams);
    inventory.judging_clusters = routed.without_connections(&attached.passed_clusters);
    // Those of upstreams are their states.
    inventory.passing_clusters = routed.without_requests(&attached.requested_clusters);
    let is_refused = !(inventory.judging_clusters.is_empty() && inventory.passing_clusters.is_empty());
    if is_refused || !inventory.unfit_policies.is_empty() {
        attached = attach(&read, &inventory);
    }
    let mut closures = routed.translated(std::mem::take(&mut upstreams.resolved)).closures(&attached);
    closures.apply(&mut attached);
    checked.notes.append(&mut closures.notes);
    checked.notes.append(&mut upstreams.notes);
    checked.objects.extend(upstreams.outcomes(&attached));
    let own_classes = read.classes.iter().filter(|class| class.spec.controller_name == CONTROLLER_NAME);
    checked.notes.extend(own_classes.filter_map(|class| assumed_settings(class, &inventory.settings)));
    for document in &documents {
        checked.objects.push(outcome(document, &attached, &mut checked.notes));
    }
    checked.notes.sort();
    checked.notes.dedup();
    checked
}

fn name_of(document: &Value) -> ObjectName {
    let text = |field: &str| document.pointer(field).and_then(Value::as_str).unwrap_or_default();
    ObjectName::new(text("/metadata/namespace"), text("/metadata/name"))
}

fn inventory(objects: &ObjectSet, clusters: &[Diagnosis], home_namespace: &str) -> Inventory {
    let owned = |diagnosis: &Diagnosis| (diagnosis.name.clone(), diagnosis.names.iter().cloned().collect());
    let labels = |document: &Value| {
        let labels = document.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        // The API server sets it, whatever the file has.
        labels.chain([(NAMESPACE_NAME_LABEL.to_owned(), name_of(document).name)]).collect()
    };
    let of_kind = |kind: &'static str| {
        let is_it = move |document: &&Arc<Value>| document.get("kind").and_then(Value::as_str) == Some(kind);
        objects.others.iter().filter(is_it)
    };
    let services = of_kind("Service").map(|document| (name_of(document), service_ports(document)));
    let namespaces = of_kind("Namespace").map(|document| (name_of(document).name, labels(document)));
    Inventory {
        home_namespace: home_namespace.to_owned(),
        clusters: clusters.iter().map(owned).collect(),
        namespaces: namespaces.collect::<BTreeMap<_, _>>(),
        services: services.collect(),
        ..Inventory::default()
    }
}

/// The `GatewaySettings` that classes may name: those among the objects, and none but that of the flag if there is one.
fn usable_settings(
    objects: &ObjectSet,
    read: &GatewayObjects,
    control_plane: &AssumedControlPlane<'_>,
) -> BTreeMap<String, Usability> {
    let flag = control_plane.settings_name;
    let used = objects.settings.iter().map(|settings| {
        let name = name_of(settings).name;
        let refused = control_plane.refused_settings.get(&name).cloned();
        (name, refused.map_or(Usability::Usable, Usability::Malformed))
    });
    let others = read.classes.iter().filter_map(|class| {
        let name = &class.spec.parameters_ref.as_ref()?.name;
        flag.is_some_and(|flag| flag != name).then(|| (name.clone(), Usability::Malformed(NOT_USED.to_owned())))
    });
    used.chain(others).collect()
}

/// The settings of a class that may be those of `--settings-name`, or not.
fn assumed_settings(class: &GatewayClass, settings: &BTreeMap<String, Usability>) -> Option<String> {
    let name = &class.spec.parameters_ref.as_ref().filter(|reference| reference.kind == SETTINGS_KIND)?.name;
    (!settings.contains_key(name)).then(|| {
        let class = &class.metadata.name;
        format!("GatewaySettings {name} of GatewayClass {class} is not among the objects; it is assumed to be that of --settings-name")
    })
}

fn outcome(document: &ReadDocument<'_>, attached: &Attached, notes: &mut Vec<String>) -> CheckedObject {
    let mut object = ObjectReport::new(document);
    match &document.object {
        GatewayApiObject::GatewayClass(_) => match attached.classes.iter().find(|one| one.name == document.name.name) {
            Some(verdict) => object.add("", &verdict.conditions, "spec"),
            None => object.note_of_other_controller("spec.controllerName"),
        },
        GatewayApiObject::Gateway(_) => match attached.gateways.iter().find(|one| one.name == document.name) {
            Some(verdict) => object.add_gateway(verdict, notes),
            None => object.note_of_other_controller("spec.gatewayClassName"),
        },
        GatewayApiObject::HttpRoute(route) => object.add_route(&route.spec.parent_refs, attached, notes),
        GatewayApiObject::TlsRoute(route) => object.add_route(&route.spec.parent_refs, attached, notes),
        GatewayApiObject::ReferenceGrant(grant) => {
            let parts = grant.spec.from.iter().map(|one| &one.other).chain(grant.spec.to.iter().map(|one| &one.other));
            if !(grant.spec.other.is_empty() && parts.into_iter().all(OtherFields::is_empty)) {
                object.find(
                    true,
                    ProblemCode::Invalid,
                    "spec",
                    "it has a field that is not known, and permits nothing",
                );
            }
        }
    }
    object.done()
}

/// The outcome of one document, as it grows.
struct ObjectReport<'a> {
    document: &'a ReadDocument<'a>,
    conditions: Vec<String>,
    findings: Vec<Finding>,
    is_conflicted: bool,
}

impl<'a> ObjectReport<'a> {
    fn new(document: &'a ReadDocument<'a>) -> Self {
        Self { document, conditions: Vec::new(), findings: Vec::new(), is_conflicted: false }
    }

    fn done(mut self) -> CheckedObject {
        self.findings.sort_by_key(|finding| finding.at);
        let is_bad = self.findings.iter().any(|finding| finding.is_error);
        let reason = if self.is_conflicted { Reason::Conflicted } else { Reason::Invalid };
        CheckedObject {
            kind: self.document.kind.to_owned(),
            name: self.document.name.to_string(),
            reason: if is_bad { reason } else { Reason::Accepted },
            conditions: self.conditions,
            findings: self.findings,
        }
    }

    fn add_gateway(&mut self, verdict: &GatewayVerdict, notes: &mut Vec<String>) {
        self.add("", &verdict.conditions, "spec");
        for (index, listener) in verdict.listeners.iter().enumerate() {
            let scope = format!("listener {}: ", listener.name);
            self.add(&scope, &listener.conditions, &format!("spec.listeners[{index}]"));
            let kinds: Vec<&str> = listener.supported_kinds.iter().map(|kind| kind.as_str()).collect();
            self.conditions.push(format!(
                "{scope}kinds [{}], attached routes {}",
                kinds.join(" "),
                listener.attached_routes
            ));
        }
        self.add_notes(&verdict.notes, notes);
    }

    fn add_route(&mut self, parents: &[ParentReference], attached: &Attached, notes: &mut Vec<String>) {
        let is_it = |one: &&RouteVerdict| one.name == self.document.name && one.kind.as_str() == self.document.kind;
        let Some(verdict) = attached.routes.iter().find(is_it) else { return };
        for parent in &verdict.parents {
            let index = parents.iter().position(|one| *one == parent.parent).unwrap_or_default();
            self.add(
                &format!("parent {}: ", parent.parent.name),
                &without_notes(&parent.conditions, &verdict.notes),
                &format!("spec.parentRefs[{index}]"),
            );
        }
        if verdict.parents.is_empty() {
            self.add("", &verdict.alone, "spec");
            let name = &self.document.name;
            notes.push(format!("no Gateway of {} {name} is among the objects; it may not attach", self.document.kind));
        }
        self.add_notes(&verdict.notes, notes);
    }

    fn add_notes(&mut self, all: &[Note], notes: &mut Vec<String>) {
        for note in all {
            match note.kind {
                NoteKind::NoEffect => self.find(false, ProblemCode::NoEffect, &note.path, &note.message),
                NoteKind::Assumed => notes.push(note.message.clone()),
            }
        }
    }

    /// Adds conditions, and a finding for each that its author should know. `path` is the field of those whose message names
    /// none.
    fn add(&mut self, scope: &str, conditions: &[ConditionVerdict], path: &str) {
        for one in conditions {
            let status = one.written_status();
            // Of policies the message says which.
            let says = if one.kind.ends_with("PolicyAffected") { &one.message } else { one.reason };
            self.conditions.push(format!("{scope}{} {status} {says}", one.kind));
            let Some((is_error, code)) = severity(one, scope.starts_with("parent ")) else { continue };
            self.is_conflicted |= one.reason == "HostnameConflict";
            let named = one.message.split([' ', ',']).find(|word| word.starts_with("spec."));
            let named = named.map_or(path, |word| word.trim_end_matches(':')).to_owned();
            self.find(is_error, code, &named, &format!("{scope}{}: {}", one.reason, one.message));
        }
    }

    fn note_of_other_controller(&mut self, path: &str) {
        let message = format!("not of {CONTROLLER_NAME}: another controller judges it");
        self.find(false, ProblemCode::NoEffect, path, &message);
    }

    fn find(&mut self, is_error: bool, code: ProblemCode, path: &str, message: &str) {
        self.findings.push(finding(self.document.place, is_error, code, path, message));
    }
}

/// The conditions of a parent, without the notes in their messages: these are findings of their own.
fn without_notes(conditions: &[ConditionVerdict], notes: &[Note]) -> Vec<ConditionVerdict> {
    let notes: BTreeSet<String> = notes.iter().map(Note::in_words).collect();
    let without = |one: &ConditionVerdict| {
        let others: Vec<&str> = one.message.split("; ").filter(|part| !notes.contains(*part)).collect();
        ConditionVerdict { message: others.join("; "), ..one.clone() }
    };
    conditions.iter().map(without).collect()
}

/// Whether a condition is a finding, and of what kind. Those that sum up others are none, nor is the message of an accepted
/// Gateway, which repeats its notes.
fn severity(condition: &ConditionVerdict, is_of_route: bool) -> Option<(bool, ProblemCode)> {
    match (condition.kind, condition.status, condition.reason) {
        (_, _, "ListenersNotValid" | "ListenersNotResolved") => None,
        (_, false, "PolicyLeftOut") => Some((false, ProblemCode::Caution)),
        ("Accepted", false, _) | ("PartiallyInvalid", true, _) => Some((true, ProblemCode::Invalid)),
        ("ResolvedRefs", false, _) => Some((true, ProblemCode::Unresolved)),
        ("OverlappingTLSConfig" | "InsecureFrontendValidationMode", true, _) => Some((false, ProblemCode::Caution)),
        // A name that is lost while others remain.
        ("Accepted", true, _) if is_of_route && !condition.message.is_empty() => Some((false, ProblemCode::Caution)),
        _ => None,
    }
}

fn invalid(kind: &str, name: &ObjectName, place: &Place, message: String) -> CheckedObject {
    CheckedObject {
        kind: kind.to_owned(),
        name: name.to_string(),
        reason: Reason::Invalid,
        conditions: Vec::new(),
        findings: vec![finding(place, true, ProblemCode::Invalid, "", &message)],
    }
}

fn finding(place: &Place, is_error: bool, code: ProblemCode, path: &str, message: &str) -> Finding {
    let problem = Problem::coded(code, path, message);
    Finding { file: place.file.to_string(), at: Some(place.spans.find(path)), is_error, problem }
}
