//! Client certificates: the user that kube-apiserver's authenticator sees in a chain. A case in which we see no user and it
//! sees one is in a list here and in docs/compatibility.md; the other way round is never allowed.
#![cfg(test)]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_core::identity::UserInfo;
use portcullis_core::upstream_user::UpstreamUser;
use portcullis_core::x509::{ClientCa, ClientChain, encode_chain, verify};
use portcullis_oracle_tests::{Dice, Oracle, bytes};
use rustls_pki_types::UnixTime;
use serde_json::Value;

const PAIRS: usize = 600;

/// Chains that kube-apiserver accepts and we refuse, by the row of docs/compatibility.md.
const STRICTER: [(&str, &[&str]); 12] = [
    (
        "signatures",
        &[
            "root on P-224",
            "root on P-521",
            "root on P-256 with SHA-512",
            "root on P-384 with SHA-512",
            "root on RSA 1024",
            "root on RSA 1536",
        ],
    ),
    ("version", &["leaf of version 1", "leaf of version 2", "leaf of version 1 with extensions"]),
    ("times", &["valid since 1950", "time without seconds"]),
    ("empty extended key usage", &["empty extended key usage"]),
    ("CA as a client", &["leaf that is a CA", "the root itself"]),
    ("trusted leaf", &["leaf alone in the pool", "self-signed leaf in the pool"]),
    (
        "name constraints",
        &[
            "permits mail, leaf has that",
            "permits URIs, leaf has that",
            "excludes directory names without being critical",
        ],
    ),
    (
        "critical extensions",
        &[
            "critical certificate policies",
            "critical inhibit any policy of the intermediate",
            "bytes behind an extension",
        ],
    ),
    ("size", &["5 intermediates", "6 intermediates", "7 intermediates", "8 intermediates", "300 organizations"]),
    ("empty organization", &["organization empty"]),
    (
        "blanks and control characters",
        &[
            "UID with a blank at its end",
            "common name with NUL",
            "common name with a line break",
            "common name with a tab",
            "common name with a blank in front",
            "common name with a blank behind",
            "organization with a blank in front",
        ],
    ),
    (
        "names",
        &[
            "empty set in the subject",
            "empty set behind the common name",
            "URI that is relative",
            "URI of an address",
            "URI that is opaque",
        ],
    ),
];

/// Chains that are stricter only beside something else: a trusted leaf needs no issuer with Go, and extensions in a root of
/// version 1 count here.
const STRICTER_IN_PAIRS: [&str; 4] = [
    "critical policy constraints of the intermediate",
    "leaf in the pool",
    "root of version 1",
    "root of version 1 above an intermediate",
];

#[derive(Debug, PartialEq)]
enum Verdict {
    User(UserInfo),
    Nobody,
    Refused(String),
}

fn ders(question: &Value, field: &str) -> Vec<Vec<u8>> {
    let list = question[field].as_array().unwrap().iter();
    list.map(|der| STANDARD.decode(der.as_str().unwrap()).unwrap()).collect()
}

fn ours(question: &Value) -> Verdict {
    let pem =
        |der: &Vec<u8>| format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der));
    let ca = match ClientCa::from_pem(&ders(question, "roots").iter().map(pem).collect::<String>()) {
        Ok(ca) => ca,
        Err(error) => return Verdict::Refused(error.to_string()),
    };
    let certificates = ders(question, "certificates");
    let encoded = encode_chain(certificates.iter().map(|der| &**der));
    let chain = match ClientChain::decode(&encoded) {
        Ok(chain) => chain,
        Err(error) => return Verdict::Refused(error.to_string()),
    };
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(question["now"].as_u64().unwrap()));
    match verify(&chain, &ca, now) {
        Err(error) => Verdict::Refused(error.to_string()),
        Ok(verified) => match verified.user.map(UserInfo::into_authenticated).map(UpstreamUser::new) {
            None => Verdict::Nobody,
            Some(Ok(user)) => Verdict::User(user.user().clone()),
            Some(Err(error)) => Verdict::Refused(error.to_string()),
        },
    }
}

fn theirs(answer: &Value) -> Verdict {
    let user = &answer["user"];
    if let Some(error) = answer.get("error") {
        return Verdict::Refused(error.as_str().unwrap_or_default().to_owned());
    }
    if user.is_null() {
        return Verdict::Nobody;
    }
    let text = |value: &Value| String::from_utf8(bytes(value)).unwrap();
    let texts = |value: &Value| value.as_array().unwrap().iter().map(text).collect::<Vec<_>>();
    let extra = user["extra"]
        .as_array()
        .unwrap()
        .iter()
        .map(|extra| portcullis_core::identity::Extra { key: text(&extra["key"]), values: texts(&extra["values"]) });
    Verdict::User(UserInfo {
        name: text(&user["name"]),
        uid: text(&user["uid"]),
        groups: texts(&user["groups"]),
        extra: extra.collect(),
    })
}

fn is_stricter(name: &str) -> bool {
    let pair = || name.split(" + ");
    if pair().count() > 1 && pair().any(|name| STRICTER_IN_PAIRS.contains(&name)) {
        return true;
    }
    pair().any(|name| STRICTER.iter().any(|(_, names)| names.contains(&name)))
}

#[test]
fn certificates_name_whom_kube_apiserver_sees_or_nobody() {
    let Some(oracle) = Oracle::or_skip("certificates beside kube-apiserver's") else { return };
    let (mut dice, pairs) = Dice::from_environment(PAIRS);
    let chains = oracle.chains(pairs, dice.below(1 << 40));
    let mut users = 0;
    let (mut wider, mut other, mut stricter) = (Vec::new(), Vec::new(), Vec::new());
    for (question, answer) in chains.iter().zip(oracle.ask(&chains)) {
        let name = question["name"].as_str().unwrap();
        let (ours, theirs) = (ours(question), theirs(&answer));
        users += usize::from(matches!(ours, Verdict::User(_)));
        let shown = format!("{name}\n  kube-apiserver {theirs:?}\n  here {ours:?}");
        match (&ours, &theirs) {
            (Verdict::Refused(_), Verdict::Refused(_)) => {}
            (_, Verdict::Refused(_)) => wider.push(shown),
            (Verdict::Refused(_), _) => stricter.push((name, shown)),
            _ if ours == theirs => {}
            _ => other.push(shown),
        }
    }
    assert!(users > chains.len() / 10, "some are believed: {users}");
    assert!(wider.is_empty(), "accepted here only:\n{}", wider.join("\n"));
    assert!(other.is_empty(), "somebody else here:\n{}", other.join("\n"));
    let unlisted: Vec<&str> =
        stricter.iter().filter(|(name, _)| !is_stricter(name)).map(|(_, shown)| &**shown).collect();
    assert!(unlisted.is_empty(), "refused here only, and not listed:\n{}", unlisted.join("\n"));
    for (row, names) in STRICTER {
        for listed in names {
            assert!(stricter.iter().any(|(name, _)| name == listed), "{row}: {listed} is no longer refused here only");
        }
    }
}

/// The certificates of the end-to-end tests are ordinary: here, with Go, and through an intermediate.
#[test]
fn harness_makes_certificates_that_are_believed() {
    use portcullis_harness::certs::{Ca, CertSpec, Usage};
    let root = Ca::new("clients").unwrap();
    let middle = root.intermediate(&CertSpec::new("middle")).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let spec = CertSpec::new("alice").usages([Usage::Client]);
    let encode = |der: &[u8]| STANDARD.encode(der);
    let questions: Vec<Value> = [root.issue(&spec).unwrap(), middle.issue(&spec).unwrap()]
        .iter()
        .map(|identity| {
            let chain: Vec<String> = identity.chain_der().iter().map(|der| encode(der)).collect();
            serde_json::json!({
                "ask": "certificate", "certificates": chain, "roots": [encode(root.certificate_der())], "now": now,
            })
        })
        .collect();
    for question in &questions {
        assert!(matches!(ours(question), Verdict::User(user) if user.name == "alice"));
    }
    if let Some(oracle) = Oracle::or_skip("the harness's certificates beside Go") {
        for (question, answer) in questions.iter().zip(oracle.ask(&questions)) {
            assert_eq!(ours(question), theirs(&answer));
        }
    }
}
