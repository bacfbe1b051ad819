//! The conventions of all commands: their calls and their errors.

#![cfg(test)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};

const CLUSTER: &str = "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: a.test}\n";

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_clear().args(arguments);
    command
}

fn told(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn errors_are_printed_whatever_is_logged() {
    for level in ["off", "kube=debug", "info"] {
        for arguments in [
            &["check", "-f", "nofile"][..],
            &["explain", "-f", "nofile", "GET", "/"],
            &["rbac", "-f", "nofile"],
            &["status", "--address", "127.0.0.1:1"],
            &["serve", "--config", "nofile", "--xds-socket", "x.sock", "--http-address", "127.0.0.1:0"],
        ] {
            let output = program(arguments).env("RUST_LOG", level).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{arguments:?}");
            let errors = told(&output).lines().filter(|line| line.starts_with("error: cannot ")).count();
            assert_eq!(errors, 1, "{level} {arguments:?}: {}", told(&output));
        }
    }
    let flags = ["serve", "--config", "nofile", "--xds-socket", "x.sock", "--http-address", "127.0.0.1:0"];
    let output = program(&[&flags[..], &["--log-format", "json"]].concat()).env("RUST_LOG", "off").output().unwrap();
    let line: serde_json::Value = serde_json::from_str(told(&output).trim()).unwrap();
    assert_eq!(line["level"], "ERROR", "a log of JSON stays one");
}

#[test]
fn agent_writes_its_log_as_json_when_asked() {
    let flags = ["agent", "--xds-socket", "/x.sock", "--envoy", "/nowhere", "--http-address", "127.0.0.1:0"];
    let output = program(&[&flags[..], &["--log-format", "json"]].concat()).output().unwrap();
    assert!(!output.status.success());
    let log = told(&output);
    // The process that was to become Envoy is none of the agent's log.
    let own: Vec<&str> = log.lines().filter(|line| !line.starts_with("error: ")).collect();
    assert!(!own.is_empty(), "{log}");
    for line in own {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string(), "{line}");
    }
}

#[test]
fn files_are_named_alike_by_all_commands() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    std::fs::write(&file, CLUSTER).unwrap();
    for command in ["check", "rbac", "explain"] {
        let request: &[&str] = if command == "explain" { &["GET", "/api", "--user", "a"] } else { &[] };
        let outputs = ["-f", "--filename"].map(|flag| {
            let output = program(&[&[command, flag, file.to_str().unwrap()], request].concat()).output().unwrap();
            assert!(
                output.status.code() != Some(2) && !output.stdout.is_empty(),
                "{command} {flag}: {}",
                told(&output)
            );
            output.stdout
        });
        assert_eq!(outputs[0], outputs[1], "{command}");
    }
}

#[test]
fn status_is_asked_for_by_host_name() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        String::from_utf8(head).unwrap()
    });
    let output = program(&["status", "--address", &format!("localhost:{port}")]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let head = server.join().unwrap();
    assert!(head.contains(&format!("host: 127.0.0.1:{port}\r\n")), "a control plane answers to addresses: {head}");
    for wrong in ["localhost", "localhost:x", ":80", "localhost:70000"] {
        assert_eq!(program(&["status", "--address", wrong]).output().unwrap().status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn version_tells_commit_configuration_and_envoys() {
    let text = String::from_utf8(program(&["--version"]).output().unwrap().stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], concat!("portcullis ", env!("CARGO_PKG_VERSION")));
    let commit = lines[1].strip_prefix("commit: ").unwrap();
    assert!(!commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)));
    assert!(lines[2].starts_with("filter configuration: "), "{text}");
    let pinned = std::fs::read_to_string("../../testenv/scripts/versions.env").unwrap();
    let versions = |name: &str| {
        let line = pinned.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim_matches('"');
        let minor = |version: &str| version.rsplit_once('.').unwrap().0.to_owned();
        line.split_whitespace().map(minor).collect::<Vec<_>>()
    };
    let mut all = versions("ENVOY_VERSION=");
    all.extend(versions("ENVOY_COMPAT_VERSIONS="));
    all.sort();
    assert_eq!(lines[3], format!("Envoy: {} to {}", all[0], all[all.len() - 1]));
    assert_eq!(String::from_utf8(program(&["-V"]).output().unwrap().stdout).unwrap().lines().count(), 1);
}

#[test]
fn kubeconfig_comes_from_the_environment_and_has_contexts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let config = "apiVersion: v1\nkind: Config\ncurrent-context: one\n\
                  clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: x}}]\n\
                  contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: gone, user: u}}]\n";
    std::fs::write(&path, config).unwrap();
    let serve = |more: &[&str], kubeconfig: &str| {
        let flags = ["serve", "--source", "kubernetes", "--xds-socket", "x.sock", "--http-address", "127.0.0.1:0"];
        let mut command = program(&[&flags[..], more].concat());
        let output = command.current_dir(dir.path()).env("KUBECONFIG", kubeconfig).output().unwrap();
        assert!(!output.status.success());
        told(&output)
    };
    let named = path.to_str().unwrap();
    assert!(serve(&[], named).contains("namespace is not known"), "it is used, and its namespace is not ours");
    let other = serve(&["--context", "two"], named);
    assert!(other.contains("$KUBECONFIG") && other.contains("gone"), "{other}");
    assert!(serve(&["--kubeconfig", "/none"], named).contains("cannot use the kubeconfig /none"));
}

#[test]
fn completion_scripts_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = program(&["completion", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{shell}");
        for command in ["serve", "check", "explain", "status", "--xds-socket"] {
            assert!(script.contains(command.trim_start_matches("--")), "{shell}: {command}");
        }
    }
}

#[test]
fn man_pages_cover_every_command() {
    let dir = tempfile::tempdir().unwrap();
    assert!(program(&["man", dir.path().to_str().unwrap()]).status().unwrap().success());
    for page in ["portcullis.1", "portcullis-serve.1", "portcullis-explain-certificate.1"] {
        let text = std::fs::read_to_string(dir.path().join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
}

/// Kubernetes has the addresses of a pod as one text.
#[test]
fn gateway_addresses_may_come_as_one_list() {
    let addresses = |flags: &[&str]| {
        let common = ["bootstrap", "--xds-socket", "x.sock", "--gateway", "infra/edge"];
        program(&[&common[..], flags].concat()).output().unwrap()
    };
    for flags in [
        &["--gateway-address=192.0.2.7,2001:db8::7"][..],
        &["--gateway-address", "192.0.2.7", "--gateway-address", "2001:db8::7"],
    ] {
        let text = String::from_utf8(addresses(flags).stdout).unwrap();
        assert!(text.contains(r#""192.0.2.7,2001:db8::7""#), "{flags:?}: {text}");
    }
    assert_eq!(addresses(&["--gateway-address=192.0.2.7,edge"]).status.code(), Some(2), "no address");
}
