//! Gardener's controllers own the names of our objects; what keeps them from taking these back.

use std::time::Duration;

use portcullis_harness::kube::KubeOptions;
use portcullis_harness::{deps, project_root, wait};
use serde_json::{Value, json};

use super::fixture::admin;
use crate::fixture::BareKube;

const SOON: Duration = Duration::from_secs(20);
const SHOOT: &str = "shoot--dev--prod";
const GARDENLET: &str = "system:serviceaccount:garden:gardenlet";
const RESOURCE_MANAGER: &str = "system:serviceaccount:garden:gardener-resource-manager";
/// Our objects under Gardener's names, and who of Gardener writes them.
const OURS: [(&str, &str, &str, &str); 4] = [
    ("virtualservices", SHOOT, "kube-apiserver", GARDENLET),
    ("destinationrules", SHOOT, "kube-apiserver", GARDENLET),
    ("envoyfilters", "istio-ingress", "shoot--dev--prod-istio-tls-termination", RESOURCE_MANAGER),
    ("envoyfilters", "istio-ingress", "shoot--dev--prod-apiserver-proxy", RESOURCE_MANAGER),
];

struct Seed(BareKube);

impl Seed {
    fn start(test: &str) -> Option<Self> {
        let istio = deps::or_skip(test, deps::istio()).unwrap()?;
        let bare = BareKube::start(test, KubeOptions::default())?;
        let kube = &bare.kube;
        kube.apply(&istio.crds).unwrap();
        for namespace in [SHOOT, "istio-ingress", "shoot--dev--other"] {
            admin(kube, &["create", "namespace", namespace]);
        }
        let seed = Self(bare);
        wait::until("the kinds are served", SOON, || {
            OURS.iter().all(|(kind, ..)| seed.kubectl(&["get", kind]).is_ok()).then_some(())
        })
        .unwrap();
        Some(seed)
    }

    fn kubectl(&self, args: &[&str]) -> Result<(), String> {
        let told = self.0.kube.admin_kubectl().unwrap().args(args).run().unwrap();
        if told.success() { Ok(()) } else { Err(told.stderr) }
    }

    fn apply(&self, file: &str) -> Result<(), String> {
        let path = project_root().join("envoy/gardener").join(file);
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", path.to_str().unwrap()])
    }

    fn apply_ours(&self) -> Result<(), String> {
        ["shoot.yaml", "termination.yaml", "apiserver-proxy.yaml"].iter().try_for_each(|file| self.apply(file))
    }

    fn get(&self, kind: &str, namespace: &str, name: &str) -> Value {
        self.0.kube.admin_kubectl().unwrap().args(["get", kind, name, "-n", namespace]).json().unwrap()
    }

    /// Writes an object's spec and labels as a user.
    fn write(&self, user: &str, (kind, namespace, name): (&str, &str, &str)) -> Result<(), String> {
        let labels = json!({"labels": {"app": "kubernetes", "portcullis.dev/keep": null}});
        let spec = match kind {
            "envoyfilters" => json!({"configPatches": []}),
            "destinationrules" => json!({"exportTo": ["*"], "subsets": null}),
            _ => json!({"exportTo": ["*"], "http": null}),
        };
        let patch = json!({"metadata": labels, "spec": spec});
        let (who, patch) = (format!("--as={user}"), patch.to_string());
        let args =
            ["patch", kind, name, "-n", namespace, "--type=merge", "-p", &patch, &who, "--as-group=system:masters"];
        self.kubectl(&args)
    }

    /// Whether an object is what it was after Gardener has written it.
    fn is_kept(&self, (kind, namespace, name, user): (&str, &str, &str, &str)) -> Result<bool, String> {
        let before = self.get(kind, namespace, name);
        self.write(user, (kind, namespace, name))?;
        let after = self.get(kind, namespace, name);
        Ok((&after["spec"], &after["metadata"]["labels"]) == (&before["spec"], &before["metadata"]["labels"]))
    }
}

#[test]
fn objects_are_kept_from_gardeners_controllers() {
    let Some(seed) = Seed::start("gardener-keep") else { return };
    seed.apply_ours().unwrap();
    // Without the policies each of them is Gardener's again.
    for one in OURS {
        assert_eq!(seed.is_kept(one), Ok(false), "{one:?}");
    }
    seed.apply("keep.yaml").unwrap();
    wait::until("the policies are in effect", SOON, || {
        // While a policy is new, the server may know no kinds for it yet, and refuse.
        seed.apply_ours().ok()?;
        OURS.iter().all(|one| seed.is_kept(*one) == Ok(true)).then_some(())
    })
    .unwrap();
    // Other writers act, and so does the end of a shoot.
    for (kind, namespace, name, user) in OURS {
        seed.write("an-operator", (kind, namespace, name)).unwrap();
        assert!(seed.get(kind, namespace, name)["metadata"]["labels"]["portcullis.dev/keep"].is_null(), "{name}");
        seed.apply_ours().unwrap();
        let who = format!("--as={user}");
        seed.kubectl(&["delete", kind, name, "-n", namespace, &who, "--as-group=system:masters"]).unwrap();
    }
}

#[test]
fn front_proxy_certificate_has_no_other_way() {
    let Some(seed) = Seed::start("gardener-mtls") else { return };
    seed.apply("keep.yaml").unwrap();
    let rule = |namespace: &str| {
        let tls = json!({"mode": "MUTUAL", "credentialName": format!("{namespace}-kube-apiserver-istio-mtls")});
        json!({
            "apiVersion": "networking.istio.io/v1beta1",
            "kind": "DestinationRule",
            "metadata": {"name": "kube-apiserver-mtls", "namespace": namespace},
            "spec": {"host": "kube-apiserver-mtls", "trafficPolicy": {"tls": tls}},
        })
    };
    let made = |namespace: &str| {
        let file = seed.0.run.write("rule.json", rule(namespace).to_string()).unwrap();
        let who = format!("--as={GARDENLET}");
        seed.kubectl(&["create", "-f", file.to_str().unwrap(), &who, "--as-group=system:masters"])?;
        let made = seed.get("destinationrules", namespace, "kube-apiserver-mtls");
        admin(&seed.0.kube, &["delete", "destinationrules", "kube-apiserver-mtls", "-n", namespace]);
        Ok::<Value, String>(made["spec"]["trafficPolicy"]["tls"]["mode"].clone())
    };
    wait::until("the policy is in effect", SOON, || (made(SHOOT) == Ok(json!("SIMPLE"))).then_some(())).unwrap();
    assert_eq!(made("shoot--dev--other"), Ok(json!("MUTUAL")));
}
