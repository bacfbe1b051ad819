//! Who else may write objects of Istio's in the cluster of the gateway, but not in its namespace.

use portcullis_harness::client::{H2Client, TlsTarget};

use super::effect::{eventually, nothing_was_refused, serves, virtual_host};
use super::world::{NAME, World};

/// A Gateway and routes in a namespace of somebody else's: for another host on the same pods and for the cluster's own, to the
/// subset that shows the front-proxy certificate, as anybody. `exportTo: ["."]` of its DestinationRule is no hindrance to
/// Istio.
const TENANT: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shop, namespace: tenant}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {hosts: [shop.example.com], port: {number: 443, name: https-shop, protocol: HTTPS}, tls: {mode: SIMPLE, credentialName: prod-example-com-serving}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop, namespace: tenant}
spec:
  gateways: [tenant/shop, istio-ingress/prod-example-com]
  hosts: [shop.example.com, prod.example.com]
  http:
  - match: [{uri: {exact: /shop}}]
    directResponse: {status: 200, body: {string: open}}
  - match: [{uri: {prefix: /h2/}}]
    rewrite: {uri: /}
    headers: &anybody {request: {set: {x-remote-user: admin, x-remote-group: system:masters}}}
    route: [{destination: {host: prod-example-com.kube-apiserver.internal, subset: h2, port: {number: 443}}}]
  - match: [{uri: {prefix: /upgrade/}}]
    rewrite: {uri: /}
    headers: *anybody
    route: [{destination: {host: prod-example-com.kube-apiserver.internal, subset: upgrade, port: {number: 443}}}]
";

/// Whoever has a host on the gateway's pods has no way to the servers as somebody whom he likes.
pub(super) fn nobody_else_routes_to_the_servers(world: &World) {
    let routes = || virtual_host(&world.mesh, NAME)["routes"].clone();
    let before = routes();
    world.apply("tenant.yaml", TENANT);
    let target = TlsTarget::new(world.target().address()).sni("shop.example.com");
    let ask = |path: &str| H2Client::connect(&target).unwrap().get(path, &[]).unwrap();
    let arrived = || match serves(&world.mesh, "shop.example.com") && ask("/shop").text() == "open" {
        true => Ok(()),
        false => Err("no tenant yet".to_owned()),
    };
    eventually("a tenant has a host", arrived);
    for subset in ["h2", "upgrade"] {
        let answer = ask(&format!("/{subset}/api/v1/namespaces/kube-system/secrets"));
        assert_eq!((answer.status, answer.text().contains("SecretList")), (503, false), "{subset}: {}", answer.text());
    }
    // A change of routes alone: istiod looks anew at which Envoy clusters there are, by their names.
    world.apply("tenant.yaml", &TENANT.replace("string: open", "string: changed"));
    eventually("a tenant's routes have changed", || match ask("/shop").text() {
        text if text == "changed" => Ok(()),
        text => Err(text),
    });
    let alice = H2Client::connect(&world.target().identity(&world.alice)).unwrap();
    assert_eq!(alice.get("/api/v1/namespaces/default/configmaps", &[]).unwrap().status, 200);
    assert!(routes() == before, "the cluster's own routes");
    nothing_was_refused(&world.mesh);
}
