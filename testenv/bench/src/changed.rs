//! Bare Envoys that differ from the bare one by one setting, to see what the setting costs.

use serde_json::{Map, Value, json};

use crate::case::Case;

/// Changes an object of a bare Envoy's configuration.
pub(crate) fn change(case: Case, object: &mut Map<String, Value>) {
    match case {
        Case::NoRetries => remove(object, &["retry_policy"]),
        Case::NoAccessLog => remove(object, &["access_log"]),
        Case::Windows => remove(
            object,
            &["initial_stream_window_size", "initial_connection_window_size", "per_connection_buffer_limit_bytes"],
        ),
        Case::Aes => cipher(object, "AES128-GCM-SHA256"),
        Case::ChaCha => cipher(object, "CHACHA20-POLY1305"),
        _ => {}
    }
}

fn remove(object: &mut Map<String, Value>, fields: &[&str]) {
    for field in fields {
        object.remove(*field);
    }
}

/// TLS 1.2 with one cipher: Envoy has no setting for those of TLS 1.3.
fn cipher(object: &mut Map<String, Value>, name: &str) {
    if object.contains_key("tls_params") {
        let suites = ["ECDSA", "RSA"].map(|key| format!("ECDHE-{key}-{name}"));
        object.insert(
            "tls_params".to_owned(),
            json!({
                "tls_minimum_protocol_version": "TLSv1_2",
                "tls_maximum_protocol_version": "TLSv1_2",
                "cipher_suites": suites,
            }),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::change;
    use crate::case::Case;

    #[test]
    fn each_case_changes_its_own_setting() {
        let before = json!({"retry_policy": 1, "access_log": 2, "initial_stream_window_size": 3, "tls_params": {}});
        for (case, field, has_field) in [
            (Case::NoRetries, "retry_policy", false),
            (Case::NoAccessLog, "access_log", false),
            (Case::Windows, "initial_stream_window_size", false),
            (Case::Aes, "tls_params", true),
        ] {
            let mut object = before.as_object().unwrap().clone();
            change(case, &mut object);
            let differ: Vec<&String> =
                before.as_object().unwrap().keys().filter(|key| object.get(*key) != before.get(*key)).collect();
            assert_eq!((differ, object.contains_key(field)), (vec![&field.to_owned()], has_field));
        }
        let mut other = before.as_object().unwrap().clone();
        change(Case::Bare, &mut other);
        assert_eq!(Value::Object(other), before);
    }
}
