//! References in place of inline fields, as the definition and `check` judge them.

use serde_json::{Value, json};

use super::cases::Row;
use super::cases::Verdict::{Accepted, Refused};

/// A whole `spec` with references, and with more fields of a client.
fn spec(references: &Value, client: &Value) -> Value {
    json!({
        "servers": [{"endpoint": "https://10.0.0.1:6443"}], "dispatchPolicies": [{"rules": [{}]}],
        "clientConfig": client, "portcullis": {"references": references},
    })
}

pub(super) fn rows() -> Vec<Row> {
    let secret = |name: &str| json!({"secret": {"name": name}});
    let good = json!({
        "serving": secret("a"), "clientCA": secret("a.b-c"), "client": {"file": {"certificate": "a/b", "privateKey": "c"}},
        "token": {"secret": {"name": "a", "key": "A._-"}}, "upstreamCA": {"file": "a"},
    });
    let mut without_client = spec(&good, &Value::Null);
    without_client["portcullis"]["clientCertificateVerification"] = json!("Handshake");
    let token_and_ca = json!({"token": secret("a"), "upstreamCA": secret("a")});
    let mut rows = vec![
        ("/spec", without_client, Accepted),
        ("/spec", spec(&good, &json!({"serverName": "a", "bearerToken": "", "certData": null})), Accepted),
        ("/spec", spec(&token_and_ca, &json!({})), Accepted),
        ("/spec", spec(&json!({"token": secret("a")}), &json!({"insecure": true})), Accepted),
        ("/spec", spec(&json!({"token": secret("a")}), &json!({})), Refused("spec.clientConfig.caData")),
        ("/spec", spec(&json!({"upstreamCA": secret("a")}), &json!({})), Refused("neither certData")),
        ("/spec", spec(&token_and_ca, &json!({"insecure": true})), Refused("spec.portcullis.references.upstreamCA")),
    ];
    // The object has all of these fields itself.
    for name in ["serving", "clientCA", "client", "upstreamCA"] {
        let message =
            if name == "upstreamCA" { "spec.portcullis.references.upstreamCA" } else { "remove one of the two" };
        rows.push(("/spec/portcullis/references", json!({name: secret("a")}), Refused(message)));
    }
    rows.push(("/spec/portcullis/references", json!({"token": secret("a")}), Accepted));
    let token = |token: Value| json!({"token": token});
    let path = "spec.portcullis.references.token";
    for bad in [
        json!({}),
        json!({"secret": {"name": "a"}, "file": "a"}),
        json!({"secret": {}}),
        json!({"secret": {"name": "A"}}),
        json!({"secret": {"name": "a/b"}}),
        json!({"secret": {"name": "a", "key": "a/b"}}),
    ] {
        rows.push(("/spec/portcullis/references", token(bad), Refused(path)));
    }
    for bad in ["", "/a", "..", "../a", "a/..", "a/../b", ".", "./a", "a/.", "a//b", "a/"] {
        rows.push(("/spec/portcullis/references", token(json!({"file": bad})), Refused(path)));
    }
    for good in ["a", "a/b/c", ".a", "..data/a", "...", "a..b/c.", "ä b"] {
        rows.push(("/spec/portcullis/references", token(json!({"file": good})), Accepted));
    }
    rows
}
