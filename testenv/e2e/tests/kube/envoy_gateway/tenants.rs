//! Other users who may write HTTPRoutes and Backends in the cluster of the gateway, but not in its namespace.

use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::{Response, TlsTarget};
use serde_json::{Value, json};

use super::fixture::{EnvoyGatewayFixture, OBJECT, OURS, SECRETS, eventually, values};

/// The host name of another tenant.
const HOST: &str = "shop.example.com";

/// A tenant's routes: one that shows that the others are in effect, one to a Backend of ours, one to a Backend of the tenant's own
/// that shows no certificate, and one to a Backend of the tenant's that names our Secret. The last is for our host.
const TENANT: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: tenant}
spec:
  parentRefs: [{name: prod-example-com, namespace: portcullis-ingress, sectionName: shop}]
  hostnames: [shop.example.com]
  rules:
  - matches: [{path: {type: Exact, value: /shop}}]
    filters: [{type: ExtensionRef, extensionRef: {group: gateway.envoyproxy.io, kind: HTTPRouteFilter, name: open}}]
  - matches: [{path: {type: PathPrefix, value: /borrowed}}]
    filters: &anybody
    - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}
    - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-remote-user, value: admin}, {name: x-remote-group, value: system:masters}]}}
    backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: lent, namespace: portcullis-ingress}]
  - matches: [{path: {type: PathPrefix, value: /own}}]
    filters: *anybody
    backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: own}]
  - matches: [{path: {type: PathPrefix, value: /named}}]
    filters: *anybody
    backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: naming}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ours, namespace: tenant}
spec:
  parentRefs: [{name: prod-example-com, namespace: portcullis-ingress, sectionName: https}]
  hostnames: [prod.example.com]
  rules:
  - filters: *anybody
    backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: own}]
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: HTTPRouteFilter
metadata: {name: open, namespace: tenant}
spec: {directResponse: {statusCode: 200, body: {type: Inline, inline: open}}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: own, namespace: tenant}
spec:
  endpoints: [{fqdn: {hostname: kube.localhost, port: PORT}}]
  tls: {insecureSkipVerify: true}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: naming, namespace: tenant}
spec:
  endpoints: [{fqdn: {hostname: kube.localhost, port: PORT}}]
  tls: {insecureSkipVerify: true, clientCertificateRef: {group: '', kind: Secret, name: lent, namespace: portcullis-ingress}}
";

/// A Backend with the certificate for kube-apiservers, which our objects do not have: what its owner would lend by it.
const LENT: &str = r"
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: lent, namespace: portcullis-ingress}
spec:
  endpoints: [{fqdn: {hostname: kube.localhost, port: PORT}}]
  tls: {insecureSkipVerify: true, clientCertificateRef: {group: '', kind: Secret, name: lent}}
";

/// The permission to use it.
const GRANT: &str = r"
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: lent, namespace: portcullis-ingress}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: tenant}]
  to: [{group: gateway.envoyproxy.io, kind: Backend, name: lent}]
";

/// A tenant with a listener on the same Gateway.
struct Shop<'a> {
    fixture: &'a EnvoyGatewayFixture,
    target: TlsTarget,
}

impl<'a> Shop<'a> {
    fn open(fixture: &'a EnvoyGatewayFixture) -> Self {
        let authority = Ca::new("shop").unwrap();
        let shown = authority.issue(&CertSpec::server(HOST, [HOST])).unwrap();
        for (name, identity) in [("shop", &shown), ("lent", &fixture.upstream)] {
            let data = json!({"tls.crt": identity.pem(), "tls.key": identity.key_pem()});
            let metadata = json!({"name": name, "namespace": OURS});
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "stringData": data});
            fixture.apply(&format!("{name}.json"), &secret.to_string());
        }
        let listener = json!({
            "name": "shop",
            "protocol": "HTTPS",
            "port": fixture.site.address().port(),
            "hostname": HOST,
            "tls": {"mode": "Terminate", "certificateRefs": [{"name": "shop"}]},
            "allowedRoutes": {"namespaces": {"from": "All"}},
        });
        let patch = json!([{"op": "add", "path": "/spec/listeners/-", "value": listener}]).to_string();
        fixture.admin(&["-n", OURS, "patch", "gateway", OBJECT, "--type=json", "-p", &patch]);
        let port = fixture.kube.apiservers()[0].address().port().to_string();
        // Anchors are of one document.
        let anybody = "[{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-remote-user, value: admin}, {name: x-remote-group, value: system:masters}]}}]";
        let objects = TENANT.replace("PORT", &port).replace("- filters: *anybody", &format!("- filters: {anybody}"));
        fixture.apply("lent.yaml", &LENT.replace("PORT", &port));
        fixture.apply("tenant.yaml", &objects);
        let shop = Shop { fixture, target: fixture.site.target(HOST, &authority) };
        eventually("the tenant has a host", || match shop.ask("/shop") {
            Some(answer) if answer.text() == "open" => Ok(()),
            other => Err(format!("{other:?}")),
        });
        shop
    }

    /// By HTTP/1.1: the certificate has names of our listener's, and Envoy Gateway then offers no HTTP/2 where no policy asks for it.
    fn ask(&self, path: &str) -> Option<Response> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
        self.target.raw_request(request.as_bytes()).ok()
    }

    /// Status of a request for all Secrets by one of the tenant's routes, and whether the answer has them.
    fn secrets_by(&self, route: &str) -> (u16, bool) {
        let answer = self.ask(&format!("/{route}{SECRETS}")).unwrap();
        (answer.status, answer.text().contains("SecretList"))
    }

    fn waits_for(&self, what: &str, route: &str, expected: (u16, bool)) {
        eventually(what, || match self.secrets_by(route) {
            found if found == expected => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    /// The reason of a condition of a tenant's route.
    fn reason(&self, route: &str, condition: &str) -> Value {
        let args = ["-n", "tenant", "get", "httproute", route];
        let route = self.fixture.kube.admin_kubectl().unwrap().args(args).json().unwrap();
        let mut conditions = values(&route["status"]["parents"][0]["conditions"]);
        conditions.find(|one| one["type"] == condition).map(|one| one["reason"].clone()).unwrap_or_default()
    }
}

#[test]
fn routes_of_other_namespaces_never_show_the_certificate() {
    let Some(fixture) = EnvoyGatewayFixture::start("eg-tenants", false) else { return };
    let shop = Shop::open(&fixture);
    assert_eq!(shop.reason("ours", "Accepted"), "NotAllowedByListeners", "no route of theirs for our host");
    // Of two rules: no Backend of ours, and none of theirs that names our Secret.
    assert_eq!(shop.reason("shop", "ResolvedRefs"), "InvalidBackendRef,RefNotPermitted");
    assert_eq!(shop.secrets_by("borrowed"), (500, false), "a Backend of ours, without a ReferenceGrant");
    assert_eq!(shop.secrets_by("named"), (500, false), "a Backend of theirs that names our Secret");
    let (status, found) = shop.secrets_by("own");
    assert!(
        (401..=403).contains(&status) && !found,
        "no certificate: kube-apiserver takes them for no front proxy: {status}"
    );
    fixture.answers("our own users", 200);
    no_route_names_our_pools(&shop);
    // Each of these opens it.
    fixture.apply("grant.yaml", GRANT);
    shop.waits_for("a ReferenceGrant lends the certificate", "borrowed", (200, true));
    fixture.admin(&["-n", OURS, "delete", "referencegrant", "lent"]);
    shop.waits_for("without it no longer", "borrowed", (500, false));
    let shared =
        r#"{"spec": {"backendTLS": {"clientCertificateRef": {"group": "", "kind": "Secret", "name": "lent"}}}}"#;
    fixture.admin(&["-n", OURS, "patch", "envoyproxy", OBJECT, "--type=merge", "-p", shared]);
    shop.waits_for("backendTLS of the EnvoyProxy shows it for all routes", "own", (200, true));
    fixture.restore();
}

/// Of all clusters that a route configuration names, only our own routes name those with the certificate.
fn no_route_names_our_pools(shop: &Shop<'_>) {
    let proxy = shop.fixture.proxy.as_ref().unwrap();
    let dump = proxy.admin().json("/config_dump?resource=dynamic_route_configs").unwrap();
    let named = |of_ours: bool| -> usize {
        let configs = values(&dump["configs"]).map(|config| &config["route_config"]);
        let chosen = configs.filter(|config| (config["name"] == format!("{OURS}/{OBJECT}/https")) == of_ours);
        chosen.map(|config| config.to_string().matches("portcullis/prod-example-com/").count()).sum()
    };
    assert!(named(true) > 0, "{dump:#}");
    assert_eq!(named(false), 0, "{dump:#}");
}
