//! Certificates say what was asked for, and verify exactly when they should.

#![cfg(test)]

use std::time::Duration;

use portcullis_harness::certs::{self, Ca, CertSpec, Identity, Usage};
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::prelude::{FromDer, X509Certificate};

fn verify(ca: &Ca, identity: &Identity) -> Result<(), webpki::Error> {
    let root = CertificateDer::from(ca.certificate_der().to_owned());
    let anchor = anchor_from_trusted_cert(&root)?;
    let chain = identity.rustls_chain();
    let leaf = EndEntityCert::try_from(&chain[0])?;
    let algorithms = webpki::ALL_VERIFICATION_ALGS;
    leaf.verify_for_usage(algorithms, &[anchor], &chain[1..], UnixTime::now(), KeyUsage::client_auth(), None, None)
        .map(drop)
}

#[test]
fn subjects_keep_order_and_duplicates() {
    let ca = Ca::new("ca").unwrap();
    let spec = CertSpec::client("first", ["b", "a", "b"]).common_name("last").uid("u-1").serial_number(7);
    let identity = ca.issue(&spec).unwrap();
    let (rest, parsed) = X509Certificate::from_der(identity.leaf_der()).unwrap();
    assert!(rest.is_empty());
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().unwrap().to_owned();
    let subject = parsed.subject();
    assert_eq!(subject.iter_organization().map(text).collect::<Vec<_>>(), ["b", "a", "b"]);
    assert_eq!(subject.iter_common_name().map(text).collect::<Vec<_>>(), ["first", "last"]);
    let uid = x509_parser::der_parser::oid!(1.3.6.1.4.1.57683.2);
    assert_eq!(subject.iter_by_oid(&uid).map(text).collect::<Vec<_>>(), ["u-1"]);
    assert_eq!(parsed.serial, 7_u32.into());
    assert_eq!(parsed.issuer().iter_common_name().map(text).collect::<Vec<_>>(), ["ca"]);
}

#[test]
fn verification_has_the_expected_verdicts() {
    let ca = Ca::new("ca").unwrap();
    let other = Ca::new("ca").unwrap();
    let middle = ca.intermediate(&CertSpec::new("middle")).unwrap();
    let user = || CertSpec::client("u", ["g"]);
    let through = middle.issue(&user()).unwrap();
    let table: Vec<(&str, Identity, bool)> = vec![
        ("client", ca.issue(&user()).unwrap(), true),
        ("no usage at all", ca.issue(&CertSpec::new("u")).unwrap(), true),
        ("server only", ca.issue(&CertSpec::server("u", ["x"])).unwrap(), false),
        ("server and client", ca.issue(&user().usages([Usage::Server, Usage::Client])).unwrap(), true),
        ("code signing", ca.issue(&user().usages([Usage::CodeSigning])).unwrap(), false),
        ("expired", ca.issue(&user().expired()).unwrap(), false),
        ("not yet valid", ca.issue(&user().not_yet_valid()).unwrap(), false),
        ("valid for an hour", ca.issue(&user().valid_for(Duration::from_secs(3600))).unwrap(), true),
        ("authority of the same name with another key", other.issue(&user()).unwrap(), false),
        ("through an intermediate", through.clone(), true),
        ("intermediate not sent", through.leaf_only(), false),
        ("self-signed", certs::self_signed(&user()).unwrap(), false),
    ];
    for (what, identity, good) in table {
        let verdict = verify(&ca, &identity);
        assert_eq!(verdict.is_ok(), good, "{what}: {verdict:?}");
    }
}

#[test]
fn debug_output_hides_the_key() {
    let identity = certs::self_signed(&CertSpec::new("x")).unwrap();
    let shown = format!("{:?}", identity.key());
    assert_eq!(shown, "PrivateKey(..)");
}
