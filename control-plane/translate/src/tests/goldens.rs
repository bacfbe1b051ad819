//! `goldens/`: a folder for each case. `in.yaml` holds `UpstreamCluster`s with `${...}` for keys, `settings.json` what the
//! case adds to the `spec` of the `GatewaySettings`, `out.txt` what comes out: of the case `minimal` everything, of others
//! what differs from it. `UPDATE_GOLDENS=1 cargo test --workspace --lib -- goldens` writes them.
//!
//! That Envoy accepts the same cases, is a test in `testenv/e2e/tests/stub/goldens.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use portcullis_api::{Discovered, Settings, cluster_definition, with_discovered};
use serde_json::{Value, json};

use super::fixture::{Pki, TOKEN, base64, discovered, translated};
use super::flat::flat;
use super::render::render;
use crate::Translation;
use crate::resource::{Resource, type_urls};
use crate::settings::choose_settings;

/// Lines by resource.
type Lines = BTreeMap<String, Vec<String>>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens")
}

fn cases() -> Vec<String> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.collect();
    names.sort();
    names
}

fn documents(case: &str, pki: &Pki) -> Vec<Value> {
    let mut text = fs::read_to_string(folder().join(case).join("in.yaml")).unwrap();
    for (name, pair) in [
        ("serving", &pki.serving),
        ("client", &pki.client),
        ("upstream-ca", &pki.upstream_ca),
        ("client-ca", &pki.client_ca),
    ] {
        text = text.replace(&format!("${{{name}.cert}}"), &base64(&pair.cert));
        text = text.replace(&format!("${{{name}.key}}"), &base64(&pair.key));
    }
    let text = text.replace("${token}", &base64(TOKEN));
    assert!(!text.contains("${"), "{case}: a key that is not known");
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap();
    documents.into_iter().map(with_servers).collect()
}

/// A case writes discovered servers where no source can bring any.
fn with_servers(document: Value) -> Value {
    let Some(servers) = document.pointer("/status/discovered/servers").and_then(Value::as_array) else {
        return document;
    };
    let server = |server: &Value| discovered(server["address"].as_str().unwrap(), server["zone"].as_str().unwrap());
    let servers = Discovered::Servers(servers.iter().map(server).collect());
    with_discovered(&Arc::new(document), Some(&servers)).as_ref().clone()
}

fn settings(case: &str, pki: &Pki) -> Settings {
    let pair = json!({"certData": base64(&pki.gateway.cert), "keyData": base64(&pki.gateway.key)});
    let mut spec = json!({"instance": "lab", "defaultCertificate": pair});
    if let Ok(text) = fs::read_to_string(folder().join(case).join("settings.json")) {
        let text = text.replace("${client-ca.cert}", &base64(&pki.client_ca.cert));
        let more: Value = serde_json::from_str(&text).unwrap();
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
    let document = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "lab"}, "spec": spec,
    });
    let choice = choose_settings(&[document], None);
    choice.settings.unwrap_or_else(|| panic!("{case}: {:?}", choice.diagnoses))
}

/// Everything that a case leads to. Of secrets only that they are there.
fn outcome(case: &str, pki: &Pki) -> Lines {
    let documents = documents(case, pki);
    let translation = translated(&settings(case, pki), &documents);
    let mut lines = Lines::new();
    // Cases of other names compare, too.
    let first = documents[0]["metadata"]["name"].as_str().unwrap();
    let neutral = |text: &str| pki.hide(text).replace(first, "NAME").replace(&first.replace('.', "_"), "NAME");
    lines.insert("0 diagnoses".to_owned(), diagnosis_lines(&translation).iter().map(|line| neutral(line)).collect());
    for resource in translation.resources() {
        let kind = resource.type_url.rsplit('.').next().unwrap();
        let rendered = if resource.type_url == type_urls::secret() { String::new() } else { render(resource) };
        let body = rendered.split_once('\n').map(|(_, body)| body).unwrap_or_default();
        let values = flat(&neutral(body)).into_iter().map(without_identity).collect();
        lines.insert(format!("{kind} {}", neutral(&resource.name)), values);
    }
    lines
}

/// The identity is a hash of keys that are new in every run.
fn without_identity(line: String) -> String {
    match line.split_once(".identity = ") {
        Some((place, value)) => format!("{place}.identity = {}/<hash>\"", value.rsplit_once('/').unwrap().0),
        None => line,
    }
}

fn diagnosis_lines(translation: &Translation) -> Vec<String> {
    let mut lines = Vec::new();
    for diagnosis in &translation.diagnoses {
        let state = if diagnosis.accepted { "accepted" } else { "refused" };
        lines.push(format!("{} {state} {}: serves {}", diagnosis.name, diagnosis.reason, diagnosis.names.join(" ")));
        lines.extend(diagnosis.problems.iter().map(|problem| format!("problem {problem}")));
        lines.extend(diagnosis.cautions.iter().map(|caution| format!("warning {caution}")));
    }
    lines
}

fn whole(lines: &Lines) -> String {
    lines.iter().map(|(resource, values)| format!("{resource}\n{}", indented(" ", values))).collect()
}

fn indented<'l>(mark: &str, values: impl IntoIterator<Item = &'l String>) -> String {
    values.into_iter().map(|value| format!(" {mark} {value}\n")).collect()
}

/// The differences in both directions, resource by resource.
fn difference(lines: &Lines, minimal: &Lines) -> String {
    let mut text = String::new();
    let resources: BTreeSet<&String> = lines.keys().chain(minimal.keys()).collect();
    for resource in resources {
        match (minimal.get(resource), lines.get(resource)) {
            (Some(before), Some(now)) if before == now => {}
            (Some(before), Some(now)) => {
                let (was, is): (BTreeSet<_>, BTreeSet<_>) = (before.iter().collect(), now.iter().collect());
                let gone = indented("-", before.iter().filter(|value| !is.contains(value)));
                let came = indented("+", now.iter().filter(|value| !was.contains(value)));
                text += &format!("{resource}\n{gone}{came}");
            }
            (Some(_), None) => text += &format!("- {resource}\n"),
            (None, now) => text += &format!("+ {resource}\n{}", indented("+", now.into_iter().flatten())),
        }
    }
    text
}

#[test]
fn every_case_leads_to_what_its_folder_says() {
    let pki = Pki::new();
    let minimal = outcome("minimal", &pki);
    let mut wrong = Vec::new();
    for case in cases() {
        let lines = outcome(&case, &pki);
        let text = if case == "minimal" { whole(&lines) } else { difference(&lines, &minimal) };
        let path = folder().join(&case).join("out.txt");
        if std::env::var_os("UPDATE_GOLDENS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        if fs::read_to_string(&path).unwrap_or_default() != text {
            wrong.push(format!("{case}:\n{text}"));
        }
        assert!(!text.contains(TOKEN) && !text.contains("PRIVATE KEY"), "{case}");
    }
    assert!(wrong.is_empty(), "UPDATE_GOLDENS=1 writes them anew\n{}", wrong.join("\n"));
}

#[test]
fn traces_change_the_listener_and_nothing_else_that_is_there() {
    let pki = Pki::new();
    for case in cases() {
        let documents = documents(&case, &pki);
        let off = Settings { tracing: None, ..settings(&case, &pki) };
        let on = Settings { tracing: settings("traces-of-trusted-parents", &pki).tracing, ..off.clone() };
        let (off, on) = (translated(&off, &documents), translated(&on, &documents));
        let (off, on) = (off.resources(), on.resources());
        let is_listener = |one: &&&Arc<Resource>| one.type_url == type_urls::listener();
        let left = off.iter().filter(|one| !is_listener(one)).all(|one| on.contains(one));
        assert!(left, "{case}: Envoy would see another resource change");
        let new = on.iter().filter(|one| !off.contains(one) && !is_listener(one));
        let new: Vec<_> = new.map(|one| one.name.as_ref()).collect();
        let of_collector = |name: &&&str| name.contains("/-/-/collector");
        assert_eq!((new.iter().filter(of_collector).count(), new.len()), (2, 2), "{case}: {new:?}");
    }
}

/// The places of all values below a document's `spec`, lists without their indices.
fn places(value: &Value, place: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| places(value, &format!("{place}.{name}"), found));
        }
        Value::Array(items) => items.iter().for_each(|item| places(item, &format!("{place}[]"), found)),
        _ => drop(found.insert(place.to_owned())),
    }
    found.insert(place.to_owned());
}

fn fields(schema: &Value, place: &str, found: &mut BTreeSet<String>) {
    // A field by its former name is refused.
    let is_refused = |field: &Value| field["description"].as_str().is_some_and(|text| text.starts_with("Refused: "));
    let known = schema["properties"].as_object().into_iter().flatten();
    for (name, field) in known.filter(|(_, field)| !is_refused(field)) {
        fields(field, &format!("{place}.{name}"), found);
    }
    if let Some(items) = schema.get("items") {
        fields(items, &format!("{place}[]"), found);
    }
    found.insert(place.to_owned());
}

/// Fields without a case of their own, because they are replaced before translation, are another spelling, or are refused.
/// Policies and limits of profiles are those of the spec.
const ELSEWHERE: [&str; 5] = [
    ".portcullis.references",
    ".flowControl.schemas",
    ".portcullis.access.allow[].message",
    ".portcullis.profiles[].flowControl",
    ".portcullis.profiles[].dispatchPolicies",
];

#[test]
fn every_field_stands_in_a_case() {
    let pki = Pki::new();
    let mut written = BTreeSet::new();
    for document in cases().iter().flat_map(|case| documents(case, &pki)) {
        places(&document["spec"], "", &mut written);
    }
    let definition = cluster_definition();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut known = BTreeSet::new();
    fields(schema, "", &mut known);
    let is_elsewhere = |field: &&String| ELSEWHERE.iter().any(|other| field.starts_with(other));
    // Each part of a shadow has a case, and is of the type of what it takes the place of.
    let part = |field: &str| {
        field.strip_prefix(".portcullis.shadow").map(|part| part.replacen(".access", ".portcullis.access", 1))
    };
    let real = |field: &str| part(field).filter(|part| part.contains(['[', '.'])).unwrap_or_else(|| field.to_owned());
    let known: BTreeSet<String> = known.iter().map(|field| real(field)).filter(|field| !field.is_empty()).collect();
    for part in [".dispatchPolicies", ".flowControl", ".access"] {
        assert!(written.contains(&format!(".portcullis.shadow{part}")), "{part}");
    }
    let missing: Vec<_> = known.iter().filter(|field| !written.contains(*field) && !is_elsewhere(field)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
