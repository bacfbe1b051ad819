//! Objects in the documents: each field that a page shows exists, and a whole object lacks at most others that it refers to.

#![cfg(test)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Groups whose objects are read.
const GROUPS: [&str; 3] = ["portcullis.dev/", "proxy.kubegateway.io/", "gateway.networking.k8s.io/"];
/// Errors about objects that a page does not show.
const OTHERS: [&str; 2] = ["RefNotPermitted: no ReferenceGrant", "there are no GatewaySettings"];
const UNKNOWN: &str = "unknown field";

/// The errors of `portcullis check` about manifests.
fn errors(manifests: &str) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_clear().args(["check", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut check = command.spawn().unwrap();
    check.stdin.take().unwrap().write_all(manifests.as_bytes()).unwrap();
    let output = String::from_utf8(check.wait_with_output().unwrap().stdout).unwrap();
    assert!(output.contains("checked: "), "{manifests}\n{output}");
    output.lines().filter(|line| line.contains(": error: ")).map(str::to_owned).collect()
}

/// The blocks of YAML of a page, without the columns by which a list indents them.
fn blocks(page: &str) -> Vec<String> {
    let (mut found, mut block) = (Vec::new(), None::<(usize, String)>);
    for line in page.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        match &mut block {
            None if content == "```yaml" => block = Some((indent, String::new())),
            None => {}
            Some((_, text)) if content == "```" => {
                found.push(std::mem::take(text));
                block = None;
            }
            Some((by, text)) => *text += &format!("{}\n", line.get(*by..).unwrap_or_default()),
        }
    }
    found
}

/// Objects that a part of one may belong to. Empty if it is a part of something else.
fn wholes(part: &str) -> Vec<String> {
    let top = |name: &str| part.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let kinds = [("UpstreamCluster", "proxy.kubegateway.io"), ("GatewaySettings", "portcullis.dev")];
    let with_spec = if top("spec:").is_some() {
        part.to_owned()
    } else if part.starts_with("  ") {
        format!("spec:\n{part}")
    } else {
        return Vec::new();
    };
    let metadata = if top("metadata:").is_some() { "" } else { "metadata: {name: a.example.com}\n" };
    let whole = |(kind, group): &(&str, &str)| {
        let rest: String =
            with_spec.lines().filter(|line| !line.starts_with("kind:")).map(|line| format!("{line}\n")).collect();
        format!("apiVersion: {group}/v1alpha1\nkind: {kind}\n{metadata}{rest}")
    };
    kinds.iter().filter(|(kind, _)| top("kind:").is_none_or(|own| own == *kind)).map(whole).collect()
}

fn is_whole(block: &str) -> bool {
    block.lines().any(|line| line.trim_start().starts_with("apiVersion:"))
}

/// The errors of a block that no other object explains.
fn faults(block: &str) -> Vec<String> {
    if is_whole(block) {
        let is_ours = GROUPS.iter().any(|group| block.contains(&format!("apiVersion: {group}")));
        let found = if is_ours { errors(block) } else { Vec::new() };
        return found.into_iter().filter(|error| !OTHERS.iter().any(|other| error.contains(other))).collect();
    }
    let of_kinds: Vec<Vec<String>> = wholes(block)
        .iter()
        .map(|whole| errors(whole).into_iter().filter(|error| error.contains(UNKNOWN)).collect())
        .collect();
    if of_kinds.iter().any(Vec::is_empty) { Vec::new() } else { of_kinds.concat() }
}

#[test]
fn fields_in_documents_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut wholes_seen, mut parts_seen, mut all) = (0, 0, Vec::new());
    for entry in fs::read_dir(root.join("docs")).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        for block in blocks(&fs::read_to_string(&path).unwrap()) {
            wholes_seen += usize::from(is_whole(&block));
            parts_seen += usize::from(!is_whole(&block) && !wholes(&block).is_empty());
            all.extend(faults(&block).into_iter().map(|fault| format!("{}: {fault}\n{block}", path.display())));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(wholes_seen >= 6 && parts_seen >= 20, "{wholes_seen} objects and {parts_seen} parts are found");
}

#[test]
fn field_that_does_not_exist_is_found() {
    let page = "```yaml\nspec:\n  a: 1\n```\n\n1. Text\n\n   ```yaml\n     flowControl: {}\n   ```\n```\nb: 1\n```\n";
    assert_eq!(blocks(page), ["spec:\n  a: 1\n", "  flowControl: {}\n"]);
    let table = [
        ("spec:\n  noSuch: 1\n", false),
        ("spec:\n  flowControl: {}\n", true),
        ("  flowControl: {}\n", true),
        ("  flowControls: {}\n", false),
        ("kind: GatewaySettings\nspec:\n  listener: {port: 6443}\n", true),
        ("kind: UpstreamCluster\nspec:\n  listener: {port: 6443}\n", false),
        ("images:\n- name: x\n", true),
        ("apiVersion: portcullis.dev/v1alpha1\nkind: Instance\nmetadata: {name: a}\nspec: {noSuch: 1}\n", false),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", true),
    ];
    for (block, is_good) in table {
        assert_eq!(faults(block).is_empty(), is_good, "{block}: {:?}", faults(block));
    }
}
