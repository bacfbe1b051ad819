//! The output of the scripts that fill in the samples.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::project_root;
use portcullis_harness::rundir::RunDir;
use serde_json::Value;

/// A folder with every input; the CA of clients has other texts around it.
pub(super) fn pki(run: &RunDir, ca: &Ca) -> PathBuf {
    let pki = run.make_dir("pki").unwrap();
    for name in ["serving", "client"] {
        let pair = ca.issue(&CertSpec::server(name, [name])).unwrap();
        pair.write_pem(&pki.join(format!("{name}.crt")), &pki.join(format!("{name}.key"))).unwrap();
    }
    ca.write_pem(&pki.join("upstream-ca.crt")).unwrap();
    write(&pki, "client-ca.crt", &format!("# a & \\1 # b\n{}\n# c\n{}", ca.pem(), ca.pem()));
    pki
}

fn write(pki: &Path, file: &str, text: &str) {
    std::fs::write(pki.join(file), text).unwrap();
}

pub(super) fn run_script(script: &str, first: &[&str], pki: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(project_root().join("envoy").join(script).join("render"));
    command.args(first).arg("server=192.0.2.7:6443").arg(format!("pki={}", pki.display())).args(more);
    command.output().unwrap()
}

fn istio(build: &str, pki: &Path, more: &[&str]) -> Output {
    run_script("istio", &[build, "name=kubernetes.example.org"], pki, more)
}

fn plain(folder: &Path, pki: &Path) -> Output {
    run_script("plain", &["impersonate", folder.to_str().unwrap(), "name=kubernetes.example.org"], pki, &[])
}

pub(super) fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The client CA as the filter reads it.
fn client_ca(objects: &str) -> String {
    let text = objects.split_once(r#""clientCa": "#).unwrap().1;
    let text = text.split_once(",\n").unwrap().0;
    serde_json::from_str::<String>(text).unwrap()
}

#[test]
fn objects_for_istio_are_named_as_they_were_asked_for() {
    let run = RunDir::new("render-istio").unwrap();
    let pki = pki(&run, &Ca::new("clients").unwrap());
    let more = ["namespace=prod-ingress", "gateway=istio-ingress", "wasm=oci://example.org/istio-ingress/prod:1"];
    for build in ["module", "wasm"] {
        let objects = printed(&istio(build, &pki, &more));
        for object in serde_saphyr::from_multiple::<Value>(&objects).unwrap() {
            if object["apiVersion"] == "admissionregistration.k8s.io/v1" {
                assert_eq!(object["metadata"]["name"], "kubernetes-example-org.prod-ingress", "of no namespace");
                continue;
            }
            assert_eq!(object["metadata"]["namespace"], "prod-ingress", "{object:#}");
            let labels = [&object["spec"]["workloadSelector"]["labels"], &object["spec"]["selector"]];
            let chosen = labels.into_iter().flat_map(|labels| [&labels["istio"], &labels["matchLabels"]["istio"]]);
            for label in chosen.filter(|label| !label.is_null()) {
                assert_eq!(label, "istio-ingress", "{object:#}");
            }
            if object["kind"] == "WasmPlugin" {
                assert_eq!(object["spec"]["url"], "oci://example.org/istio-ingress/prod:1");
            }
        }
        assert!(objects.contains("gateway: prod-ingress/kubernetes-example-org}"), "patches find the routes");
        assert!(objects.contains("expression: request.namespace != 'prod-ingress'"), "who may name the Secrets");
        assert!(objects.contains(")kubernetes-example-org-(serving|upstream)("), "which Secrets");
        assert!(objects.contains(r#""authorities": ["kubernetes.example.org"]"#));
    }
}

#[test]
fn client_ca_file_shows_only_certificates() {
    let run = RunDir::new("render-ca").unwrap();
    let ca = Ca::new("clients").unwrap();
    let pki = pki(&run, &ca);
    let expected = format!("{0}\n{0}\n", ca.pem().trim());
    let text = std::fs::read_to_string(pki.join("client-ca.crt")).unwrap();
    let key = std::fs::read_to_string(pki.join("client.key")).unwrap();
    let written = [text.clone(), text.replace('\n', "\r\n"), format!("{key}{text}{key}"), text.trim().to_owned()];
    for (number, text) in written.into_iter().enumerate() {
        write(&pki, "client-ca.crt", &text);
        for build in ["module", "wasm"] {
            assert_eq!(client_ca(&printed(&istio(build, &pki, &[]))), expected, "{build}: {text:?}");
        }
        let folder = run.join(&format!("plain-{number}"));
        printed(&plain(&folder, &pki));
        let routes: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(folder.join("routes.yaml")).unwrap()).unwrap();
        let configuration = "/resources/0/virtual_hosts/0/typed_per_filter_config/portcullis/filter_config/value";
        assert_eq!(routes.pointer(configuration).unwrap()["clientCa"], expected, "{text:?}");
    }
}

#[test]
fn script_refuses_missing_or_odd_input_and_writes_nothing() {
    let run = RunDir::new("render-odd").unwrap();
    let ca = Ca::new("clients").unwrap();
    let pki = pki(&run, &ca);
    let refused = |what: &str, output: &Output, folder: Option<&Path>| {
        assert!(!output.status.success() && output.stdout.is_empty(), "{what}: {output:?}");
        assert!(folder.is_none_or(|folder| !folder.exists()), "{what}");
    };
    for name in ["a&b", "a#b", "a\\b", "a\nb", "a'b", "a\"b", "a: b", "a[b", "a{b"] {
        let folder = run.join(name);
        refused(name, &plain(&folder, &pki), Some(&folder));
    }
    for odd in ["namespace=a&b", "namespace=a\nb", "gateway=A", "wasm=oci://a&b", "wasm=oci://a#b", "server=a:1", "x=y"]
    {
        refused(odd, &istio("wasm", &pki, &[odd]), None);
    }
    let long = [format!("{}.b", "a".repeat(64)), format!("{}a", "a.".repeat(127))];
    let names = ["", ".", "-", "A.b", ".a", "a_b", "a\nb", "ä.b", "a..b", "a.", "a-.b", "a.-b", "-a.b", "a.b-"];
    for name in names.into_iter().chain(long.iter().map(String::as_str)) {
        refused(name, &run_script("istio", &["module", &format!("name={name}")], &pki, &[]), None);
    }
    let folder = run.join("gateway");
    let key = std::fs::read_to_string(pki.join("client.key")).unwrap();
    let cut = ca.pem().replace("-----END CERTIFICATE-----", "");
    for text in [String::new(), key.clone(), format!("{cut}{key}"), cut.replace('M', "&")] {
        write(&pki, "client-ca.crt", &text);
        refused(&text, &istio("module", &pki, &[]), None);
        refused(&text, &plain(&folder, &pki), Some(&folder));
    }
    ca.write_pem(&pki.join("client-ca.crt")).unwrap();
    for file in ["serving.crt", "serving.key", "client.crt", "client.key", "upstream-ca.crt", "client-ca.crt"] {
        let text = std::fs::read(pki.join(file)).unwrap();
        for lost in [true, false] {
            if lost {
                std::fs::remove_file(pki.join(file)).unwrap()
            } else {
                write(&pki, file, "")
            }
            refused(file, &istio("module", &pki, &[]), None);
            refused(file, &plain(&folder, &pki), Some(&folder));
        }
        std::fs::write(pki.join(file), text).unwrap();
    }
    printed(&plain(&folder, &pki));
}

#[test]
fn folder_is_private() {
    let run = RunDir::new("render-modes").unwrap();
    let pki = pki(&run, &Ca::new("clients").unwrap());
    let folder = run.join("a folder of prod.example.com's");
    assert!(!plain(&folder, &pki).status.success(), "a quote");
    let folder = run.join("a folder of prod.example.com");
    printed(&plain(&folder, &pki));
    let mut files = 0;
    for part in [folder.clone(), folder.join("pki"), folder.join("secrets")] {
        assert_eq!(std::fs::metadata(&part).unwrap().permissions().mode() & 0o777, 0o700, "{}", part.display());
        for entry in std::fs::read_dir(&part).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
                files += 1;
            }
        }
    }
    assert_eq!(files, 13);
    let listener = std::fs::read_to_string(folder.join("envoy.yaml")).unwrap();
    assert!(listener.contains(&format!("{}/listener.yaml", folder.display())), "{listener}");
}
