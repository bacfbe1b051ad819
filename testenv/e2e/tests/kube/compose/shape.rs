use std::path::Path;

use portcullis_harness::{deps, project_root};
use serde_json::json;

use super::dockerfile::Dockerfile;
use super::project::{Project, Service, Source};
use crate::declared::{is_noticed, parsed};

/// The stages that become images and run.
const IMAGES: [&str; 4] = ["control-plane", "gateway", "kubernetes", "tools"];
/// The stages of which an image is nothing but a file.
const FILES: [(&str, &str); 2] = [("module", "/libportcullis.so"), ("wasm", "/plugin.wasm")];

/// As `docker compose config` reads it, and as BuildKit does, with its lint rules.
#[test]
fn dockers_own_parsers_have_nothing_to_say() {
    for (kind, name, from, to) in [
        ("compose", "docker-compose.yml", "cap_drop:", "cap_drap:"),
        ("compose", "docker-compose.yml", "etcd: {condition", "etcetera: {condition"),
        ("dockerfile", "Dockerfile", "ENTRYPOINT", "ENTRYPOT"),
        ("dockerfile", "Dockerfile", "AS gateway", "as gateway"),
    ] {
        let path = project_root().join(name);
        let Some(found) = parsed(kind, &path) else { return };
        assert_eq!(found, [""; 0], "{name}");
        is_noticed(kind, &std::fs::read_to_string(path).unwrap(), from, to);
    }
}

#[test]
fn every_service_is_confined() {
    let project = Project::read();
    assert_eq!(project.services.len(), 14);
    for (name, service) in &project.services {
        let fields = &service.fields;
        assert_eq!(fields["user"], "65532:65532", "{name}");
        assert_eq!(fields["read_only"], true, "{name}");
        assert_eq!(fields["cap_drop"], json!(["ALL"]), "{name}");
        assert_eq!(fields["security_opt"], json!(["no-new-privileges:true"]), "{name}");
        for field in ["privileged", "cap_add", "pid", "ipc", "devices"] {
            assert!(fields[field].is_null(), "{name}: {field}");
        }
        for port in service.texts("ports") {
            assert!(port.starts_with("127.0.0.1:"), "{name}: {port} is for this machine");
        }
        assert!(!fields.to_string().contains("docker.sock"), "{name}");
    }
}

#[test]
fn keys_are_mounted_where_they_are_needed() {
    let project = Project::read();
    let volumes = project.whole["volumes"].as_object().unwrap();
    for (name, service) in &project.services {
        for mount in service.mounts() {
            match &mount.source {
                Source::Volume(volume) => assert!(volumes.contains_key(volume), "{name}: {volume}"),
                Source::Path(path) => {
                    assert!(mount.read_only && project_root().join(path).exists(), "{name}: {mount:?}");
                }
            }
            let Source::Volume(volume) = &mount.source else { continue };
            let writes = matches!(
                (name.as_str(), volume.as_str()),
                ("certificates", _)
                    | ("etcd", "etcd")
                    | ("store-layout" | "store-objects", "store-authority" | "store-member")
                    | ("store" | "store-apiserver", "store-member")
                    | ("store-objects", "store-control-plane-access" | "store-users-access")
            );
            assert_eq!(!mount.read_only, writes, "{name}: {mount:?}");
        }
    }
    for (volume, users) in [
        ("kubernetes-certs", &["apiserver-1", "apiserver-2", "certificates"][..]),
        ("control-plane-certs", &["certificates", "control-plane", "store-control-plane", "store-objects"]),
        ("gateway-certs", &["certificates", "gateway"]),
        ("users-certs", &["certificates", "kubectl", "rights"]),
        ("etcd", &["etcd"]),
        ("store-authority", &["store-layout", "store-objects"]),
        ("store-member", &["store", "store-apiserver", "store-layout", "store-objects"]),
        ("store-control-plane-access", &["store-control-plane", "store-objects"]),
        ("store-users-access", &["store-kubectl", "store-objects"]),
    ] {
        let uses =
            |service: &Service| service.mounts().iter().any(|mount| mount.source == Source::Volume(volume.to_owned()));
        let found: Vec<&str> =
            project.services.iter().filter(|(_, one)| uses(one)).map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, users, "{volume}");
    }
    for name in ["certificates", "store-layout"] {
        assert_eq!(project.services[name].fields["network_mode"], "none", "{name}");
    }
}

#[test]
fn dependency_has_a_health_check() {
    let project = Project::read();
    for (name, service) in &project.services {
        for (other, condition) in service.dependencies() {
            let awaited = project.services.get(&other).unwrap_or_else(|| panic!("{name} waits for {other}"));
            match condition.as_str() {
                "service_healthy" => assert!(awaited.health_check().is_some(), "{name} waits for {other}"),
                "service_completed_successfully" => {
                    assert!(awaited.fields["restart"].is_null(), "{other} would never end")
                }
                other => panic!("{name}: {other}"),
            }
        }
        // `docker compose up --wait` takes the end of a service for a failure unless one that goes on waits for it.
        let waits = |one: &Service| {
            let end = (name.clone(), "service_completed_successfully".to_owned());
            one.health_check().is_some() && one.dependencies().contains(&end)
        };
        let ends = service.health_check().is_none() && service.fields["profiles"].is_null();
        assert!(!ends || project.services.values().any(waits), "{name}");
        // Services that run without end are restarted.
        assert_eq!(service.fields["restart"] == "unless-stopped", service.health_check().is_some(), "{name}");
    }
    let gateway = &project.services["gateway"];
    let command = gateway.texts("command");
    let seconds = |flag: &str| -> u64 {
        let value = command.iter().find_map(|word| word.strip_prefix(flag)).unwrap();
        value.trim_end_matches('s').parse().unwrap()
    };
    let patience = gateway.fields["stop_grace_period"].as_str().unwrap().trim_end_matches('s').parse::<u64>().unwrap();
    assert!(patience >= seconds("--shutdown-delay=") + seconds("--drain-timeout=") + 10);
}

#[test]
fn programs_of_services_are_in_their_images() {
    let (project, dockerfile) = (Project::read(), Dockerfile::read());
    for (name, service) in &project.services {
        let target = service.target();
        let image = service.fields["image"].as_str().unwrap();
        assert!(image.starts_with(&format!("portcullis.invalid/{target}:")), "{name}: {image}");
        assert_eq!(service.fields["pull_policy"], "build", "{name}: no registry is asked for what is built here");
        let files = dockerfile.files(target);
        let program = service.command(&dockerfile).remove(0);
        let checks = service.health_check().map(|mut words| words.remove(0));
        // The start scripts are what `portcullis init` writes.
        let programs = [Some(program), checks].into_iter().flatten();
        for program in programs.filter(|program| !program.starts_with("/store/")) {
            assert!(files.contains_key(&format!("/usr/local/bin/{program}")), "{name}: {program} in {target}");
        }
        for word in service.texts("command").iter().filter_map(|word| word.split_once("=/usr/local/")) {
            let path = format!("/usr/local/{}", word.1);
            assert!(files.keys().any(|file| file.starts_with(&path)), "{name}: {path}");
        }
    }
}

#[test]
fn images_run_as_nobody_and_hold_what_is_there() {
    let dockerfile = Dockerfile::read();
    for image in IMAGES {
        assert_eq!(dockerfile.last(image, "USER"), Some("65532:65532"), "{image}");
    }
    let ignored = std::fs::read_to_string(project_root().join(".dockerignore")).unwrap();
    let is_ignored = |path: &str| ignored.lines().any(|line| path == line || path.starts_with(&format!("{line}/")));
    let mut known: Vec<&str> = Vec::new();
    for stage in &dockerfile.stages {
        for copy in stage.copies() {
            match copy.stage {
                Some(other) => assert!(known.contains(&other), "{}: no stage {other} before it", stage.name),
                None => {
                    for source in copy.sources {
                        assert!(
                            project_root().join(source).exists() && !is_ignored(source),
                            "{}: {source}",
                            stage.name
                        );
                    }
                }
            }
        }
        known.push(&stage.name);
    }
    // The C library of compilers' images is not newer than that of what is shipped.
    for name in ["BASE", "RUST", "GO"] {
        assert!(dockerfile.arguments[name].contains("trixie"), "{name}");
    }
    let bases = dockerfile.stages.iter().filter(|stage| !known.contains(&stage.from.as_str()));
    let others: Vec<&str> = bases.map(|stage| stage.from.as_str()).filter(|from| !from.contains("trixie")).collect();
    assert_eq!(others, [&dockerfile.arguments["ENVOY"], "scratch", "scratch", "scratch"]);
    for (image, file) in FILES {
        assert_eq!(dockerfile.line(image).len(), 1, "{image} has no base");
        assert_eq!(
            dockerfile.stage(image).copies().last().unwrap().target,
            file,
            "{image}: Istio reads the last layer"
        );
    }
}

#[test]
fn images_that_are_shipped_have_labels_and_an_sbom() {
    let dockerfile = Dockerfile::read();
    for image in ["control-plane", "gateway", "module", "wasm"] {
        let labels = dockerfile.last(image, "LABEL").unwrap();
        for name in ["title", "version", "revision", "licenses", "source"] {
            assert!(labels.contains(&format!("org.opencontainers.image.{name}=")), "{image}: {name}");
        }
        let files = dockerfile.files(image);
        assert!(files.values().any(|source| source.ends_with(".cdx.json")), "{image}: {files:?}");
        assert!(files.keys().any(|file| file.ends_with("/LICENSE")), "{image}: {files:?}");
    }
    // Crates are not all that is in it.
    assert_eq!(dockerfile.files("gateway")["/usr/share/sbom/envoy.cdx.json"], "/out/envoy.cdx.json");
}

/// Paths between the stages are those at which the build leaves its outcome.
#[test]
fn versions_and_paths_are_those_of_the_project() {
    let dockerfile = Dockerfile::read();
    let manifest = std::fs::read_to_string(project_root().join("Cargo.toml")).unwrap();
    let rust = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    let rust = format!("rust:{}-", rust.trim_matches('"'));
    assert!(dockerfile.stage("build").from.starts_with(&rust), "{}", dockerfile.stage("build").from);
    let module = std::fs::read_to_string(project_root().join("testenv/kube/go.mod")).unwrap();
    let go = module.lines().find_map(|line| line.strip_prefix("go ")).unwrap();
    let go: Vec<&str> = go.split('.').take(2).collect();
    let golang = format!("golang:{}-", go.join("."));
    assert!(dockerfile.stage("build-kubernetes").from.starts_with(&golang), "{golang}");
    let script = std::fs::read_to_string(project_root().join("deploy/images/binaries")).unwrap();
    for command in ["--release -p portcullis ", "--profile module -p portcullis-dynamic-module "] {
        assert!(script.contains(command), "{command}");
    }
    let run = |stage: &str| dockerfile.last(stage, "RUN").unwrap();
    assert!(run("build").ends_with("deploy/images/binaries /out"));
    assert!(run("build-kubernetes").ends_with("cp -rL .deps/kube/current /out"));
    let file = |stage: &str, path: &str| dockerfile.files(stage)[path].clone();
    assert_eq!(file("gateway", "/usr/local/bin/portcullis"), "/out/portcullis");
    assert_eq!(file("gateway", "/usr/local/lib/portcullis/libportcullis.so"), "/out/libportcullis.so");
    let envoy = std::fs::read_to_string(project_root().join("testenv/scripts/versions.env")).unwrap();
    let envoy = envoy.lines().find_map(|line| line.strip_prefix("ENVOY_VERSION=")).unwrap();
    assert!(dockerfile.arguments["ENVOY"].contains(&format!("/envoy:distroless-v{envoy}")), "the tested version");
    let binaries = file("kubernetes", "/usr/local/bin/etcd").replace("/out/", ".deps/kube/current/");
    let Some(kube) = deps::kube_or_skip("dockerfile").unwrap() else { return };
    assert!(kube.etcd.ends_with(Path::new(&binaries)), "{binaries}");
}
