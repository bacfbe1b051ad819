//! The verdicts of the control plane that follow from what it serves and uses: connections that a Gateway closes, `GatewaySettings`,
//! Services.

use super::{CLUSTER, GATEWAY, GRANT, NAMESPACE, ROUTE, assert_has, check, tls_gateway};

/// The lines of a check with this exit code.
fn lines(documents: &[&str], arguments: &[&str], code: i32) -> Vec<String> {
    let (found, lines) = check(documents, arguments);
    assert_eq!(found, Some(code), "{}", lines.join("\n"));
    lines
}

/// A cluster for which each host name of a route takes 3,200 bits.
fn narrow(cluster: &str) -> String {
    let ranges: Vec<String> = (0..100).map(|index| format!("192.0.2.{index}/32")).collect();
    format!("{cluster}  portcullis: {{clientAddresses: {{allow: [{}]}}}}\n", ranges.join(", "))
}

/// A route with this many host names.
fn route_of(names: usize, kind: &str) -> String {
    let names: Vec<String> = (0..names).map(|index| format!("n{index}.a.test")).collect();
    ROUTE.replace("[a.test]", &format!("[{}]", names.join(", "))).replace("HTTPRoute", kind)
}

#[test]
fn routes_whose_connections_are_closed_are_not_accepted() {
    let cluster = narrow(CLUSTER);
    let tls_grant = GRANT.replace("HTTPRoute", "TLSRoute");
    let references = "portcullis: {references: {client: {secret: {name: a}}, clientCA: {secret: {name: b}}, serving: {secret: {name: c}}, \
                      upstreamCA: {secret: {name: d}}}, ";
    let by_reference = narrow(&CLUSTER.replace("insecure: true, bearerToken: VE9QU0VDUkVU", "serverName: a.test"));
    let by_reference = by_reference.replace("portcullis: {", references);
    let tls_gateway = tls_gateway();
    for (why, gateway, kind, grant, cluster) in [
        ("requests", GATEWAY, "HTTPRoute", GRANT, &cluster),
        ("Secrets that are not here", GATEWAY, "HTTPRoute", GRANT, &by_reference),
        ("connections", tls_gateway.as_str(), "TLSRoute", tls_grant.as_str(), &cluster),
    ] {
        let (few, many) = (route_of(31, kind), route_of(32, kind));
        let open = lines(&[gateway, NAMESPACE, &few, grant, cluster], &[], 0);
        assert_has(&open, "  parent g: Accepted True Accepted");
        let closed = lines(&[gateway, NAMESPACE, &many, grant, cluster], &[], 1);
        assert_has(&closed, "  parent g: Accepted False TooManyClientAddresses");
        let listener = if kind == "HTTPRoute" { "https" } else { "tls" };
        let message = format!(
            "error: spec.parentRefs[0]: parent g: TooManyClientAddresses: connections at listener {listener} are closed: the bits of clientAddresses"
        );
        assert!(closed.iter().any(|line| line.contains(&message)), "{why}: {}", closed.join("\n"));
    }
}

#[test]
fn verdict_that_depends_on_a_config_map_is_left_open() {
    let handshake = format!("{CLUSTER}  secureServing: {{clientCAData: {}}}\n", authority())
        + "  portcullis: {clientCertificateVerification: Handshake}\n";
    let frontend =
        "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}}}\n";
    let gateway = format!("{GATEWAY}{frontend}");
    let note = "note: whether the client CAs of prod.test and those of tls.frontend fit together at listener https of Gateway infra/g";
    let found = lines(&[&gateway, NAMESPACE, ROUTE, GRANT, &handshake], &[], 0);
    assert_has(&found, note);
    assert_has(&found, "note: ConfigMap infra/ca is not read, also if it is among the objects; it is assumed to exist");
    for (gateway, cluster) in [(gateway.as_str(), CLUSTER), (GATEWAY, handshake.as_str())] {
        let found = lines(&[gateway, NAMESPACE, ROUTE, GRANT, cluster], &[], 0);
        assert!(!found.iter().any(|line| line.contains("fit together")), "{}", found.join("\n"));
    }
}

/// A CA in base64.
fn authority() -> String {
    use base64::Engine;
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    base64::engine::general_purpose::STANDARD.encode(params.self_signed(&key).unwrap().pem())
}

#[test]
fn class_may_name_the_settings_that_are_used() {
    let class = |name: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: portcullis}}\nspec:\n  \
             controllerName: portcullis.dev/gateway-controller\n  \
             parametersRef: {{group: portcullis.dev, kind: GatewaySettings, name: {name}}}\n"
        )
    };
    let settings = |name: &str| {
        format!(
            "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {{name: {name}}}\nspec: {{listener: {{address: 0.0.0.0, port: 6443}}}}\n"
        )
    };
    let (edge, other) = (settings("edge"), settings("other"));
    let (of_edge, of_other) = (class("edge"), class("other"));
    let refused = "error: spec.parametersRef: InvalidParameters: spec.parametersRef: GatewaySettings other: the control plane uses the \
                   object that --settings-name names, and no other";
    for more in [other.as_str(), ""] {
        let found = lines(&[&format!("{more}---\n{edge}"), &of_other, GATEWAY], &["--settings-name", "edge"], 1);
        assert_has(&found, "GatewayClass portcullis: Invalid");
        assert_has(&found, "  Accepted False InvalidParameters");
        assert!(found.iter().any(|line| line.contains(refused)), "{}", found.join("\n"));
    }
    let note = "note: GatewaySettings other of GatewayClass portcullis is not among the objects; it is assumed to be that of --settings-name";
    let found = lines(&[&edge, &other, &of_edge, GATEWAY], &["--settings-name", "edge"], 0);
    assert!(!found.iter().any(|line| line.contains("assumed to be that")), "{}", found.join("\n"));
    assert_has(&lines(&[&of_other, GATEWAY], &[], 0), note);
}

#[test]
fn services_among_the_objects_are_used() {
    let route = ROUTE.replace("HTTPRoute", "TLSRoute").replace(
        "group: proxy.kubegateway.io, kind: UpstreamCluster, name: prod.test",
        "kind: Service, name: web, port: 443",
    );
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: team-a}\nspec: {ports: [{port: 443}]}\n";
    let gateway = tls_gateway();
    let absent = "note: Service team-a/web is not among the objects; it is assumed to exist";
    assert_has(&lines(&[&gateway, &route], &["--strict"], 0), absent);
    let found = lines(&[&gateway, &route, service], &["--strict"], 0);
    assert!(!found.iter().any(|line| line.contains("Service")), "{}", found.join("\n"));
    let found = lines(&[&gateway, &route, &service.replace("443", "444")], &[], 1);
    assert!(found.iter().any(|line| line.contains("Service team-a/web has no port 443")), "{}", found.join("\n"));
    // A Service is no namespace, whatever labels it has.
    let labelled = service.replace("{name: web, namespace: team-a}", "{name: team-a, namespace: x, labels: {team: a}}");
    let found = lines(&[GATEWAY, ROUTE, GRANT, &labelled], &[], 1);
    assert_has(&found, "  parent g: Accepted False NotAllowedByListeners");
}

#[test]
fn route_notes_are_one_warning_each() {
    let second = ROUTE.lines().last().unwrap();
    let found = lines(&[GATEWAY, NAMESPACE, &format!("{ROUTE}{second}\n"), GRANT], &[], 0);
    let notes: Vec<_> = found.iter().filter(|line| line.contains("is never reached")).collect();
    assert_eq!(notes.len(), 1, "{}", found.join("\n"));
    assert!(notes[0].contains("warning: spec.rules[1]: is never reached: an earlier rule matches all requests"));
}
