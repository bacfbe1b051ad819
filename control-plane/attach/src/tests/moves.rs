//! Host names that a route lets go of while another one of its namespace claims them, and routes, clusters and classes that are gone or
//! refused for a moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::holders::{attached, listed, old, open, route, third, young};
use super::world::{
    HOME, INFRA, assert_among, class, created, gateway, http_route, inventory, lines, listener, object, read, tls_route,
};
use crate::{Attached, FormerHolders, Inventory, attach};

/// UIDs of the routes of these tests.
fn uid(name: &str) -> String {
    match name {
        "old" => "1",
        "young" => "2",
        "third" => "3",
        _ => "4",
    }
    .to_owned()
}

/// The judgements of `newest` after one in which `young` has its names and `waiting` claims them, too: of the same process, and of one
/// that starts then and has the lists in the statuses of routes.
fn after(young: &Value, waiting: &[Value], newest: &[Value]) -> [(&'static str, Attached); 2] {
    let first = attached(&[open(), young.clone()], &inventory());
    let inventory_after = |before: &Attached| Inventory { former_holders: Arc::clone(&before.holders), ..inventory() };
    let before = attached(&[&[open(), young.clone()][..], waiting].concat(), &inventory_after(&first));
    let newest = [&[open()][..], newest].concat();
    let listed_holders = Arc::new(listed(&before, uid));
    [
        ("a process that goes on", attached(&newest, &inventory_after(&before))),
        ("a process that starts", attached(&newest, &Inventory { listed_holders, ..inventory() })),
    ]
}

/// `old` is older, of another namespace, and waits for the names of `young`, which another route of its namespace claims, too.
#[test]
fn name_moves_within_its_namespace_before_older_strangers() {
    let x = || young(&["x.test"]);
    for (why, before, waiting, newest, expected) in [
        (
            "the route is deleted",
            x(),
            vec![old(&["x.test"]), third("b", &["x.test"])],
            vec![old(&["x.test"]), third("b", &["x.test"])],
            &[
                "bound l x.test third",
                "route old Accepted False HostnameConflict: x.test belongs to TLSRoute b/third, which had it before",
            ][..],
        ),
        (
            "it claims another name",
            x(),
            vec![old(&["x.test"]), third("b", &["x.test"])],
            vec![young(&["y.test"]), old(&["x.test"]), third("b", &["x.test"])],
            &["bound l x.test third", "bound l y.test young"],
        ),
        (
            "the other one claims it only now",
            x(),
            vec![old(&["x.test"])],
            vec![old(&["x.test"]), third("b", &["x.test"])],
            &["bound l x.test third"],
        ),
        (
            "a wildcard",
            young(&["*.test"]),
            vec![old(&["*.test", "x.test"]), third("b", &["*.test"])],
            vec![old(&["*.test", "x.test"]), third("b", &["*.test"])],
            &["bound l *.test third", "no bound l x.test"],
        ),
        (
            "a name in the place of a wildcard",
            young(&["*.test"]),
            vec![old(&["*.test", "x.test"])],
            vec![old(&["*.test", "x.test"]), third("b", &["x.test"])],
            &["bound l x.test third", "bound l *.test old"],
        ),
        (
            "a wildcard in the place of a name",
            x(),
            vec![old(&["x.test"])],
            vec![old(&["x.test"]), third("b", &["*.test"])],
            &["bound l *.test third", "no bound l x.test"],
        ),
        (
            "a wider wildcard of the same route",
            young(&["*.a.test"]),
            vec![old(&["x.a.test"])],
            vec![old(&["x.a.test"]), young(&["*.test"])],
            &["bound l *.test young", "no bound l x.a.test"],
        ),
        (
            "no other one claims it",
            x(),
            vec![old(&["x.test"])],
            vec![old(&["x.test"]), third("b", &["y.test"])],
            &["bound l x.test old"],
        ),
    ] {
        for (process, found) in after(&before, &waiting, &newest) {
            assert_among(&format!("{why}: {process}"), &lines(&found), expected);
        }
    }
}

/// The wildcard of another namespace came later than the name below it, and has none of its requests.
#[test]
fn name_below_a_later_wildcard_moves_within_its_namespace() {
    let first = attached(&[open(), young(&["x.test"])], &inventory());
    let of = |former: &Attached| Inventory { former_holders: Arc::clone(&former.holders), ..inventory() };
    let wide = || route(("wide", "4"), "c", 2020, &["*.test"]);
    let second = attached(&[open(), young(&["x.test"]), wide(), third("b", &["x.test"])], &of(&first));
    assert_among("before", &lines(&second), &["bound l x.test young", "bound l *.test wide"]);
    let third_one = attached(&[open(), wide(), third("b", &["x.test"])], &of(&second));
    assert_among("after", &lines(&third_one), &["bound l x.test third", "bound l *.test wide"]);
}

/// The wildcard of another namespace came later than the one below it, and has none of its requests.
#[test]
fn namespace_that_narrows_keeps_names_below_a_later_wildcard() {
    let wide = || route(("wide", "4"), "c", 2020, &["*.test"]);
    let after = |before: &Attached| Inventory { former_holders: Arc::clone(&before.holders), ..inventory() };
    let by_lists = |of: &Attached| Inventory { listed_holders: Arc::new(listed(of, uid)), ..inventory() };
    let first = attached(&[open(), young(&["*.a.test"])], &inventory());
    let second = attached(&[open(), young(&["*.a.test"]), wide()], &after(&first));
    assert_among("before", &lines(&second), &["bound l *.a.test young", "bound l *.test wide"]);
    for (why, narrower, expected) in [
        ("it narrows its route", young(&["x.a.test"]), "bound l x.a.test young"),
        ("another route claims a name", third("b", &["x.a.test"]), "bound l x.a.test third"),
        ("it claims a narrower wildcard", young(&["*.x.a.test"]), "bound l *.x.a.test young"),
    ] {
        let newest = [open(), narrower, wide()];
        for (process, past) in
            [("a process that goes on", after(&second)), ("a process that starts", by_lists(&second))]
        {
            let found = attached(&newest, &past);
            assert_among(&format!("{why}: {process}"), &lines(&found), &[expected, "bound l *.test wide"]);
            assert_eq!(attached(&newest, &by_lists(&found)), found, "{why}: a start after it");
        }
    }
    // Without a claim to the name the next wider wildcard has it.
    let gone = attached(&[open(), young(&["y.a.test"]), wide()], &after(&second));
    assert_among(
        "another name",
        &lines(&gone),
        &["bound l y.a.test young", "bound l *.test wide", "no bound l x.a.test"],
    );
}

/// Routes of `b` and [`INFRA`] may lead to all clusters.
fn permitted(kind: &str) -> Value {
    let from = |namespace: &str| json!({"group": "gateway.networking.k8s.io", "kind": kind, "namespace": namespace});
    let to = json!([{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster"}]);
    object("ReferenceGrant", HOME, "routes", &json!({"from": [from("b"), from(INFRA)], "to": to}))
}

#[test]
fn name_stays_while_its_cluster_is_refused() {
    let refused = || BTreeMap::from([("c1".to_owned(), "spec.x: is wrong".to_owned())]);
    for (kind, protocol) in [("HTTPRoute", "HTTPS"), ("TLSRoute", "TLS")] {
        let to = |(name, uid): (&str, &str), namespace: &str, year: u32, clusters: &[&str]| {
            let make = if kind == "HTTPRoute" { http_route } else { tls_route };
            let mut route = created(make(name, &["c1.own"], clusters), year);
            route["metadata"]["namespace"] = json!(namespace);
            route["metadata"]["uid"] = json!(uid);
            route
        };
        let base = || vec![gateway(&json!([listener("l", 443, protocol, "")])), permitted(kind)];
        let holder = || to(("young", "2"), "b", 2024, &["c1"]);
        let waiting = || to(("old", "1"), INFRA, 2020, &["c1"]);
        let elsewhere = || to(("third", "3"), INFRA, 2019, &["c1", "c2"]);
        let claims = || [base(), vec![holder(), waiting(), elsewhere()]].concat();
        let after = |before: &Attached| Inventory { former_holders: Arc::clone(&before.holders), ..inventory() };
        let first = attached(&[base(), vec![holder()]].concat(), &inventory());
        assert_among(kind, &lines(&first), &["bound l c1.own young"]);
        let without = Inventory { passing_clusters: refused(), judging_clusters: refused(), ..after(&first) };
        let second = attached(&claims(), &without);
        let expected =
            ["bound l c1.own young -> refused", "route young Accepted True", "route young ResolvedRefs False"];
        assert_among(&format!("{kind} while it is refused"), &lines(&second), &expected);
        let third = attached(&claims(), &after(&second));
        let expected = ["bound l c1.own young -> c1*1", "route old Accepted False HostnameConflict"];
        assert_among(&format!("{kind} again"), &lines(&third), &expected);
        // A route that leads anywhere else has no name of the cluster, whether that is refused or not.
        let only = attached(&[base(), vec![elsewhere()]].concat(), &without);
        assert_among(&format!("{kind} elsewhere"), &lines(&only), &["no bound l c1.own"]);
        let not_permitted = attached(&[base()[..1].to_vec(), vec![holder()]].concat(), &without);
        assert_among(&format!("{kind} without a grant"), &lines(&not_permitted), &["no bound l c1.own"]);
    }
}

/// Objects without a class of this controller.
fn without_class(documents: &[Value], inventory: &Inventory) -> Attached {
    attach(&read(documents), inventory)
}

#[test]
fn names_stay_while_the_class_of_their_gateway_is_away() {
    let (before, claims) = ([open(), young(&["x.test"])], [open(), old(&["x.test"]), young(&["x.test"])]);
    let first = attached(&before, &inventory());
    let [former, none]: [Arc<FormerHolders>; 2] = [Arc::clone(&first.holders), Arc::default()];
    for (process, former_holders, listed_holders) in [
        ("a process that goes on", former, Arc::clone(&none)),
        ("a process that starts", none, Arc::new(listed(&first, uid))),
    ] {
        let away = without_class(&claims, &Inventory { former_holders, listed_holders, ..inventory() });
        assert!(away.served.is_empty() && away.gateways.is_empty());
        let still = Inventory { former_holders: Arc::clone(&away.holders), ..inventory() };
        let again =
            attached(&claims, &Inventory { former_holders: without_class(&claims, &still).holders, ..inventory() });
        assert_among(process, &lines(&again), &["bound l x.test young", "route old Accepted False HostnameConflict"]);
    }
}

#[test]
fn names_pass_on_that_are_let_go_while_a_class_is_away() {
    let first = attached(&[open(), young(&["x.test"])], &inventory());
    let elsewhere = || {
        let mut route = young(&["x.test"]);
        route["spec"]["parentRefs"][0]["name"] = json!("other");
        route
    };
    let at_port = |port: u16| {
        let mut route = young(&["x.test"]);
        route["spec"]["parentRefs"][0]["port"] = json!(port);
        route
    };
    let at_listener = |name: &str| {
        let mut route = young(&["x.test"]);
        route["spec"]["parentRefs"][0]["sectionName"] = json!(name);
        route
    };
    for (why, meanwhile, is_kept) in [
        ("nothing is other than before", vec![open(), young(&["x.test"])], true),
        ("its port is named", vec![open(), at_port(443)], true),
        ("a wildcard covers it", vec![open(), young(&["*.test"])], true),
        ("it has all names of the listener", vec![open(), young(&[])], true),
        ("it claims another name", vec![open(), young(&["y.test"])], false),
        ("it is deleted", vec![open()], false),
        ("a successor has its name", vec![open(), route(("young", "4"), "b", 2026, &["x.test"])], false),
        ("it leaves the Gateway", vec![open(), elsewhere()], false),
        ("it leaves the port", vec![open(), at_port(8443)], false),
        ("its listener is named", vec![open(), at_listener("l")], true),
        ("it leaves the listener", vec![open(), at_listener("m")], false),
        ("the port is listed no longer", vec![of(&[listener("l", 8443, "TLS", "")]), young(&["x.test"])], false),
        ("the Gateway is deleted", vec![young(&["x.test"])], false),
    ] {
        let inventory = Inventory { former_holders: Arc::clone(&first.holders), ..inventory() };
        let away = without_class(&meanwhile, &inventory);
        assert_eq!(!away.holders.is_empty(), is_kept, "{why}");
    }
    // Of another class from the beginning, nothing is held.
    let of_another = without_class(&[open(), young(&["x.test"])], &inventory());
    assert!(of_another.holders.is_empty());
}

/// A Gateway with these listeners.
fn of(listeners: &[Value]) -> Value {
    gateway(&json!(listeners))
}

/// A listener whose connections are not passed on.
fn terminating(name: &str, host: &str) -> Value {
    let mut listener = listener(name, 443, "TLS", host);
    listener["tls"]["mode"] = json!("Terminate");
    listener
}

#[test]
fn names_stay_while_their_listener_leads_nowhere() {
    let tls = |name: &str, host: &str| listener(name, 443, "TLS", host);
    let (of_a, all) = (|| tls("n", "*.a.test"), || tls("l", ""));
    for (why, listeners, meanwhile, is_kept) in [
        ("a mode that is not served", vec![all()], vec![terminating("l", "")], true),
        ("a protocol that is not served", vec![all()], vec![listener("l", 443, "TCP", "")], true),
        ("plain HTTP", vec![all()], vec![listener("l", 443, "HTTP", "")], true),
        ("beside another listener", vec![all(), of_a()], vec![all(), terminating("n", "*.a.test")], true),
        ("another mode and another name", vec![of_a()], vec![terminating("n", "*.b.test")], false),
        ("another port", vec![all()], vec![listener("l", 8443, "TLS", "")], false),
        (
            "another port, and a mode that is not served",
            vec![all()],
            vec![tls("m", "*.b.test"), terminating("n", "c.test")],
            false,
        ),
        ("no listener of the port", vec![all()], vec![], false),
    ] {
        let claims = |listeners: &[Value]| [of(listeners), old(&["x.a.test"]), young(&["x.a.test"])];
        let first = attached(&[of(&listeners), young(&["x.a.test"])], &inventory());
        let after = |before: &Attached| Inventory { former_holders: Arc::clone(&before.holders), ..inventory() };
        let by_lists = Inventory { listed_holders: Arc::new(listed(&first, uid)), ..inventory() };
        for (process, past) in [("a process that goes on", after(&first)), ("a process that starts", by_lists)] {
            let away = attached(&claims(&meanwhile), &past);
            let still = attached(&claims(&meanwhile), &after(&away));
            assert_eq!(still.holders, away.holders, "{why}: {process}");
            let again = lines(&attached(&claims(&listeners), &after(&still)));
            let listener = if listeners.len() == 1 { listeners[0]["name"].as_str().unwrap() } else { "n" };
            let holder = if is_kept { "young" } else { "old" };
            let expected = format!("bound {listener} x.a.test {holder}");
            assert_among(&format!("{why}: {process}"), &again, &[expected.as_str()]);
        }
    }
}

/// The lists that are news go before the judgement of before, which another replica knows better.
#[test]
fn name_that_stays_is_kept_for_one_route() {
    let both = || [young(&["x.test"]), third("c", &["x.test"])];
    let [of_young, of_third] = both().map(|route| attached(&[open(), route], &inventory()).holders);
    for (listed_holders, former_holders) in [(&of_young, &of_third), (&of_third, &of_young)] {
        let [listed_holders, former_holders] = [listed_holders, former_holders].map(Arc::clone);
        let inventory = Inventory { listed_holders: Arc::clone(&listed_holders), former_holders, ..inventory() };
        let away = without_class(&[&[open()][..], &both()].concat(), &inventory);
        assert_eq!(away.holders, listed_holders);
    }
}

/// Gateways whose classes go by turns must not gather names without end.
#[test]
fn names_that_stay_without_a_class_are_bounded() {
    let hosts: Vec<String> = (0..1_024).map(|host| format!("x{host}.test")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let gateways = |class: &str, count: usize| -> Vec<Value> {
        let one = |index: usize| {
            let mut gateway = open();
            gateway["metadata"]["name"] = json!(format!("g{index}"));
            gateway["spec"]["gatewayClassName"] = json!(class);
            gateway
        };
        (0..count).map(one).collect()
    };
    let routes = |gateway: usize| -> Vec<Value> {
        let one = |index: usize| {
            let mut route = route((&format!("r{gateway}-{index}"), "1"), "b", 2020, &hosts);
            route["spec"]["hostnames"] = hosts.iter().map(|host| json!(format!("r{index}.{host}"))).collect();
            route["spec"]["parentRefs"][0]["name"] = json!(format!("g{gateway}"));
            route
        };
        (0..16).map(one).collect()
    };
    let count = |attached: &Attached| attached.holders.each().count();
    let mut before = attached(&[gateways("portcullis", 1), routes(0)].concat(), &inventory());
    assert_eq!(count(&before), 16_384, "as many as a namespace has at a Gateway");
    for number in 1..4 {
        let inventory = || Inventory { former_holders: Arc::clone(&before.holders), ..inventory() };
        let all = || (0..=number).flat_map(routes);
        let mut of_this = gateways("portcullis", number + 1);
        of_this[..number].clone_from_slice(&gateways("another", number));
        before = attach(&read(&[class()].into_iter().chain(of_this).chain(all()).collect::<Vec<_>>()), &inventory());
        assert_eq!(count(&before), 32_768, "as many as a namespace has at all");
    }
}
