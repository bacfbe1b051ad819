use std::os::unix::fs::symlink;

use portcullis_harness::kube::{Kubectl, Output};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root};

/// kubectl with the links that docs/kubectl-plugin.md describes; no cluster is asked.
fn kubectl(run: &RunDir, args: &[&str]) -> Option<Output> {
    let binary = deps::kube_or_skip("kubectl-plugin").unwrap()?.kubectl;
    let (kubeconfig, dir) = (run.join("no-kubeconfig"), run.join("bin"));
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let kubectl = Kubectl::new(&binary, &kubeconfig, run.path()).env("PATH", &path);
    Some(kubectl.args(args).run().unwrap())
}

#[test]
fn kubectl_runs_and_completes_the_plugin() {
    let run = RunDir::new("kubectl-plugin").unwrap();
    let dir = run.make_dir("bin").unwrap();
    for name in ["kubectl-portcullis", "kubectl_complete-portcullis"] {
        symlink(deps::portcullis().unwrap(), dir.join(name)).unwrap();
    }
    let Some(listed) = kubectl(&run, &["plugin", "list"]) else { return };
    assert!(listed.stdout.contains("kubectl-portcullis"), "{listed:?}");
    let said = |args: &[&str], parts: &[&str]| {
        let output = kubectl(&run, args).unwrap();
        let text = format!("{}{}", output.stdout, output.stderr);
        parts.iter().for_each(|part| assert!(text.contains(part), "{args:?}: {part}: {text}"));
        output
    };
    said(&["portcullis", "--help"], &["Usage: kubectl portcullis <COMMAND>", "  kubectl portcullis status"]);
    for command in ["status", "explain", "top", "onboard"] {
        said(&["portcullis", command, "--help"], &[&format!("Usage: kubectl portcullis {command}")]);
    }
    let status = said(&["portcullis", "status", "--address", "127.0.0.1:1"], &["cannot ask the control plane"]);
    assert_eq!(status.status.code(), Some(1), "its exit code is the command's");
    let example = project_root().join("examples/minimal/prod.yaml");
    let request = ["explain", "-f", example.to_str().unwrap(), "GET", "/api/v1/pods", "--user", "alice"];
    let explained = said(&[&["portcullis"], &request[..]].concat(), &["list"]);
    assert!(explained.success(), "{explained:?}");
    said(&["__complete", "portcullis", "st"], &["status\t", ":4"]);
    said(&["__complete", "portcullis", "status", "-o", ""], &["wide", "json"]);
    said(&["__complete", "portcullis", "onboard", "--upstream"], &["--upstream-identity", "--upstream-ca"]);
}
