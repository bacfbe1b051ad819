//! Other users who may write Istio objects in the cluster of the gateway, but not in its namespace.

use std::net::SocketAddr;

use portcullis_e2e::Mesh;
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::kube::RealKube;

use super::effect::{eventually, nothing_was_refused, serves};

/// The host name of another tenant.
pub(super) const HOST: &str = "shop.example.com";

/// A Gateway and routes in another tenant's namespace: for another host on the same pods and for the cluster's own, to the
/// subset that presents the front-proxy certificate, with headers of any user. `exportTo: ["."]` of its DestinationRule does
/// not stop Istio.
const TENANT: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shop, namespace: tenant}
spec:
  selector: {LABEL}
  servers:
  - {hosts: [shop.example.com], port: {number: 443, name: https-shop, protocol: HTTPS}, tls: {mode: SIMPLE, credentialName: shop}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop, namespace: tenant}
spec:
  gateways: [tenant/shop, GATEWAY]
  hosts: [HOSTS]
  http:
  - match: [{uri: {exact: /shop}}]
    directResponse: {status: 200, body: {string: open}}
  - match: [{uri: {prefix: /h2/}}]
    rewrite: {uri: /}
    headers: &anybody {request: {set: {x-remote-user: admin, x-remote-group: system:masters}}}
    route: [{destination: {host: SERVICE, subset: h2, port: {number: 443}}}]
  - match: [{uri: {prefix: /upgrade/}}]
    rewrite: {uri: /}
    headers: *anybody
    route: [{destination: {host: SERVICE, subset: upgrade, port: {number: 443}}}]
";

/// A cluster as its other tenants know it.
pub(super) struct OtherTenant<'a> {
    pub(super) mesh: &'a Mesh,
    /// The address of the gateway.
    pub(super) address: SocketAddr,
    /// By which the gateway's pods are found.
    pub(super) label: &'a str,
    pub(super) gateway: &'a str,
    /// For which routes are added: the other tenant's, and what else the Gateway lets be taken.
    pub(super) hosts: &'a str,
    /// The host of the DestinationRule.
    pub(super) service: &'a str,
    pub(super) kube: &'a RealKube,
    /// A kube-apiserver, past the gateway.
    pub(super) server: TlsTarget,
    /// The owner of the objects that may name the Secrets.
    pub(super) owner: &'a str,
    /// Of the gateway's pods; the last has the front-proxy certificate.
    pub(super) secrets: &'a [&'a str],
    /// That says who may name them.
    pub(super) policy: &'a str,
}

impl OtherTenant<'_> {
    /// A tenant with a host on the gateway's pods has no route to the servers as a user of his choice. `apply` applies objects.
    pub(super) fn nobody_else_routes_to_the_servers(&self, apply: impl Fn(&str, &str)) {
        let tenant = [("LABEL", self.label), ("GATEWAY", self.gateway)].into_iter();
        let tenant = tenant.chain([("HOSTS", self.hosts), ("SERVICE", self.service)]);
        let tenant = tenant.fold(TENANT.to_owned(), |text, (from, to)| text.replace(from, to));
        apply("tenant-secret.json", &self.own_secret().to_string());
        apply("tenant.yaml", &tenant);
        let target = TlsTarget::new(self.address).sni(HOST);
        let ask = |path: &str| H2Client::connect(&target).unwrap().get(path, &[]).unwrap();
        eventually("a tenant has a host", || match serves(self.mesh, HOST) && ask("/shop").text() == "open" {
            true => Ok(()),
            false => Err("no tenant yet".to_owned()),
        });
        for subset in ["h2", "upgrade"] {
            let answer = ask(&format!("/{subset}/api/v1/namespaces/kube-system/secrets"));
            assert_eq!(
                (answer.status, answer.text().contains("SecretList")),
                (503, false),
                "{subset}: {}",
                answer.text()
            );
        }
        // A change of routes alone: istiod looks anew at which Envoy clusters there are, by their names.
        apply("tenant.yaml", &tenant.replace("string: open", "string: changed"));
        eventually("a tenant's routes have changed", || match ask("/shop").text() {
            text if text == "changed" => Ok(()),
            text => Err(text),
        });
        nothing_was_refused(self.mesh);
    }
}
