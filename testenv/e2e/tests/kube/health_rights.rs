//! The rights that `portcullis rbac -f` prints are enough for the health check of a cluster, and no others are needed.

use std::time::Duration;

use portcullis_harness::client::H2Client;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{KubeFixture, NAME};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SOON: Duration = Duration::from_secs(30);

#[test]
fn health_check_of_another_path_works_with_the_printed_rights() {
    let Some(fixture) = KubeFixture::start("health-rights", &KubeOptions::default()) else { return };
    let alice = fixture.target().identity(&fixture.alice);
    let status = || H2Client::connect(&alice).ok()?.get(PODS, &[]).ok().map(|answer| answer.status);
    assert_eq!(status(), Some(200));
    // These bindings let every user, and every authenticated one, read /livez and /readyz.
    fixture.admin(&["delete", "clusterrolebinding", "system:public-info-viewer", "system:discovery"]);
    let health = json!({"healthCheck": {"path": "/livez?exclude=etcd", "interval": "1s"}});
    let manifest = fixture.manifest().set("/spec/portcullis", fixture.portcullis(health));
    fixture.gateway.write(&manifest).unwrap();
    let is_out = || (status() == Some(503)).then_some(());
    wait::until("no server is healthy with the rights to /readyz alone", SOON, is_out).unwrap();

    let file = fixture.gateway.manifests().join(format!("{NAME}.yaml"));
    let rights = fixture.gateway.plane().rbac_of("portcullis", &file).unwrap();
    let rights = fixture.run.write("printed.yaml", rights).unwrap();
    fixture.admin(&["apply", "-f", rights.to_str().unwrap()]);
    wait::until("the server is healthy", SOON, || (status() == Some(200)).then_some(())).unwrap();
}
