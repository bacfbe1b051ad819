//! `portcullis crd` as an operator meets it.

#![cfg(test)]

use std::process::{Command, Output};

use serde_json::{Value, json};

fn crd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portcullis")).env_clear().arg("crd").args(arguments).output().unwrap()
}

fn text(arguments: &[&str]) -> String {
    let printed = crd(arguments);
    assert!(printed.status.success() && printed.stderr.is_empty());
    String::from_utf8(printed.stdout).unwrap()
}

#[test]
fn definition_names_the_kind_and_its_columns() {
    let printed: Value = serde_json::from_str(&text(&["--output", "json"])).unwrap();
    let definition = &printed["items"][0];
    assert_eq!(definition["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(definition["metadata"]["name"], "upstreamclusters.proxy.kubegateway.io");
    assert_eq!(definition["spec"]["scope"], "Cluster");
    assert_eq!(definition["spec"]["names"]["shortNames"], json!(["uc"]));
    let version = &definition["spec"]["versions"][0];
    assert_eq!(version["name"], "v1alpha1");
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let names: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Accepted", "Programmed", "Ready", "Age", "Reason", "Message", "Gateways", "Endpoints"]);
    let settings = &printed["items"][1];
    assert_eq!(settings["metadata"]["name"], "gatewaysettings.portcullis.dev");
    assert_eq!(settings["spec"]["scope"], "Cluster");
    assert_eq!(settings["spec"]["versions"][0]["subresources"], json!({"status": {}}));
    let instance = &printed["items"][2];
    assert_eq!(instance["metadata"]["name"], "instances.portcullis.dev");
    assert_eq!(instance["spec"]["scope"], "Cluster");
    let selector = &instance["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["clustersSelector"];
    // Without these words the server would take requirements away, and the selector would select all.
    assert_eq!(selector["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!(selector["properties"]["matchLabels"]["additionalProperties"], json!({"type": "string"}));
}

#[test]
fn yaml_is_the_default_and_says_the_same_to_old_and_new_readers() {
    let (yaml, json) = (text(&[]), text(&["-o", "json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    for strict_booleans in [true, false] {
        let read = |document| -> Value {
            let options = serde_saphyr::options! { strict_booleans: strict_booleans };
            serde_saphyr::from_str_with_options(document, options).unwrap()
        };
        let read: Vec<Value> = yaml.split("---\n").map(read).collect();
        assert_eq!(json!(read), json["items"], "strict booleans: {strict_booleans}");
    }
    // To kubectl, which reads YAML 1.1, a bare one is a boolean.
    let bare = yaml.lines().map(|line| line.trim_start_matches([' ', '-'])).find(|word| ["on", "off"].contains(word));
    assert_eq!(bare, None);
    assert_eq!(text(&[]), yaml, "the same every time");
}

#[test]
fn unknown_form_is_refused() {
    assert_eq!(crd(&["-o", "toml"]).status.code(), Some(2));
}
