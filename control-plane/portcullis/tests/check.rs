//! `portcullis check`, as an operator and as a program meets it.

#![cfg(test)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

const SETTINGS: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: gateway}\n";

/// Accepted without a word, but for the certificate and the client CA that it does not have and the servers that it does not
/// verify.
const GOOD: &str = "\
apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata: {name: a.test}
spec:
  servers: [{endpoint: https://10.0.0.1:6443}]
  clientConfig: {insecure: true, bearerToken: VE9QU0VDUkVU}
  dispatchPolicies:
  - rules:
    - {verbs: ['*'], apiGroups: ['*'], resources: ['*'], nonResourceURLs: ['*']}
";

struct Dir(tempfile::TempDir);

impl Dir {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Self(dir)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// Runs `check`; `@name` is a file, `@` the directory.
    fn check(&self, arguments: &[&str], input: &str) -> Checked {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.env_clear().arg("check").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for argument in arguments {
            match argument.strip_prefix('@') {
                Some("") => command.arg(self.0.path()),
                Some(file) => command.arg(self.path(file)),
                None => command.arg(argument),
            };
        }
        let mut child = command.spawn().unwrap();
        // A program that does not read its input may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Checked::new(child.wait_with_output().unwrap(), self.0.path())
    }
}

struct Checked {
    code: Option<i32>,
    /// With the directory's name taken out.
    lines: Vec<String>,
    output: String,
    /// Standard error.
    error: String,
}

impl Checked {
    fn new(output: Output, dir: &Path) -> Self {
        let code = output.status.code();
        let error = String::from_utf8(output.stderr).unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let lines = output.replace(&format!("{}/", dir.display()), "").lines().map(str::to_owned).collect();
        Self { code, lines, output, error }
    }

    fn has(&self, start: &str) -> bool {
        self.lines.iter().any(|line| line.starts_with(start))
    }
}

#[test]
fn warnings_do_not_fail_the_check() {
    let warned = GOOD.replace("['*']}", "['*']}\n  - rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]");
    let refused = GOOD.replace("https:", "http:");
    let dir =
        Dir::new(&[("good.yaml", GOOD), ("warned.yaml", &warned), ("bad.yaml", &refused), ("broken.yaml", "a: [")]);
    let good = dir.check(&["-f", "@good.yaml"], "");
    assert_eq!(good.code, Some(0), "{}", good.output);
    assert_eq!(good.lines[0], "UpstreamCluster a.test: Accepted");
    assert!(good.has("note: there is no GatewaySettings"));
    assert_eq!(good.lines.last().unwrap(), "checked: 1 object, 0 errors, 3 warnings");
    let warned = dir.check(&["-f", "@warned.yaml"], "");
    assert_eq!(warned.code, Some(0));
    assert!(warned.has("warned.yaml:10:5: warning: spec.dispatchPolicies[1]: no request reaches"), "{}", warned.output);
    let bad = dir.check(&["-f", "@bad.yaml"], "");
    assert_eq!(bad.code, Some(1));
    assert_eq!(bad.lines[0], "UpstreamCluster a.test: Invalid");
    assert!(bad.has("bad.yaml:5:24: error: spec.servers[0].endpoint: http is not supported"), "{}", bad.output);
    let broken = dir.check(&["-f", "@broken.yaml"], "");
    assert_eq!(broken.code, Some(1));
    assert!(
        broken.has("broken.yaml:1:")
            && broken.lines[1].contains(": error: is not well-formed YAML or JSON: unclosed bracket"),
        "{}",
        broken.output
    );
    assert_eq!(dir.check(&["-f", "@nowhere.yaml"], "").code, Some(1));
    assert_eq!(dir.check(&[], "").code, Some(2));
}

#[test]
fn files_of_one_call_are_checked_together() {
    let owner = GOOD.replace("a.test", "b.test");
    let claims = GOOD.replace("spec:", "spec:\n  secureServing: {serverNames: [b.test]}");
    let dir = Dir::new(&[("settings.yaml", SETTINGS), ("claims.yaml", &claims), ("owner.yaml", &owner)]);
    let alone = dir.check(&["-f", "@claims.yaml"], "");
    assert_eq!(alone.code, Some(0), "{}", alone.output);
    let needed = "claims.yaml:5:3: warning: spec.secureServing.certData: needs a defaultCertificate";
    assert!(alone.has(needed), "{}", alone.output);
    let both = dir.check(&["-f", "@claims.yaml", "-f", "@owner.yaml", "-f", "@owner.yaml"], "");
    assert_eq!(both.code, Some(1));
    let conflict = "claims.yaml:5:19: error: spec.secureServing.serverNames: the name b.test belongs to";
    assert!(both.has(conflict), "{}", both.output);
    // A directory, in either way. The settings are there now and have no certificate.
    for arguments in [&["@"][..], &["-f", "@"]] {
        let all = dir.check(arguments, "");
        assert_eq!(all.code, Some(1));
        assert!(all.has("owner.yaml:4:1: error: spec.secureServing.certData: is required"), "{}", all.output);
        assert!(!all.has("note:") && all.lines.contains(&"GatewaySettings gateway: Accepted".to_owned()));
    }
}

#[test]
fn standard_input_and_several_documents_keep_their_lines() {
    let typo = "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: c.test}\nspec:\n  serverz: []\n";
    let input = format!("{GOOD}---\napiVersion: v1\nkind: List\nitems:\n- {}", typo.replace('\n', "\n  "));
    let checked = Dir::new(&[]).check(&["-f", "-"], &input);
    assert_eq!(checked.code, Some(1));
    let lines = input.lines().position(|line| line.contains("serverz")).unwrap() + 1;
    let wanted = format!("<stdin>:{lines}:5: error: spec.serverz: unknown field `serverz`");
    assert!(checked.has(&wanted), "{wanted}: {}", checked.output);
    assert!(checked.output.contains("(hint: did you mean servers?)"));
    let pod = format!("{GOOD}---\n\nkind: Pod\napiVersion: v1\n");
    let foreign = Dir::new(&[]).check(&["-f", "-"], &pod);
    assert_eq!(foreign.code, Some(0));
    let line = GOOD.lines().count() + 3;
    assert!(foreign.has(&format!("<stdin>:{line}:7: warning: ignored")), "{}", foreign.output);
}

#[test]
fn misspelt_kinds_and_groups_are_refused_with_a_hint() {
    let protects = "spec: {protectedIdentities: {groups: [system:masters]}}\n";
    for (from, to, told) in [
        (
            "kind: GatewaySettings",
            "kind: GatewaySetting",
            "error: kind: there is no kind \"GatewaySetting\" (hint: did you mean GatewaySettings?)",
        ),
        (
            "portcullis.dev/v1alpha1",
            "portcullis.dev/v1",
            "error: apiVersion: GatewaySettings has no apiVersion \"portcullis.dev/v1\"",
        ),
        ("portcullis.dev/", "portculis.dev/", "(hint: did you mean portcullis.dev/v1alpha1?)"),
        ("kind: GatewaySettings", "kind: Gateway", "error: kind: portcullis.dev has no kind Gateway (hint:"),
        ("kind: GatewaySettings\n", "", "error: kind: is required"),
    ] {
        let settings = format!("{SETTINGS}{protects}").replace(from, to);
        let checked = Dir::new(&[("good.yaml", GOOD), ("settings.yaml", &settings)]).check(&["@"], "");
        assert_eq!(checked.code, Some(1), "{to}: {}", checked.output);
        assert!(checked.output.contains(told), "{told}: {}", checked.output);
    }
    let misspelt = GOOD.replace("UpstreamCluster", "UpstreamClusters");
    let checked = Dir::new(&[]).check(&["-f", "-"], &misspelt);
    assert_eq!(checked.code, Some(1));
    assert!(checked.has("<stdin>:2:7: error: kind: "), "{}", checked.output);
}

#[test]
fn empty_input_is_an_error() {
    let dir = Dir::new(&[("pod.yaml", "apiVersion: v1\nkind: Pod\n")]);
    std::fs::create_dir(dir.path("below")).unwrap();
    for arguments in [&["@"][..], &["@", "-o", "json"], &["@below"], &["-f", "-"]] {
        let checked = dir.check(arguments, "# nothing\n");
        assert_eq!(checked.code, Some(1), "{arguments:?}: {}", checked.output);
        assert!(checked.error.starts_with(
            "error: there is no UpstreamCluster, no GatewaySettings, no Instance, no policy, no KubernetesUpstream and no object of the Gateway API to check"
        ));
    }
}

#[test]
fn directories_below_are_read_when_asked_for() {
    let dir = Dir::new(&[]);
    for (path, text) in
        [("one/two/good.yaml", GOOD), (".git/bad.yaml", "a: ["), ("one/bad.yaml", &GOOD.replace("https:", "http:"))]
    {
        std::fs::create_dir_all(dir.path(path).parent().unwrap()).unwrap();
        std::fs::write(dir.path(path), text.replace("a.test", &format!("{}.test", path.len()))).unwrap();
    }
    std::os::unix::fs::symlink("..", dir.path("one/loop")).unwrap();
    assert!(dir.check(&["@"], "").error.contains("(hint: -R reads directories below, too)"));
    let all = dir.check(&["@", "-R"], "");
    assert_eq!(all.code, Some(1));
    assert!(all.has("one/bad.yaml:5:24: error:") && all.has("UpstreamCluster 17.test: Accepted"), "{}", all.output);
    assert_eq!(all.lines.last().unwrap(), "checked: 2 objects, 1 error, 4 warnings", "{}", all.output);
}

#[test]
fn warnings_fail_when_they_count() {
    let clean = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: gateway}\n";
    let dir = Dir::new(&[("good.yaml", GOOD), ("clean.yaml", clean)]);
    for (file, loose, strict) in [("@good.yaml", 0, 1), ("@clean.yaml", 0, 0)] {
        assert_eq!(dir.check(&["-f", file], "").code, Some(loose), "{file}");
        assert_eq!(dir.check(&["-f", file, "--strict"], "").code, Some(strict), "{file}");
    }
}

#[test]
fn booleans_of_kubectl_are_told() {
    let told = "<stdin>:10:19: warning: spec.logging.mode: is a boolean to kubectl and others that read YAML 1.1 \
                (hint: write it in quotes)";
    for (mode, is_told) in [("on", true), ("off", true), ("\"on\"", false), ("'off'", false)] {
        let checked = Dir::new(&[]).check(&["-f", "-"], &format!("{GOOD}  logging: {{mode: {mode}}}\n"));
        assert_eq!((checked.code, checked.has(told)), (Some(0), is_told), "{mode}: {}", checked.output);
    }
}

#[test]
fn programs_read_the_findings_as_json() {
    let spec = GOOD.replace("['*'], apiGroups", "['*', get], apiGroups").replace("https:", "http:");
    let checked = Dir::new(&[("a.yaml", &spec)]).check(&["-f", "@a.yaml", "--output", "json"], "");
    assert_eq!(checked.code, Some(1));
    let found: Vec<Value> = serde_json::from_str(&checked.output).unwrap();
    let of = |code: &str| found.iter().find(|one| one["code"] == code).unwrap();
    let error = of("invalid");
    assert!(error["file"].as_str().unwrap().ends_with("/a.yaml"));
    let place = (&error["line"], &error["column"], &error["severity"]);
    assert_eq!(place, (&Value::from(5), &Value::from(24), &Value::from("error")));
    assert_eq!((&error["kind"], &error["name"]), (&Value::from("UpstreamCluster"), &Value::from("a.test")));
    let warning = of("beside-wildcard");
    assert_eq!(warning["path"], "spec.dispatchPolicies[0].rules[0].verbs[1]");
    assert_eq!(warning["severity"], "warning");
    assert_eq!((&warning["line"], &warning["column"]), (&Value::from(9), &Value::from(21)));
    assert!(warning["hint"].as_str().unwrap().contains("remove") && warning["message"].is_string());
    let nothing = Dir::new(&[("s.yaml", SETTINGS)]).check(&["@", "-o", "json"], "");
    assert_eq!((nothing.code, nothing.output.as_str()), (Some(0), "[]\n"));
}

/// Refusals of the filter come from the check and not from Envoy later: for example an extension that Go's parser refuses.
#[test]
fn client_authorities_are_judged_as_the_filter_judges_them() {
    let authority = |garbage: bool| {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        if garbage {
            let inhibit_any_policy = [2, 5, 29, 54];
            let extension = rcgen::CustomExtension::from_oid_content(&inhibit_any_policy, b"garbage".to_vec());
            params.custom_extensions.push(extension);
        }
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    };
    let (good, bad) = (authority(false), authority(true));
    for (bundle, code) in [(good.clone(), 0), (good + &bad, 1)] {
        let serving = format!("  secureServing: {{clientCAData: {}}}\n", STANDARD.encode(bundle));
        let checked = Dir::new(&[]).check(&["-f", "-"], &(GOOD.to_owned() + &serving));
        assert_eq!(checked.code, Some(code), "{}", checked.output);
        let told = "error: spec.secureServing.clientCAData: certificate 1 of the client CA bundle is not acceptable";
        assert_eq!(checked.output.contains(told), code == 1, "{}", checked.output);
    }
}

/// KubeGateway falls back to its own CA; here that is a field of the settings.
#[test]
fn missing_client_ca_is_told_unless_the_settings_have_one() {
    let cases = [
        ("", "unless the GatewaySettings, which are not among the objects, have a defaultClientCA", ""),
        ("{}", "and the GatewaySettings have no defaultClientCA: clients with a certificate", ""),
        ("{defaultClientCA: {file: ca.crt}}", "", ""),
        ("{}", "", "  portcullis: {anonymous: false}\n"),
        ("", "needs a defaultClientCA", "  portcullis: {clientCertificateVerification: Handshake}\n"),
        ("{defaultClientCA: {file: ca.crt}}", "", "  portcullis: {clientCertificateVerification: Handshake}\n"),
    ];
    for (settings, told, more) in cases {
        let mut files = vec![("good.yaml", format!("{GOOD}{more}"))];
        if !settings.is_empty() {
            files.push(("settings.yaml", format!("{SETTINGS}spec: {settings}\n")));
        }
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let checked = Dir::new(&files).check(&["@"], "");
        let is_told = checked.output.contains("defaultClientCA");
        assert_eq!(is_told, !told.is_empty(), "{settings} {more}: {}", checked.output);
        assert!(checked.output.contains(told), "{settings} {more}: {}", checked.output);
    }
}

#[test]
fn client_ca_names_longer_than_a_handshake_message_are_refused() {
    let authority = |number: usize| {
        let mut params = rcgen::CertificateParams::default();
        let name = format!("{number:03}{}", "x".repeat(500));
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    };
    for (count, code) in [(50, 0), (70, 1)] {
        let bundle = STANDARD.encode((0..count).map(authority).collect::<String>());
        let serving = format!("  secureServing: {{clientCAData: {bundle}}}\n");
        let settings = format!("{SETTINGS}spec: {{defaultClientCA: {{data: {bundle}}}}}\n");
        for text in [GOOD.to_owned() + &serving, settings] {
            let checked = Dir::new(&[]).check(&["-f", "-"], &text);
            assert_eq!(checked.code, Some(code), "{}", checked.output);
            assert_eq!(checked.output.contains("bytes in a TLS handshake"), code == 1, "{}", checked.output);
        }
    }
}

#[test]
fn no_finding_shows_a_secret() {
    let dir = Dir::new(&[
        ("a.yaml", &GOOD.replace("bearerToken: VE9QU0VDUkVU", "bearerToken: {TOPSECRET: 1}, keyData: 'TOPSECRET!'")),
        ("b.yaml", &GOOD.replace("bearerToken: VE9QU0VDUkVU", "qps: TOPSECRET")),
        ("c.yaml", "bearerToken: TOPSECRET\nx: ["),
    ]);
    for arguments in [&["@"][..], &["@", "-o", "json"]] {
        let checked = dir.check(arguments, "");
        assert_eq!(checked.code, Some(1));
        assert!(!checked.output.contains("TOPSECRET") && !checked.output.contains("VE9Q"), "{}", checked.output);
    }
}
