use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::Ca;
use portcullis_harness::client::H2Client;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::rundir::RunDir;
use serde_json::json;

use crate::kubectl::whoami;
use crate::world::{Identities, World};

/// A manifest of KubeGateway's users who have one CA for all clusters; the CA is in a file of the gateway.
#[test]
fn default_client_ca_names_users_as_the_apiserver_does() {
    for identities in Identities::ALL {
        let files = RunDir::new("default-client-ca-files").unwrap();
        let plane_flags = vec!["--references-root".to_owned(), files.path().display().to_string()];
        let options = GatewayOptions { plane_flags, ..GatewayOptions::default() };
        let Some(world) = World::telling(identities, "default-client-ca", &KubeOptions::default(), &options) else {
            return;
        };
        let manifest = world.manifest().merge(&json!({"spec": {"secureServing": {"clientCAData": null}}}));
        world.gateway.apply(&manifest).unwrap();
        let refused = |status: u16, word: &str| {
            let client = H2Client::connect(&world.target().identity(&world.alice)).unwrap();
            let answer = client.get("/api/v1/namespaces/default/pods", &[]).unwrap();
            let said = String::from_utf8_lossy(&answer.body);
            assert!(answer.status == status && said.contains(word), "{identities:?}: {said}");
        };
        refused(403, "system:anonymous");

        files.write("users.crt", world.kube.client_ca().pem()).unwrap();
        world.gateway.change_settings(|spec| spec["defaultClientCA"] = json!({"file": "users.crt"})).unwrap();
        let direct = world.kube.kubeconfig().identity(&world.alice);
        let direct = whoami(world.kube.kubectl(&world.written(&direct)));
        assert_eq!(whoami(world.kubectl(&world.alice)), direct, "{identities:?}");

        let other = Ca::new("others").unwrap();
        world.gateway.and_wait(|| files.write("users.crt", other.pem()).map(drop)).unwrap();
        refused(401, "Unauthorized");
    }
}
