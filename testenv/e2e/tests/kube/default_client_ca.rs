use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::Ca;
use portcullis_harness::client::H2Client;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::rundir::RunDir;
use serde_json::json;

use crate::fixture::{Identities, KubeFixture};
use crate::kubectl::whoami;

/// A manifest of KubeGateway's users who have one CA for all clusters; the CA is in a file of the gateway.
#[test]
fn default_client_ca_names_users_as_the_apiserver_does() {
    for identities in Identities::ALL {
        let files = RunDir::new("default-client-ca-files").unwrap();
        let plane_flags = vec!["--references-root".to_owned(), files.path().display().to_string()];
        let options = GatewayOptions { plane_flags, ..GatewayOptions::default() };
        let Some(fixture) = KubeFixture::forwarding(identities, "default-client-ca", &KubeOptions::default(), &options)
        else {
            return;
        };
        let manifest = fixture.manifest().merge(&json!({"spec": {"secureServing": {"clientCAData": null}}}));
        fixture.gateway.apply(&manifest).unwrap();
        let refused = |status: u16, word: &str| {
            let client = H2Client::connect(&fixture.target().identity(&fixture.alice)).unwrap();
            let answer = client.get("/api/v1/namespaces/default/pods", &[]).unwrap();
            let said = String::from_utf8_lossy(&answer.body);
            assert!(answer.status == status && said.contains(word), "{identities:?}: {said}");
        };
        refused(403, "system:anonymous");

        files.write("users.crt", fixture.kube.client_ca().pem()).unwrap();
        fixture.gateway.change_settings(|spec| spec["defaultClientCA"] = json!({"file": "users.crt"})).unwrap();
        let direct = fixture.kube.kubeconfig().identity(&fixture.alice);
        let direct = whoami(fixture.kube.kubectl(&fixture.written(&direct)));
        assert_eq!(whoami(fixture.kubectl(&fixture.alice)), direct, "{identities:?}");

        let other = Ca::new("others").unwrap();
        fixture.gateway.and_wait(|| files.write("users.crt", other.pem()).map(drop)).unwrap();
        refused(401, "Unauthorized");
    }
}
