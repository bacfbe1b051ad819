//! The objects that may name the Secrets of the gateway's pods.

use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::{H2Client, Response, TlsTarget};
use serde_json::{Value, json};

use super::effect::eventually;
use super::fixture::admin;
use super::tenants::{HOST, OtherTenant};

/// A tenant's route to a kube-apiserver, with headers of any user. Only a certificate that the server trusts is missing.
const WAY: &str = r"
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: evil, namespace: tenant}
spec:
  hosts: [evil.internal]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{number: 443, name: https, protocol: HTTPS}]
  endpoints: [{address: IP, ports: {https: PORT}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: evil, namespace: tenant}
spec:
  gateways: [tenant/shop]
  hosts: [shop.example.com]
  http:
  - match: [{uri: {prefix: /evil/}}]
    rewrite: {uri: /}
    headers: {request: {set: {x-remote-user: admin, x-remote-group: system:masters}}}
    route: [{destination: {host: evil.internal, port: {number: 443}}}]
";
const ISTIO: &str = "networking.istio.io";
const TENANT: &str = "tenant";
/// The message of the policy.
const REFUSED: &str = "this Secret is for objects of the namespace";

/// Those that the definitions have.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha3"];
/// The spellings that Istio takes for a name, or might.
const FORMS: [&str; 5] = [
    "kubernetes://NAME",
    "kubernetes://istio-ingress/NAME",
    "kubernetes-gateway://istio-ingress/NAME",
    "sds://NAME",
    "NAME-cacert",
];

/// An object that names a Secret: its API group, version and resource, and its spec.
#[derive(Debug)]
struct Naming {
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    spec: Value,
}

fn destination_rules(secret: &str) -> Vec<Value> {
    let tls = json!({"mode": "MUTUAL", "credentialName": secret, "insecureSkipVerify": true});
    let harmless = json!({"tls": {"mode": "SIMPLE"}});
    let ports = json!({"portLevelSettings": [
        {"port": {"number": 80}},
        {"port": {"number": 8443}, "tls": {"mode": "SIMPLE"}},
        {"port": {"number": 443}, "tls": tls},
    ]});
    let selected = json!({"matchLabels": {"istio": "ingressgateway"}});
    let specs = [
        json!({"trafficPolicy": {"tls": tls}}),
        json!({"trafficPolicy": ports}),
        json!({"trafficPolicy": harmless, "subsets": [{"name": "a"}, {"name": "b", "trafficPolicy": {"tls": tls}}]}),
        json!({"subsets": [{"name": "a", "trafficPolicy": harmless}, {"name": "b", "trafficPolicy": ports}]}),
        json!({"trafficPolicy": {"tls": tls}, "workloadSelector": selected}),
        json!({"trafficPolicy": {"tls": {"mode": "SIMPLE", "credentialName": secret}}}),
    ];
    specs.map(|spec| with(spec, "host", json!("evil.internal"))).into()
}

fn gateways(secret: &str) -> Vec<Value> {
    let server = |tls: Value| json!({"hosts": ["evil.example.com"], "port": {"number": 443, "name": "https-evil", "protocol": "HTTPS"}, "tls": tls});
    let plain = json!({"hosts": ["evil.example.com"], "port": {"number": 80, "name": "http-evil", "protocol": "HTTP"}});
    let servers = [
        json!([server(json!({"mode": "SIMPLE", "credentialName": secret}))]),
        json!([plain, server(json!({"mode": "MUTUAL", "credentialName": secret}))]),
        json!([server(json!({"mode": "SIMPLE", "credentialNames": ["shop", secret]}))]),
        json!([server(json!({"mode": "MUTUAL", "credentialName": "shop", "caCertCredentialName": secret}))]),
    ];
    servers.map(|servers| json!({"selector": {"istio": "ingressgateway"}, "servers": servers})).into()
}

/// Every object that names a Secret of the gateway's pods, in a version of Istio's.
fn namings(secret: &str, version: &'static str) -> Vec<Naming> {
    let of = |resource: &'static str, specs: Vec<Value>| {
        specs.into_iter().map(move |spec| Naming { group: ISTIO, version, resource, spec })
    };
    let istios = of("destinationrules", destination_rules(secret)).chain(of("gateways", gateways(secret)));
    let backend = json!({"service": {"name": "evil", "port": {"number": 443}}});
    let ingress = Naming {
        group: "networking.k8s.io",
        version: "v1",
        resource: "ingresses",
        spec: json!({"defaultBackend": backend, "tls": [{"hosts": ["shop.example.com"]}, {"secretName": secret}]}),
    };
    // No other form is a name to kube-apiserver.
    let is_name = !secret.contains('/');
    istios.chain(is_name.then_some(ingress)).collect()
}

fn with(mut spec: Value, field: &str, value: Value) -> Value {
    spec[field] = value;
    spec
}

impl OtherTenant<'_> {
    /// A Secret of the other tenant's own in the gateway's namespace, `shop`.
    pub(super) fn own_secret(&self) -> Value {
        let own = Ca::new("shop").unwrap().issue(&CertSpec::server(HOST, [HOST])).unwrap();
        let data = json!({"tls.crt": own.pem(), "tls.key": own.key_pem()});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop", "namespace": "istio-ingress"}, "stringData": data})
    }

    /// No object of another namespace's names the gateway's Secrets, in whatever form; those of the owner's do. `apply` applies
    /// objects.
    pub(super) fn nobody_else_names_the_secrets(&self, apply: impl Fn(&str, &str)) {
        let target = self.server.clone().identity(self.kube.admin());
        let client = H2Client::connect(&target).unwrap();
        self.in_effect(&client);
        for secret in self.secrets {
            for naming in VERSIONS.iter().flat_map(|version| namings(secret, version)) {
                self.refuses(&client, secret, &naming);
                assert_eq!(try_out(&client, self.owner, &naming).status, 201, "{secret}: {naming:?}");
            }
            for form in FORMS {
                for naming in namings(&form.replace("NAME", secret), "v1") {
                    self.refuses(&client, secret, &naming);
                }
            }
            for own in [format!("my-{secret}"), format!("my.{secret}"), format!("{secret}-2"), "shop".to_owned()] {
                for naming in namings(&own, "v1") {
                    let taken = try_out(&client, TENANT, &naming);
                    assert_eq!(taken.status, 201, "{naming:?}: {}", taken.text());
                }
            }
        }
        self.only_the_policy_forbids_it(&client, apply);
    }

    fn refuses(&self, client: &H2Client, secret: &str, naming: &Naming) {
        let answer = try_out(client, TENANT, naming);
        assert!(answer.status == 403 && answer.text().contains(REFUSED), "{secret}: {naming:?}: {}", answer.text());
    }

    fn in_effect(&self, client: &H2Client) {
        let [.., front] = self.secrets else { panic!("no Secret") };
        eventually("the policy is in effect", || match try_out(client, TENANT, &namings(front, "v1").swap_remove(0)) {
            answer if answer.status == 403 => Ok(()),
            answer => Err(answer.text()),
        });
    }

    /// With what is refused the other tenant is anybody: without the policy, and by objects that are older than it.
    fn only_the_policy_forbids_it(&self, client: &H2Client, apply: impl Fn(&str, &str)) {
        let address = self.server.address();
        let way = WAY.replace("IP", &address.ip().to_string()).replace("PORT", &address.port().to_string());
        apply("way.yaml", &way);
        let rule = |secret: &str| {
            let spec = destination_rules(secret).swap_remove(0);
            json!({"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule", "metadata": {"name": "evil", "namespace": TENANT}, "spec": spec})
        };
        apply("rule.json", &rule("shop").to_string());
        let [.., front] = self.secrets else { panic!("no Secret") };
        let patch = json!({"spec": {"trafficPolicy": {"tls": {"credentialName": front}}}}).to_string();
        let change = || {
            let path = format!("/apis/{ISTIO}/v1/namespaces/{TENANT}/destinationrules/evil");
            let headers = [("content-type", &b"application/merge-patch+json"[..])];
            client.request("PATCH", &path, &headers, patch.as_bytes()).unwrap()
        };
        assert_eq!(change().status, 403, "a change is judged, too");
        self.act("Audit");
        eventually("the policy is out of effect", || match change() {
            answer if answer.status == 200 => Ok(()),
            answer => Err(answer.text()),
        });
        let everything = || {
            let shop = H2Client::connect(&TlsTarget::new(self.address).sni(HOST)).unwrap();
            shop.get("/evil/api/v1/namespaces/kube-system/secrets", &[]).unwrap()
        };
        eventually("anybody", || match everything() {
            answer if answer.status == 200 && answer.text().contains("SecretList") => Ok(()),
            answer => Err(answer.text()),
        });
        self.act("Deny");
        self.in_effect(client);
        assert_eq!(everything().status, 200, "what is there is not judged");
        assert_eq!(change().status, 403, "and found by a change that changes nothing");
        admin(self.kube, &["-n", TENANT, "delete", "destinationrules,serviceentries,virtualservices", "evil"]);
        eventually("nobody", || match everything() {
            answer if answer.status == 404 => Ok(()),
            answer => Err(answer.text()),
        });
    }

    fn act(&self, action: &str) {
        let patch = json!({"spec": {"validationActions": [action]}}).to_string();
        admin(self.kube, &["patch", "validatingadmissionpolicybinding", self.policy, "--type=merge", "-p", &patch]);
    }
}

/// The answer of kube-apiserver to an object that is not stored (dry run).
fn try_out(client: &H2Client, namespace: &str, naming: &Naming) -> Response {
    let Naming { group, version, resource, spec, .. } = naming;
    let kind = match *resource {
        "destinationrules" => "DestinationRule",
        "gateways" => "Gateway",
        _ => "Ingress",
    };
    let path = format!("/apis/{group}/{version}/namespaces/{namespace}/{resource}?dryRun=All");
    let object = json!({
        "apiVersion": format!("{group}/{version}"),
        "kind": kind,
        "metadata": {"name": "tried"},
        "spec": spec,
    });
    let headers = [("content-type", &b"application/json"[..])];
    client.request("POST", &path, &headers, object.to_string().as_bytes()).unwrap()
}
