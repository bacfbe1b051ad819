//! Versions and cipher suites of TLS between clients and the gateway. Only those are admitted that Envoy offers by default.

use super::Findings;
use crate::bounds::MAX_CIPHER_SUITES;
use crate::cipher_suites::CIPHER_SUITES;
use crate::types::{ListenerTlsSettings, TlsVersion};

/// TLS between clients and the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DownstreamTls {
    /// The oldest version.
    pub minimum_version: TlsVersion,
    /// The suites of TLS 1.2 by Envoy's names, the preferred first; Envoy's own if empty.
    pub cipher_suites: Vec<String>,
}

const PATH: &str = "spec.listener.tls.cipherSuites";

/// Checks `listener.tls`.
pub(super) fn check_listener_tls(raw: &ListenerTlsSettings, findings: &mut Findings) -> DownstreamTls {
    let mut suites: Vec<String> = Vec::new();
    if raw.cipher_suites.len() > MAX_CIPHER_SUITES {
        findings.problem(PATH, format!("must be at most {MAX_CIPHER_SUITES}"));
    }
    for (index, name) in raw.cipher_suites.iter().take(MAX_CIPHER_SUITES).enumerate() {
        match CIPHER_SUITES.iter().find(|(known, _)| known == name) {
            // Two names of one suite are in kube-apiserver's list, too.
            Some((_, suite)) if suites.iter().any(|other| other == suite) => {}
            Some((_, suite)) => suites.push((*suite).to_owned()),
            None => findings.problem(format!("{PATH}[{index}]"), refusal(name)),
        }
    }
    if raw.minimum_version == TlsVersion::Tls13 && !raw.cipher_suites.is_empty() {
        findings.problem(PATH, "has no effect with minimumVersion TLSv1_3: suites of TLS 1.3 cannot be chosen");
    }
    for (key, other) in [("ECDSA", "RSA"), ("RSA", "ECDSA")] {
        if !suites.is_empty() && suites.iter().all(|suite| suite.contains(other)) {
            let message = format!("clients with TLS 1.2 do not reach names whose certificate has a key of {key}");
            findings.warning(PATH, message);
        }
    }
    DownstreamTls { minimum_version: raw.minimum_version, cipher_suites: suites }
}

/// The reason why a name is not one of those that may be listed.
fn refusal(name: &str) -> String {
    let weak = ["_CBC_", "_RC4_", "_3DES_", "_NULL_", "_anon_", "_EXPORT_"];
    if let Some((known, _)) = CIPHER_SUITES.iter().find(|(_, suite)| *suite == name) {
        return format!("must be written as {known}");
    }
    if ["TLS_AES_", "TLS_CHACHA20_"].iter().any(|prefix| name.starts_with(prefix)) {
        return "is a suite of TLS 1.3, which has all of its suites in any case: omit it".to_owned();
    }
    if name.starts_with("TLS_RSA_") || weak.iter().any(|part| name.contains(part)) {
        return "is not secure: only suites of ECDHE with AES-GCM or ChaCha20-Poly1305 may be listed".to_owned();
    }
    format!("must be one of {}", CIPHER_SUITES.map(|(known, _)| known).join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(tls: &Value) -> (DownstreamTls, Vec<String>, usize) {
        let mut findings = Findings::default();
        let tls = check_listener_tls(&serde_json::from_value(tls.clone()).unwrap(), &mut findings);
        (tls, findings.problems.iter().map(ToString::to_string).collect(), findings.warnings.len())
    }

    #[test]
    fn suites_are_named_as_kube_apiserver_names_them() {
        let suites = |names: Value| checked(&json!({"cipherSuites": names}));
        assert_eq!(suites(json!([])), (DownstreamTls::default(), Vec::new(), 0));
        let all = json!(CIPHER_SUITES.map(|(known, _)| known));
        let (tls, problems, warnings) = suites(all);
        assert_eq!((tls.cipher_suites.len(), problems, warnings), (6, Vec::new(), 0));
        let (tls, ..) = suites(json!([
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
        ]));
        assert_eq!(
            tls.cipher_suites,
            ["ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-GCM-SHA256"],
            "in this order"
        );
    }

    #[test]
    fn suites_that_no_default_has_are_refused() {
        for (name, problem) in [
            ("TLS_AES_128_GCM_SHA256", "is a suite of TLS 1.3"),
            ("TLS_CHACHA20_POLY1305_SHA256", "is a suite of TLS 1.3"),
            ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "is not secure"),
            ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "is not secure"),
            ("TLS_RSA_WITH_AES_128_GCM_SHA256", "is not secure"),
            ("TLS_ECDHE_RSA_WITH_RC4_128_SHA", "is not secure"),
            ("ECDHE-RSA-AES128-GCM-SHA256", "must be written as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
            ("tls_ecdhe_rsa_with_aes_128_gcm_sha256", "must be one of TLS_ECDHE_"),
            ("ALL", "must be one of TLS_ECDHE_"),
            ("", "must be one of TLS_ECDHE_"),
            ("ECDHE-RSA-AES128-GCM-SHA256:ALL", "must be one of TLS_ECDHE_"),
        ] {
            let (tls, problems, _) = checked(&json!({"cipherSuites": [name]}));
            let wanted = format!("spec.listener.tls.cipherSuites[0]: {problem}");
            assert!(problems.len() == 1 && problems[0].starts_with(&wanted), "{name:?}: {problems:?}");
            assert_eq!(tls.cipher_suites, [""; 0], "{name:?}");
        }
        let (_, problems, _) = checked(&json!({"cipherSuites": vec!["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"; 17]}));
        assert_eq!(problems, ["spec.listener.tls.cipherSuites: must be at most 16"]);
    }

    #[test]
    fn list_without_effect_or_for_one_kind_of_key_is_pointed_out() {
        let rsa = json!(["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]);
        let ecdsa = json!(["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]);
        for one in [&rsa, &ecdsa] {
            let (_, problems, warnings) = checked(&json!({"cipherSuites": one}));
            assert_eq!((problems.len(), warnings), (0, 1), "{one}");
        }
        let (_, problems, _) = checked(&json!({"minimumVersion": "TLSv1_3", "cipherSuites": rsa}));
        assert!(problems[0].starts_with("spec.listener.tls.cipherSuites: has no effect"), "{problems:?}");
        let (tls, problems, _) = checked(&json!({"minimumVersion": "TLSv1_3"}));
        assert_eq!((tls.minimum_version, problems.len()), (TlsVersion::Tls13, 0));
        for old in ["TLSv1_0", "TLSv1_1", "TLS_AUTO", "VersionTLS12", "1.2"] {
            assert!(serde_json::from_value::<ListenerTlsSettings>(json!({"minimumVersion": old})).is_err(), "{old}");
        }
    }
}
