//! A listener that lets clients write about certificates themselves.

use portcullis_e2e::PlainFiles;
use portcullis_harness::certs::CertSpec;

use super::{Plain, for_1_38};

/// A mistake in the configuration that must let no client in. The connection shows whose certificate it was.
#[test]
fn forwarded_certificate_header_of_a_client_is_not_trusted() {
    for details in ["ALWAYS_FORWARD_ONLY", "APPEND_FORWARD", "FORWARD_ONLY"] {
        let plain = Plain::start("request-header", None, |files: &PlainFiles| {
            for_1_38(files);
            files.edit("listener.yaml", |text| text.replace("SANITIZE_SET", details)).unwrap();
        });
        let escaped = |pem: String| {
            let pairs = [('\n', "%0A"), (' ', "%20"), ('+', "%2B"), ('/', "%2F"), ('=', "%3D")];
            pairs.iter().fold(pem, |text, (byte, escape)| text.replace(*byte, escape))
        };
        let claim = format!("Chain=\"{}\"", escaped(plain.pki.alice.pem()));
        let header = [("x-forwarded-client-cert", claim.as_str())];
        let bob = plain.pki.client_ca.issue(&CertSpec::client("bob", [""; 0])).unwrap();
        for identity in [None, Some(&bob)] {
            let (response, record) = plain.send(identity, &header);
            let told = record.map(|record| record.effective.map(|user| user.username));
            assert_ne!(told, Some(Some("alice".to_owned())), "{details}: {}", response.text());
            assert!(response.status >= 400, "{details}: {}", response.text());
        }
    }
}
