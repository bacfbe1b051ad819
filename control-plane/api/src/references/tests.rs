use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{reference_of_path, referenced_files, resolve, with_placeholders};
use crate::check::check_cluster;
use crate::parse::parse_cluster;
use crate::problem::Problem;
use crate::problem::ProblemCode;
use crate::referenced_data::{ReferencedData, SecretData};
use crate::secret::SecretBytes;

fn document(spec: Value) -> Value {
    let mut document = json!({
        "apiVersion": crate::CLUSTER_API_VERSION, "kind": crate::CLUSTER_KIND, "metadata": {"name": "a.test"},
        "spec": {"servers": [{"endpoint": "https://a.test"}], "dispatchPolicies": [{"rules": [{}]}]},
    });
    document["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    document
}

fn with_references(references: Value) -> Value {
    document(json!({"portcullis": {"references": references}}))
}

fn pair() -> (String, String) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn secret(clusters: &[&str], data: &[(&str, &str)]) -> SecretData {
    SecretData {
        owners: clusters.iter().map(|name| (*name).to_owned()).collect(),
        data: data.iter().map(|(key, text)| ((*key).to_owned(), SecretBytes::new(text.as_bytes().to_vec()))).collect(),
    }
}

fn secrets(all: &[(&str, SecretData)]) -> ReferencedData {
    ReferencedData::secrets(all.iter().map(|(name, secret)| ((*name).to_owned(), secret.clone())))
}

fn problems(document: &Value) -> Vec<Problem> {
    check_cluster(&parse_cluster(document).unwrap(), false).outcome.err().unwrap_or_default()
}

#[test]
fn referenced_data_replaces_the_field() {
    let (cert, key) = pair();
    let tls = [("tls.crt", cert.as_str()), ("tls.key", &key), ("ca.crt", &cert), ("token", "T0KEN\n")];
    let other = [("c", cert.as_str()), ("k", &key), ("a", &cert), ("t", "T0KEN")];
    let referenced_data =
        secrets(&[("tls", secret(&["a.test"], &tls)), ("other", secret(&["b.test", "a.test"], &other))]);
    let files = ["p/c", "p/k", "p/a", "p/t"].into_iter().zip(["c", "k", "a", "t"]).map(|(path, name)| {
        let text = other.iter().find(|(key, _)| *key == name).unwrap().1;
        (path.to_owned(), Some(SecretBytes::new(text.as_bytes().to_vec())))
    });
    let files = ReferencedData::files(files);
    let by_default = json!({"secret": {"name": "tls"}});
    let named = |keys: Value| {
        let mut reference = json!({"secret": {"name": "other"}});
        reference["secret"].as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        reference
    };
    let rows = [
        (
            json!({"serving": by_default, "clientCA": by_default, "client": by_default, "token": by_default,
                   "upstreamCA": by_default}),
            &referenced_data,
        ),
        (
            json!({"serving": named(json!({"certificate": "c", "privateKey": "k"})), "clientCA": named(json!({"key": "a"})),
                   "client": named(json!({"certificate": "c", "privateKey": "k"})), "token": named(json!({"key": "t"})),
                   "upstreamCA": named(json!({"key": "a"}))}),
            &referenced_data,
        ),
        (
            json!({"serving": {"file": {"certificate": "p/c", "privateKey": "p/k"}}, "clientCA": {"file": "p/a"},
                   "client": {"file": {"certificate": "p/c", "privateKey": "p/k"}}, "token": {"file": "p/t"},
                   "upstreamCA": {"file": "p/a"}}),
            &files,
        ),
    ];
    for (references, referenced_data) in rows {
        let resolution = resolve(&Arc::new(with_references(references)), referenced_data);
        assert_eq!(resolution.problems, []);
        let cluster = check_cluster(&parse_cluster(&resolution.document).unwrap(), false).outcome.unwrap();
        assert_eq!(cluster.serving.unwrap().key.expose(), key.as_bytes());
        assert_eq!(cluster.certificate.unwrap().key.expose(), key.as_bytes());
        assert_eq!(cluster.token.unwrap().expose(), b"T0KEN");
        assert!(cluster.client_ca.is_some() && format!("{:?}", cluster.trust).contains("Bundle"));
    }
}

#[test]
fn reference_reaches_no_further_than_its_writer_may() {
    let referenced_data = secrets(&[
        ("empty", secret(&["a.test"], &[("token", " \n")])),
        ("foreign", secret(&["b.test"], &[("token", "TOPSECRET")])),
        ("nobodys", secret(&[], &[("token", "TOPSECRET")])),
    ]);
    let problem = |reference: Value, referenced_data: &ReferencedData| {
        let resolution = resolve(&Arc::new(with_references(json!({"token": reference}))), referenced_data);
        let shown = format!("{:?}", resolution.problems);
        assert!(!shown.contains("TOPSECRET"), "{shown}");
        assert!(problems(&resolution.document).iter().any(|problem| problem.code == ProblemCode::Unresolved));
        let [problem] = resolution.problems.as_slice() else { panic!("{reference}: {shown}") };
        assert_eq!(problem.path, "spec.portcullis.references.token");
        problem.message.clone()
    };
    let secret = |name: &str| json!({"secret": {"name": name}});
    let absent = problem(secret("absent"), &referenced_data);
    assert!(absent.contains("labelled for this UpstreamCluster"));
    for name in ["foreign", "nobodys"] {
        assert_eq!(problem(secret(name), &referenced_data), absent, "whether {name} exists is not said");
    }
    assert!(problem(secret("empty"), &referenced_data).contains("nothing under this key"));
    let file = json!({"file": "a/b"});
    assert!(problem(file.clone(), &referenced_data).contains("directory source"));
    assert!(problem(file.clone(), &ReferencedData::None).contains("directory source"));
    assert!(problem(secret("x"), &ReferencedData::None).contains("Kubernetes source"));
    let mut files = BTreeMap::from([("a/b".to_owned(), None)]);
    let missing = problem(file.clone(), &ReferencedData::files(files.clone()));
    assert_eq!(problem(file.clone(), &ReferencedData::files([])), missing);
    files.insert("a/b".to_owned(), Some(SecretBytes::new(b"\n".to_vec())));
    assert_eq!(problem(file, &ReferencedData::files(files)), "the file is empty");
}

#[test]
fn reference_that_is_wrong_in_itself_is_refused() {
    let pair = |certificate: &str| json!({"serving": {"file": {"certificate": certificate, "privateKey": "k"}}});
    let long = "a/".repeat(600) + "a";
    let rows = [
        (json!({"serving": {}}), "exactly one of secret and file"),
        (json!({"token": {"secret": {"name": "x"}, "file": "x"}}), "exactly one of secret and file"),
        (json!({"token": {"secret": {}}}), "secret.name"),
        (json!({"token": {"secret": {"name": "../x"}}}), "secret.name"),
        (json!({"token": {"secret": {"name": "X"}}}), "secret.name"),
        (json!({"token": {"secret": {"name": "x", "key": "a/b"}}}), "keys of a Secret"),
        (pair("/etc/passwd"), "relative"),
        (pair("../x"), ".."),
        (pair("a/../../x"), ".."),
        (pair("a/.."), ".."),
        (pair("a//b"), "//"),
        (pair("./a"), "."),
        (pair("a/"), "//"),
        (pair(""), "a path"),
        (pair("a\0b"), "a path"),
        (pair(&long), "1024"),
    ];
    for (references, message) in rows {
        let document = Arc::new(with_references(references.clone()));
        assert_eq!(referenced_files(&document).len(), 0, "{references}");
        let resolution = resolve(&document, &ReferencedData::files([]));
        assert_eq!((&resolution.document, resolution.problems.len()), (&document, 0), "{references}");
        let found = problems(&document);
        let is_expected = |problem: &Problem| problem.message.contains(message) && problem.code == ProblemCode::Invalid;
        assert!(found.iter().any(is_expected), "{references}: {found:?}");
    }
}

#[test]
fn reference_excludes_the_fields_that_it_replaces() {
    let (cert, key) = pair();
    let token = json!({"token": {"secret": {"name": "x"}}});
    let spec = json!({"clientConfig": {"bearerToken": "YQ=="}, "portcullis": {"references": token}});
    let referenced_data =
        secrets(&[("x", secret(&["a.test"], &[("token", "b"), ("tls.crt", &cert), ("tls.key", &key)]))]);
    let both = resolve(&Arc::new(document(spec)), &referenced_data);
    assert_eq!(both.problems, []);
    let found = problems(&both.document);
    assert!(
        found.iter().any(|problem| problem.message.contains("excludes spec.clientConfig.bearerToken")),
        "{found:?}"
    );
    assert_eq!(reference_of_path(&both.document, "spec.clientConfig.bearerToken"), None);
}

#[test]
fn rest_of_an_object_is_checked_without_what_it_refers_to() {
    let mut document = with_references(json!({
        "client": {"secret": {"name": "x"}}, "upstreamCA": {"file": "x"}, "clientCA": {"file": "x"},
    }));
    let codes: Vec<ProblemCode> = problems(&document).iter().map(|problem| problem.code).collect();
    assert_eq!(codes, [ProblemCode::Unresolved; 3]);
    document["spec"]["dispatchPolicies"] = json!([]);
    let found = problems(&document);
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(found[3].path, "spec.dispatchPolicies");
}

#[test]
fn placeholders_are_in_the_place_of_every_reference() {
    let (file, pair) = (json!({"file": "x"}), json!({"file": {"certificate": "c", "privateKey": "k"}}));
    for references in [
        json!({"client": pair, "upstreamCA": file, "clientCA": file, "serving": pair}),
        json!({"token": {"secret": {"name": "x"}}, "upstreamCA": file}),
    ] {
        let document = Arc::new(with_references(references.clone()));
        assert!(!problems(&document).is_empty(), "{references}");
        let assumed = with_placeholders(&document);
        assert_eq!(problems(&assumed), [], "{references}");
        assert_eq!(assumed["spec"]["portcullis"]["references"], json!({}), "{references}");
    }
    let wrong = Arc::new(with_references(json!({"token": {}})));
    assert_eq!(problems(&with_placeholders(&wrong)), problems(&wrong), "a mistake stays one");
    let resolved = Arc::new(document(json!({"clientConfig": {"bearerToken": "YQ=="}})));
    assert!(Arc::ptr_eq(&with_placeholders(&resolved), &resolved));
}

#[test]
fn front_proxys_pair_may_be_referred_to_and_a_token_may_not() {
    let client = json!({"secret": {"name": "x"}});
    let token = json!({"secret": {"name": "y"}});
    let rows = [
        (json!({"client": client}), json!({}), 1, None),
        (json!({"client": client, "token": token}), json!({}), 3, Some("spec.clientConfig.bearerToken")),
        (json!({"client": client}), json!({"bearerToken": "YQ=="}), 2, Some("spec.clientConfig.bearerToken")),
        (json!({}), json!({}), 2, Some("spec.clientConfig.certData")),
    ];
    for (references, mut client_config, count, refused) in rows {
        client_config["insecure"] = json!(true);
        let ours = json!({"upstreamIdentity": "RequestHeader", "references": references});
        let found = problems(&document(json!({"clientConfig": client_config, "portcullis": ours})));
        assert_eq!(found.len(), count, "{found:?}");
        assert!(refused.is_none_or(|path| found.iter().any(|problem| problem.path == path)), "{found:?}");
    }
}

#[test]
fn problem_of_referenced_data_is_reported_at_the_reference() {
    let document = with_references(json!({"serving": {"secret": {"name": "x"}}, "token": {"secret": {"name": "x"}}}));
    let rows = [
        ("spec.secureServing.certData", Some("spec.portcullis.references.serving")),
        ("spec.secureServing.keyData", Some("spec.portcullis.references.serving")),
        ("spec.clientConfig.bearerToken", Some("spec.portcullis.references.token")),
        ("spec.clientConfig.caData", None),
        ("spec.servers", None),
    ];
    for (path, blamed) in rows {
        assert_eq!(reference_of_path(&document, path), blamed, "{path}");
    }
}

#[test]
fn secret_says_for_whom_it_is() {
    let rows = [
        ("a.test", None, "a.test"),
        ("", None, ""),
        ("", Some("a.test, b.test,"), "a.test b.test"),
        ("c.test", Some("a.test"), "a.test c.test"),
        ("", Some("*"), "*"),
    ];
    for (label, annotation, wanted) in rows {
        let clusters: Vec<String> = SecretData::owners_of(label, annotation).into_iter().collect();
        assert_eq!(clusters.join(" "), wanted);
    }
}

#[test]
fn materials_show_nothing() {
    let shown = format!("{:?}", secrets(&[("x", secret(&["a.test"], &[("token", "TOPSECRET")]))]));
    assert!(shown.contains("[redacted]") && !shown.contains("TOPSECRET"), "{shown}");
}
