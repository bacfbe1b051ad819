//! The CustomResourceDefinition, judged by the server that has to live with it.

mod cases;
mod references;
mod tokens;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cases::Verdict;
use portcullis_api::{Problem, ProblemCode, check_cluster, cluster_mistakes, parse_cluster};
use portcullis_e2e::Manifest;
use portcullis_harness::certs::CertSpec;
use portcullis_harness::kube::{KubeOptions, Kubectl, RealKube};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use crate::fixture::{BareKube, NAME};

const SOON: Duration = Duration::from_secs(20);

struct Fixture {
    kube: RealKube,
    run: RunDir,
    cache: PathBuf,
}

impl Fixture {
    fn start() -> Option<Self> {
        let BareKube { kube, run, cache, .. } = BareKube::start("crd", KubeOptions::default())?;
        Some(Fixture { kube, run, cache })
    }

    fn kubectl(&self, args: &[&str]) -> Kubectl {
        self.kube.admin_kubectl().unwrap().cache_dir(&self.cache).args(args)
    }

    fn file(&self, name: &str, text: &str) -> String {
        path(&self.run.write(name, text).unwrap())
    }

    fn manifest(&self) -> Manifest {
        let gateway = self.kube.client_ca().issue(&CertSpec::client("portcullis", [""; 0])).unwrap();
        let serving = self.kube.server_ca().issue(&CertSpec::server(NAME, [NAME])).unwrap();
        Manifest::new(NAME, ["10.0.0.1:6443".parse().unwrap(), "10.0.0.2:6443".parse().unwrap()])
            .upstream(&gateway, self.kube.server_ca(), "kubernetes.default.svc")
            .serving(&serving, self.kube.client_ca())
    }

    /// As `kubectl create --dry-run=server` asks; hundreds of kubectl would take their time.
    fn dry_run(&self, object: &Value) -> portcullis_harness::Result<()> {
        let collection = "/apis/proxy.kubegateway.io/v1alpha1/upstreamclusters";
        self.kube.create(&format!("{collection}?dryRun=All&fieldValidation=Strict"), object)
    }

    fn definition(&self) -> Value {
        self.kubectl(&["get", "crd", "upstreamclusters.proxy.kubegateway.io"]).json().unwrap()
    }
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn printed(output: &str) -> String {
    let printed = Command::new(deps::portcullis().unwrap()).args(["crd", "-o", output]).output().unwrap();
    assert!(printed.status.success());
    String::from_utf8(printed.stdout).unwrap()
}

#[test]
fn kube_apiserver_takes_the_definition_and_judges_as_check_does() {
    let Some(fixture) = Fixture::start() else { return };
    the_definition_is_taken_in_both_forms(&fixture);
    manifests_are_judged_as_check_judges(&fixture);
    unknown_fields_of_issuers_reach_the_check(&fixture);
    a_bare_on_is_a_boolean_to_kubectl(&fixture);
    a_large_object_is_within_the_servers_budget(&fixture);
    renamed_fields_of_a_stored_object_are_kept(&fixture);
    nothing_of_an_accepted_object_is_lost(&fixture);
    columns_show_the_conditions(&fixture);
    a_shadow_is_promoted_by_a_patch(&fixture);
    fields_are_explained(&fixture);
}

fn the_definition_is_taken_in_both_forms(fixture: &Fixture) {
    for form in ["yaml", "json"] {
        let file = fixture.file(&format!("crd.{form}"), &printed(form));
        let told = fixture.kubectl(&["apply", "--server-side", "-f", &file]).run().unwrap();
        assert!(told.success(), "{}", told.stderr);
        assert_eq!(told.stderr, "", "no warning");
    }
    let conditions = wait::until("the definition is established", SOON, || {
        let conditions = fixture.definition()["status"]["conditions"].clone();
        let established = |one: &Value| one["type"] == "Established" && one["status"] == "True";
        conditions.as_array().is_some_and(|all| all.iter().any(established)).then_some(conditions)
    });
    let conditions = conditions.unwrap();
    assert!(!conditions.to_string().contains("NonStructuralSchema"), "{conditions}");
    wait::until("the kind is served", SOON, || {
        let found = fixture.kubectl(&["get", "upstreamclusters"]).run().unwrap();
        found.success().then_some(())
    })
    .unwrap();
}

fn manifests_are_judged_as_check_judges(fixture: &Fixture) {
    let mut wrong = Vec::new();
    for case in cases::cases() {
        let manifest = case.apply(fixture.manifest());
        let object: Value = serde_json::from_str(&manifest.to_text()).unwrap();
        let checked = parse_cluster(&object).map_err(|problem| vec![problem]);
        let checked = checked.and_then(|raw| check_cluster(&raw, false).outcome.map(drop).or_else(unless_unresolved));
        let told = fixture.dry_run(&object);
        let answer = told.as_ref().err().map(ToString::to_string).unwrap_or_default();
        for secret in ["/spec/clientConfig/keyData", "/spec/clientConfig/bearerToken", "/spec/secureServing/keyData"] {
            let told = |secret: &str| secret.len() > 3 && answer.contains(secret);
            assert!(
                !object.pointer(secret).and_then(Value::as_str).is_some_and(told),
                "{}: a secret is told",
                case.name
            );
        }
        let is_right = match case.verdict {
            Verdict::Accepted => checked.is_ok() && told.is_ok(),
            Verdict::Refused(field) => checked.is_err() && told.is_err() && answer.contains(field),
            Verdict::ByCheckAlone => checked.is_err() && told.is_ok(),
        };
        if !is_right {
            let checked = checked.err().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
            wrong.push(format!("{}: {:?}\n  check: {checked:?}\n  server: {answer}", case.name, case.verdict));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A client that does not ask for strict validation, as most controllers: what is pruned would be a rule less.
fn unknown_fields_of_issuers_reach_the_check(fixture: &Fixture) {
    for (number, (tokens, field)) in tokens::unknown_fields().into_iter().enumerate() {
        let text = fixture.manifest().set("/spec/portcullis", json!({"tokens": tokens})).to_text();
        let file = fixture.file(&format!("unknown-{number}.json"), &text);
        let stored = fixture.kubectl(&["create", "--dry-run=server", "--validate=ignore", "-f", &file]).json().unwrap();
        let refused = parse_cluster(&stored).err().map(|problem| problem.to_string()).unwrap_or_default();
        assert!(refused.contains(&format!("`{field}`")), "{field}: {refused}");
    }
}

/// Nothing here can resolve a reference.
fn unless_unresolved(mut problems: Vec<Problem>) -> Result<(), Vec<Problem>> {
    problems.retain(|problem| problem.code != ProblemCode::Unresolved);
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// kubectl reads YAML 1.1; docs/kubegateway.md warns of it.
fn a_bare_on_is_a_boolean_to_kubectl(fixture: &Fixture) {
    let text = fixture.manifest().set("/spec/logging", json!({"mode": "MODE"})).to_text();
    for (written, is_taken) in [("on", false), ("\"on\"", true)] {
        let file = fixture.file("mode.yaml", &text.replace("\"MODE\"", written));
        let told = fixture.kubectl(&["create", "--dry-run=server", "-f", &file]).run().unwrap();
        assert_eq!(told.success(), is_taken, "{written}: {}", told.stderr);
        // kubectl before 1.33 reads a file that begins like JSON as nothing else, and has no name of the field.
        let is_named = told.stderr.contains("spec.logging.mode") || told.stderr.contains("error parsing");
        assert!(is_taken || is_named, "{}", told.stderr);
    }
}

/// The server counts what its rules cost on an object, and refuses one that is too dear, however good it is.
fn a_large_object_is_within_the_servers_budget(fixture: &Fixture) {
    let small: Value = serde_json::from_str(&fixture.manifest().to_text()).unwrap();
    let mut manifest = fixture.manifest();
    for field in ["/spec/clientConfig/caData", "/spec/secureServing/clientCAData"] {
        let one = STANDARD.decode(small.pointer(field).unwrap().as_str().unwrap()).unwrap();
        manifest = manifest.set(field, STANDARD.encode(one.repeat(256)).into());
    }
    let bucket = json!({"qps": 1, "burst": 1});
    let schema = |n| json!({"name": format!("s{n}"), "tokenBucket": bucket, "globalTokenBucket": bucket});
    let server = |n: usize| json!({"endpoint": format!("https://10.0.{}.{}:6443", n / 250, n % 250)});
    let extras: Vec<String> = (0..1000).map(|n| format!("example.com/{n}")).collect();
    let manifest = manifest
        .set("/spec/dispatchPolicies", vec![json!({"upsteamSubset": [], "rules": [{}]}); 20_000].into())
        .set("/spec/flowControl", json!({"flowControlSchemas": (0..1000).map(schema).collect::<Vec<_>>()}))
        .set("/spec/servers", (0..1000).map(server).collect::<Vec<_>>().into())
        .set("/spec/portcullis", json!({"forwardedExtras": extras}));
    let object: Value = serde_json::from_str(&manifest.to_text()).unwrap();
    assert!(check_cluster(&parse_cluster(&object).unwrap(), false).outcome.is_ok());
    let file = fixture.file("large.json", &object.to_string());
    fixture.kubectl(&["create", "--dry-run=server", "-f", &file]).run_ok().unwrap();
}

fn nothing_of_an_accepted_object_is_lost(fixture: &Fixture) {
    let manifest = cases::full(fixture.manifest());
    let sent: Value = serde_json::from_str(&manifest.to_text()).unwrap();
    let file = fixture.file("full.json", &manifest.to_text());
    fixture.kubectl(&["apply", "--server-side", "-f", &file]).run_ok().unwrap();
    let stored = fixture.kubectl(&["get", "upstreamcluster", NAME]).json().unwrap();
    assert_eq!(stored["spec"], sent["spec"], "both spellings included, and no default of the server's");
    assert!(stored.get("status").is_none());
}

/// A field by its former name that was stored with an earlier definition: pruned, `anonymous: false` would let clients in.
fn renamed_fields_of_a_stored_object_are_kept(fixture: &Fixture) {
    let name = "upstreamclusters.proxy.kubegateway.io";
    let of_portcullis = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/portcullis";
    let rules = format!("{of_portcullis}/x-kubernetes-validations");
    let earlier = json!([{"op": "remove", "path": rules}]).to_string();
    fixture.kubectl(&["patch", "crd", name, "--type=json", "-p", &earlier]).run_ok().unwrap();
    let object = fixture.manifest().set("/spec/portcullis", json!({"anonymous": false})).to_text();
    let file = fixture.file("earlier.json", &object);
    wait::until("an earlier definition stores the field", SOON, || {
        fixture.kubectl(&["apply", "--server-side", "-f", &file]).run().unwrap().success().then_some(())
    })
    .unwrap();
    let file = fixture.file("crd.yaml", &printed("yaml"));
    fixture.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file]).run_ok().unwrap();
    let stored = fixture.kubectl(&["get", "upstreamcluster", NAME]).json().unwrap();
    assert_eq!(stored["spec"]["portcullis"]["anonymous"], false);
    let refused = cluster_mistakes(&stored);
    assert!(refused.iter().any(|one| one.hint.as_deref() == Some("its name is allowAnonymous now")), "{refused:?}");
    fixture.kubectl(&["delete", "upstreamcluster", NAME]).run_ok().unwrap();
}

fn columns_show_the_conditions(fixture: &Fixture) {
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "Tested", "message": "", "newer": {"field": 1},
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let status = json!({"status": {
        "conditions": [condition("Accepted", "True"), condition("Programmed", "False"), condition("Ready", "Unknown")],
        "newer": true,
    }});
    let patch = ["patch", "uc", NAME, "--subresource=status", "--type=merge", "-p", &status.to_string()];
    fixture.kubectl(&patch).run_ok().unwrap();
    let table = fixture.kubectl(&["get", "uc"]).run_ok().unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "ACCEPTED", "PROGRAMMED", "READY", "AGE"], "{table}");
    assert_eq!(rows[1][..4], [NAME, "True", "False", "Unknown"], "{table}");
    let stored = fixture.kubectl(&["get", "uc", NAME]).json().unwrap();
    assert_eq!(stored["status"]["newer"], true, "what a newer control plane tells is kept");
}

/// A part that the alternative lacks goes, and an edit in between is a conflict.
fn a_shadow_is_promoted_by_a_patch(fixture: &Fixture) {
    let lists = |field: &str, user: &str| json!({field: [{"users": [user]}], "force": true});
    let spec = json!({"spec": {"portcullis": {
        "access": lists("allow", "alice"), "shadow": {"access": lists("deny", "mallory")},
    }}});
    fixture.kubectl(&["patch", "uc", NAME, "--type=merge", "-p", &spec.to_string()]).run_ok().unwrap();
    let kubeconfig =
        fixture.kube.kubeconfig().identity(fixture.kube.admin()).write(&fixture.run.join("promote")).unwrap();
    let promote = || {
        let arguments = ["promote", NAME, "--kubeconfig", &path(&kubeconfig)].map(str::to_owned);
        let printed = Command::new(deps::portcullis().unwrap()).args(arguments).output().unwrap();
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        String::from_utf8(printed.stdout).unwrap()
    };
    let early = promote();
    let label = json!({"metadata": {"labels": {"edited": "yes"}}}).to_string();
    fixture.kubectl(&["patch", "uc", NAME, "--type=merge", "-p", &label]).run_ok().unwrap();
    let late = fixture.kubectl(&["patch", "uc", NAME, "--type=merge", "-p", &early]).run().unwrap();
    assert!(!late.success() && late.stderr.contains("Conflict"), "{}", late.stderr);
    fixture.kubectl(&["patch", "uc", NAME, "--type=merge", "-p", &promote()]).run_ok().unwrap();
    let stored = fixture.kubectl(&["get", "uc", NAME]).json().unwrap();
    let ours = &stored["spec"]["portcullis"];
    assert_eq!((&ours["access"], ours.get("shadow")), (&lists("deny", "mallory"), None), "{stored}");
}

fn fields_are_explained(fixture: &Fixture) {
    for (field, words) in [
        ("dispatchPolicies", "Policies that select servers for requests; the first match wins."),
        ("portcullis.requestTimeout", "75s if unset"),
    ] {
        let told = fixture.kubectl(&["explain", &format!("upstreamcluster.spec.{field}")]).run_ok().unwrap();
        assert!(told.contains(words), "{told}");
    }
}
