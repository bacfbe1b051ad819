use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::portcullis;

#[test]
fn certificate_is_told_by_its_user() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, pem: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path
    };
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let other = CertifiedIssuer::self_signed(CertificateParams::default(), KeyPair::generate().unwrap()).unwrap();
    let leaf = |subject: &[(DnType, &str)]| {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.signed_by(&KeyPair::generate().unwrap(), &ca).unwrap().pem()
    };
    let alice = write("alice", &leaf(&[(DnType::OrganizationName, "dev"), (DnType::CommonName, "alice")]));
    let nobody = write("nobody", &leaf(&[(DnType::OrganizationName, "dev")]));
    let blank = write("blank", &leaf(&[(DnType::CommonName, " alice")]));
    let (ca, other) = (write("ca", &ca.pem()), write("other", &other.pem()));
    let explain = |certificate: &Path, ca: &Path, at: &str| -> Value {
        let paths = [certificate.to_str().unwrap(), ca.to_str().unwrap()];
        let arguments =
            ["explain", "certificate", "--certificate", paths[0], "--ca", paths[1], "--at", at, "-o", "json"];
        serde_json::from_slice(&portcullis(&arguments, "").stdout).unwrap()
    };
    let now = "2030-01-01T00:00:00Z";
    let answer = explain(&alice, &ca, now);
    assert_eq!(answer["outcome"], "user");
    assert_eq!((&answer["name"], &answer["groups"], &answer["uid"]), (&json!("alice"), &json!(["dev"]), &json!("")));
    let id = &answer["extra"]["authentication.kubernetes.io/credential-id"][0];
    assert!(id.as_str().unwrap().starts_with("X509SHA256="));
    assert_eq!(answer["reason"], Value::Null);
    assert_eq!(explain(&nobody, &ca, now)["outcome"], "none");
    for (certificate, ca, at) in [
        (&alice, &other, now),
        (&alice, &ca, "5000-01-01T00:00:00+02:00"),
        (&alice, &ca, "1960-01-01T00:00:00Z"),
        (&alice, &alice, now),
        (&blank, &ca, now),
    ] {
        let answer = explain(certificate, ca, at);
        assert_eq!(answer["outcome"], "error", "{answer}");
        assert!(!answer["reason"].as_str().unwrap().is_empty());
    }
    let garbage = write("garbage", "garbage");
    assert_eq!(explain(&garbage, &ca, now)["outcome"], "error");
    assert_eq!(explain(&alice, &garbage, now)["outcome"], "error");
}
