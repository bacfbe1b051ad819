//! From the README of `envoy/` to a working `kubectl auth whoami`, in front of a real kube-apiserver.

use std::time::Duration;

use portcullis_e2e::{PlainFiles, PlainGateway, PlainSetup};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::kube::{KubeOptions, RealKube};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{project_root, wait};
use serde_json::Value;

use crate::fixture::{BareKube, NAME, with_uid};

const SOON: Duration = Duration::from_secs(20);
const PODS: &str = "/api/v1/namespaces/default/pods";

struct Plain {
    kube: RealKube,
    front: Ca,
    alice: Identity,
    run: RunDir,
}

impl Plain {
    fn start(test: &str) -> Option<Self> {
        let bare = BareKube::believing(Some("front-proxy-client"), test, KubeOptions::default())?;
        let BareKube { kube, front_ca: front, run, .. } = bare;
        let alice = kube.client_ca().issue(&with_uid(CertSpec::client("alice", ["dev"]), "uid-of-alice")).unwrap();
        Some(Plain { kube, front, alice, run })
    }

    fn admin(&self, args: &[&str]) -> String {
        self.kube.admin_kubectl().unwrap().args(args).run_ok().unwrap()
    }

    fn whoami(&self, kubeconfig: &Kubeconfig) -> Value {
        let path = kubeconfig.write(&self.run.join("kubeconfig")).unwrap();
        self.kube.kubectl(&path).args(["auth", "whoami"]).json().unwrap()["status"]["userInfo"].take()
    }

    /// Certificate and token: kube-apiserver takes both for whom it takes them directly.
    fn everybody_is_who_they_are(&self, gateway: &PlainGateway) {
        let token = self.admin(&["create", "token", "robot"]);
        let ways: [(&str, &dyn Fn(Kubeconfig) -> Kubeconfig); 2] =
            [("alice", &|config| config.identity(&self.alice)), ("robot", &|config| config.token(token.trim()))];
        for (name, credential) in ways {
            let direct = self.whoami(&credential(self.kube.kubeconfig()));
            assert!(direct["username"].as_str().unwrap().ends_with(name));
            assert_eq!(self.whoami(&credential(gateway.kubeconfig())), direct, "{name}");
        }
    }
}

#[test]
fn users_keep_their_identity_behind_an_own_envoy() {
    let Some(plain) = Plain::start("kube-plain") else { return };
    plain.admin(&["create", "serviceaccount", "robot"]);
    a_folder_of_kubeadm_is_enough(&plain);
    a_user_of_its_own_is_enough_to_impersonate(&plain);
}

/// The certificates that kubeadm makes are all that front-proxy mode needs, and nothing is changed in the cluster.
fn a_folder_of_kubeadm_is_enough(plain: &Plain) {
    let pki = plain.run.make_dir("kubernetes-pki").unwrap();
    let serving_ca = Ca::new("serving").unwrap();
    let pair = |name: &str, identity: Identity| {
        identity.write_pem(&pki.join(format!("{name}.crt")), &pki.join(format!("{name}.key"))).unwrap();
    };
    pair("apiserver", serving_ca.issue(&CertSpec::server(NAME, [NAME])).unwrap());
    pair("front-proxy-client", plain.front.issue(&CertSpec::client("front-proxy-client", [""; 0])).unwrap());
    // kubeadm has one authority for servers and clients; here they are two, and a bundle of both is one as well.
    let bundle = plain.kube.client_ca().pem() + &plain.kube.server_ca().pem();
    plain.run.write("kubernetes-pki/ca.crt", bundle).unwrap();
    let servers = [plain.kube.apiservers()[0].address()];
    let files = PlainFiles::render(&plain.run, "request-header", NAME, &servers, &pki, serving_ca).unwrap();
    let gateway = files.start(&plain.run, None).unwrap();
    plain.everybody_is_who_they_are(&gateway);

    let rights = project_root().join("envoy/plain/request-header/rbac.yaml");
    plain.admin(&["apply", "-f", rights.to_str().unwrap()]);
    gateway.files().edit("routes.yaml", |text| text.replace("# reviews: {", "reviews: {")).unwrap();
    let unheard_of = gateway.kubeconfig().token("unheard-of");
    let path = unheard_of.write(&plain.run.join("unheard-of")).unwrap();
    let reviewed = || {
        plain.kube.kubectl(&path).args(["auth", "whoami"]).run().ok()?;
        let mut events = plain.kube.apiservers()[0].audit_events().ok()?.into_iter();
        events.find(|event| event["objectRef"]["resource"] == "tokenreviews")
    };
    wait::until("tokens are reviewed", SOON, reviewed).unwrap();
    plain.everybody_is_who_they_are(&gateway);
}

fn a_user_of_its_own_is_enough_to_impersonate(plain: &Plain) {
    let client = plain.kube.client_ca().issue(&CertSpec::client("system:portcullis", [""; 0])).unwrap();
    let setup = PlainSetup {
        mode: "impersonate",
        name: NAME,
        servers: vec![plain.kube.apiservers()[0].address()],
        client: &client,
        upstream_ca: plain.kube.server_ca(),
        client_ca: plain.kube.client_ca(),
    };
    let gateway = PlainFiles::lay_out(&plain.run, &setup).unwrap().start(&plain.run, None).unwrap();
    let rights = project_root().join("envoy/plain/impersonate/rbac.yaml");
    plain.admin(&["apply", "-f", rights.to_str().unwrap()]);
    plain.everybody_is_who_they_are(&gateway);
}

/// kube-apiserver decides the user of a token and whom the user may impersonate, as without a gateway.
#[test]
fn token_is_its_own_where_nobody_is_told() {
    let Some(plain) = Plain::start("kube-unchanged") else { return };
    plain.admin(&["create", "serviceaccount", "robot"]);
    let token = plain.admin(&["create", "token", "robot"]);
    let gateways = ["policy", "request-info"].map(|mode| {
        let setup = PlainSetup {
            mode,
            name: NAME,
            servers: vec![plain.kube.apiservers()[0].address()],
            // The certificate there must not be presented: for kube-apiserver its holder is alice.
            client: &plain.alice,
            upstream_ca: plain.kube.server_ca(),
            client_ca: plain.kube.client_ca(),
        };
        PlainFiles::lay_out(&plain.run, &setup).unwrap().start(&plain.run, None).unwrap()
    });
    let run = |config: Kubeconfig, args: &[&str]| {
        let path = config.write(&plain.run.join("kubeconfig")).unwrap();
        plain.kube.kubectl(&path).args(args).run_ok()
    };
    let as_bob = ["auth", "whoami", "--as", "bob", "--as-group", "dev", "-o", "json"];
    let pods_as_bob = ["get", "--raw", PODS, "--as", "bob"];
    for gateway in &gateways {
        let direct = plain.whoami(&plain.kube.kubeconfig().token(token.trim()));
        assert_eq!(plain.whoami(&gateway.kubeconfig().token(token.trim())), direct);
        let refused = run(gateway.kubeconfig().token(token.trim()), &pods_as_bob).unwrap_err().to_string();
        let directly = run(plain.kube.kubeconfig().token(token.trim()), &pods_as_bob).unwrap_err().to_string();
        assert!(refused.contains("(Forbidden)"), "{refused}");
        let reason = |text: &str| text.split_once("Error from server").map(|(_, reason)| reason.to_owned());
        assert_eq!(reason(&refused), reason(&directly), "in kube-apiserver's own words");
        let nobody = run(gateway.kubeconfig().identity(&plain.alice), &["get", "--raw", PODS]).unwrap_err().to_string();
        assert!(nobody.contains("system:anonymous"), "a certificate ends at Envoy: {nobody}");
    }
    plain.admin(&["create", "clusterrole", "actor", "--verb=impersonate", "--resource=users,groups"]);
    plain.admin(&["create", "clusterrolebinding", "actor", "--clusterrole=actor", "--serviceaccount=default:robot"]);
    for gateway in &gateways {
        let allowed = || run(gateway.kubeconfig().token(token.trim()), &as_bob).ok();
        let told: Value = serde_json::from_str(&wait::until("robot may", SOON, allowed).unwrap()).unwrap();
        let directly = run(plain.kube.kubeconfig().token(token.trim()), &as_bob).unwrap();
        let directly: Value = serde_json::from_str(&directly).unwrap();
        assert_eq!(told["status"]["userInfo"]["username"], "bob");
        assert_eq!(told["status"], directly["status"]);
    }
}
