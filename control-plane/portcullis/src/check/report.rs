use std::sync::Arc;

use portcullis_api::{Problem, ProblemCode, Settings, lint_cluster, lint_settings, origins, parse_settings};
use portcullis_sources::{FileDiagnosis, ObjectSet, Place};
use portcullis_translate::{Diagnosis, FilterBuild, Input, Reason, choose_settings};

use super::assumed::{Assumptions, believed};
use super::checked::{CheckReport, CheckedObject, Finding};
use super::gateway_api::{self, AssumedControlPlane};
use super::instances::CheckedInstances;
use super::policies::{self, PolicyPlaces};
use super::routed_clusters::RoutedClusters;
use crate::client_ca::check_client_ca;
use crate::serve::{DividedTranslator, Division, Resolved};
use crate::spanning_policies::spanning_at_doors;

/// Checks every object as the gateway does, and looks for likely mistakes. `home_namespace` is the control plane's own, `settings_name`
/// that of the `GatewaySettings` of all gateways if a flag says it; `now` is in seconds since 1970.
pub(super) fn check_objects(
    objects: &ObjectSet,
    (home_namespace, settings_name): (&str, Option<&str>),
    now: i64,
) -> CheckReport {
    let judged = crate::policies::judge(objects, home_namespace);
    let objects = &crate::policies::merged(objects, &judged.attached);
    let policy_places = PolicyPlaces::of(objects, &judged);
    let without_settings = objects.settings.is_empty();
    let (documents, believes_certificate) = believed(objects);
    let choice = choose_settings(&documents, Some(check_client_ca));
    // Settings that cannot be used are reported; the clusters are checked all the same.
    let settings = choice.settings.unwrap_or_default();
    let ignored = objects.diagnoses.iter().filter(|diagnosis| !gateway_api::is_checked(objects, diagnosis));
    let mut report = CheckReport { objects: ignored.map(file).collect(), notes: Vec::new(), without_settings };
    let refused_settings = choice.diagnoses.iter().filter(|one| !one.accepted);
    let refused_settings = refused_settings.map(|one| (one.name.clone(), one.message.clone())).collect();
    for ((index, document), diagnosis) in objects.settings.iter().enumerate().zip(choice.diagnoses) {
        let Some(place) = objects.settings_places.get(index) else {
            report.objects.push(absent(diagnosis));
            continue;
        };
        let lints = parse_settings(document).map(|raw| lint_settings(&raw, now)).unwrap_or_default();
        report.objects.push(object(diagnosis, place, lints, &|_| None));
    }
    let mut resolved = Resolved::of(objects);
    let instances = CheckedInstances::of(objects, &settings);
    let mut attached = judged.attached.clone();
    attached.refuse_spanning(&instances.refuse_spanning(&mut resolved.documents));
    let spanning = spanning_at_doors(&attached, &judged.doors, instances.owners());
    attached.refuse_spanning_at_doors(&spanning);
    for (diagnosis, document, place) in instances.settings(objects) {
        let lints = parse_settings(document).map(|raw| lint_settings(&raw, now)).unwrap_or_default();
        report.objects.push(object(diagnosis, place, lints, &|_| None));
    }
    let assumed = Assumptions { objects, instances: &instances, believes_certificate };
    let diagnoses = clusters(objects, &resolved, &settings, &instances.division(objects));
    let diagnoses: Vec<Diagnosis> = diagnoses.into_iter().map(|diagnosis| assumed.apply(diagnosis)).collect();
    let routed = RoutedClusters::of(&resolved.documents, &diagnoses, &settings, &assumed);
    let allow_loopback = settings.allow_loopback_upstreams;
    let owners = instances.owners();
    let control_plane = AssumedControlPlane { home_namespace, settings_name, refused_settings, allow_loopback, owners };
    let gateway_api = gateway_api::check(objects, (&diagnoses, &routed), &judged.attached, &control_plane);
    for ((index, place), diagnosis) in objects.cluster_places.iter().enumerate().zip(diagnoses) {
        let lints = resolved.lint(objects, index, |raw| lint_cluster(raw, now));
        let origins = objects.clusters.get(index).map(|document| origins(document)).unwrap_or_default();
        let mut checked = object(diagnosis, place, lints, &|path| policy_places.find(&origins, path));
        let affected = judged.attached.affected(&checked.name).into_iter();
        checked.conditions = affected.map(|one| format!("{} True {}", one.kind, one.message)).collect();
        report.objects.push(checked);
    }
    report.notes = instances.notes();
    report.objects.extend(instances.outcomes(objects));
    let (policies, notes) = policies::outcomes(objects, &judged.objects, &attached);
    report.objects.extend(policies);
    report.objects.extend(gateway_api.objects);
    report.notes.extend(notes.into_iter().chain(gateway_api.notes));
    report.notes.sort();
    report.notes.dedup();
    report
}

fn clusters(objects: &ObjectSet, resolved: &Resolved, settings: &Settings, division: &Division) -> Vec<Diagnosis> {
    let input = Input { settings, clusters: &resolved.documents, filter: FilterBuild::Module };
    let translation = DividedTranslator::default().translate(&input, division);
    let diagnoses = translation.diagnoses.into_iter();
    let explained = |(index, diagnosis): (usize, Arc<Diagnosis>)| {
        let mut diagnosis = Arc::unwrap_or_clone(diagnosis);
        resolved.explain(objects, index, &mut diagnosis);
        diagnosis
    };
    diagnoses.enumerate().map(explained).collect()
}

/// The place of a field that is not the object's own, and its path there.
type Elsewhere<'a> = dyn Fn(&str) -> Option<(&'a Place, String)> + 'a;

fn object(diagnosis: Diagnosis, place: &Place, lints: Vec<Problem>, elsewhere: &Elsewhere<'_>) -> CheckedObject {
    let finding = |is_error: bool| {
        move |problem: Problem| {
            let other = elsewhere(&problem.path);
            let (place, path) = other.map_or_else(|| (place, problem.path.clone()), |(other, path)| (other, path));
            Finding { file: place.file.to_string(), at: Some(place.spans.find(&path)), is_error, problem }
        }
    };
    let lints = lints.into_iter().chain(place.spans.booleans().into_iter().map(boolean));
    let mut findings: Vec<Finding> = diagnosis.problems.into_iter().map(finding(true)).collect();
    findings.extend(diagnosis.cautions.into_iter().chain(lints).map(finding(false)));
    findings.sort_by_key(|finding| finding.at);
    CheckedObject {
        kind: diagnosis.kind,
        name: diagnosis.name,
        reason: diagnosis.reason,
        conditions: Vec::new(),
        findings,
    }
}

/// A text that other readers of the same file take for something else.
fn boolean(path: String) -> Problem {
    let message = "is a boolean to kubectl and others that read YAML 1.1";
    Problem::coded(ProblemCode::Yaml11Boolean, path, message).hint("write it in quotes")
}

/// Settings that a flag names and no file has.
fn absent(diagnosis: Diagnosis) -> CheckedObject {
    let finding = |problem| Finding { file: "--settings-name".to_owned(), at: None, is_error: true, problem };
    CheckedObject {
        kind: diagnosis.kind,
        name: diagnosis.name,
        reason: diagnosis.reason,
        conditions: Vec::new(),
        findings: diagnosis.problems.into_iter().map(finding).collect(),
    }
}

fn file(diagnosis: &FileDiagnosis) -> CheckedObject {
    let code = if diagnosis.refused { ProblemCode::Invalid } else { ProblemCode::NoEffect };
    let problem = Problem::coded(code, "", diagnosis.message.clone());
    let finding = Finding { file: diagnosis.file.clone(), at: diagnosis.at, is_error: diagnosis.refused, problem };
    CheckedObject {
        kind: "File".to_owned(),
        name: diagnosis.file.clone(),
        reason: if diagnosis.refused { Reason::Invalid } else { Reason::Accepted },
        conditions: Vec::new(),
        findings: vec![finding],
    }
}
