//! A host name stays with the route that holds it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{INFRA, assert_among, class, created, gateway, inventory, lines, listener, read, tls_route};
use crate::{Attached, FormerHolders, Inventory, RouteKind, attach, route_parents};

const NOW: &str = "2026-01-02T03:04:05Z";

pub(super) fn route((name, uid): (&str, &str), namespace: &str, year: u32, hosts: &[&str]) -> Value {
    let mut route = created(tls_route(name, hosts, &["c2"]), year);
    route["metadata"]["namespace"] = json!(namespace);
    route["metadata"]["uid"] = json!(uid);
    route
}

pub(super) fn old(hosts: &[&str]) -> Value {
    route(("old", "1"), INFRA, 2020, hosts)
}

pub(super) fn young(hosts: &[&str]) -> Value {
    route(("young", "2"), "b", 2024, hosts)
}

pub(super) fn third(namespace: &str, hosts: &[&str]) -> Value {
    route(("third", "3"), namespace, 2025, hosts)
}

fn with_listeners(listeners: &[(&str, u16, &str)]) -> Value {
    let of = |(name, port, host): &(&str, u16, &str)| listener(name, *port, "TLS", host);
    gateway(&listeners.iter().map(of).collect())
}

pub(super) fn open() -> Value {
    with_listeners(&[("l", 443, "")])
}

pub(super) fn attached(documents: &[Value], inventory: &Inventory) -> Attached {
    attach(&read(&[&[class()][..], documents].concat()), inventory)
}

/// The outcome of objects after those before.
fn after(before: &[Value], newest: &[Value]) -> Attached {
    let former_holders = attached(before, &inventory()).holders;
    attached(newest, &Inventory { former_holders, ..inventory() })
}

/// The names that statuses of an outcome list, read anew.
pub(super) fn listed(attached: &Attached, uid: impl Fn(&str) -> String) -> FormerHolders {
    let mut listed = FormerHolders::default();
    for verdict in &attached.routes {
        let status = json!({"parents": route_parents(&[], verdict, None, NOW).parents});
        listed.add_status(verdict.kind, &verdict.name, Some(&uid(&verdict.name.name)), &status);
    }
    listed
}

#[test]
fn host_name_stays_with_the_route_that_holds_it() {
    let holds_x = || young(&["x.test"]);
    for (why, before, newest, expected) in [
        (
            "an older route adds it",
            vec![open(), old(&["y.test"]), holds_x()],
            vec![open(), old(&["y.test", "x.test"]), holds_x()],
            &[
                "bound l x.test young",
                "bound l y.test old",
                "route young Accepted True Accepted: ",
                "route old Accepted True Accepted: x.test belongs to TLSRoute b/young, which had it before",
            ][..],
        ),
        (
            "an older route has no other",
            vec![open(), old(&["y.test"]), holds_x()],
            vec![open(), old(&["x.test"]), holds_x()],
            &["route old Accepted False HostnameConflict: x.test belongs to TLSRoute b/young, which had it before"],
        ),
        (
            "an older route adds a wildcard",
            vec![open(), old(&["y.test"]), holds_x()],
            vec![open(), old(&["*.test"]), holds_x()],
            &["bound l *.test old", "bound l x.test young", "route young Accepted True Accepted: "],
        ),
        (
            "an older route adds a name below a wildcard",
            vec![open(), old(&["y.else"]), young(&["*.test"])],
            vec![open(), old(&["x.test"]), young(&["*.test"])],
            &[
                "no bound l x.test",
                "route old Accepted False HostnameConflict: x.test belongs to TLSRoute b/young, which had a wildcard",
            ],
        ),
        (
            "an older route of the same namespace adds it",
            vec![open(), old(&["y.test"]), third(INFRA, &["x.test"])],
            vec![open(), old(&["x.test"]), third(INFRA, &["x.test"])],
            &["bound l x.test third", "route old Accepted False HostnameConflict"],
        ),
        (
            "its namespace shares a wildcard",
            vec![open(), young(&["*.test"])],
            vec![open(), young(&["*.test"]), third("b", &["x.test"])],
            &["bound l x.test third", "bound l *.test young"],
        ),
        (
            "its listener is renamed",
            vec![open(), old(&["y.test"]), holds_x()],
            vec![with_listeners(&[("m", 443, "")]), old(&["x.test"]), holds_x()],
            &["bound m x.test young"],
        ),
        (
            "a narrower listener is added",
            vec![open(), old(&["y.test"]), holds_x()],
            vec![with_listeners(&[("l", 443, ""), ("n", 443, "x.test")]), old(&["x.test"]), holds_x()],
            &["bound n x.test young", "no bound l x.test"],
        ),
    ] {
        assert_among(why, &lines(&after(&before, &newest)), expected);
    }
    let mut wrong = holds_x();
    wrong["spec"]["rules"][0]["ofALaterRelease"] = json!(true);
    let found = after(&[open(), old(&["y.test"]), holds_x()], &[open(), old(&["x.test"]), wrong]);
    assert_among("a typing error", &lines(&found), &["no bound", "route old Accepted False HostnameConflict"]);
}

#[test]
fn host_name_passes_on_when_its_route_lets_go() {
    let before = vec![open(), old(&["y.test"]), young(&["x.test"]), third("c", &["x.test"])];
    let successor = route(("young", "4"), "b", 2026, &["x.test"]);
    let mut same = listener("l", 443, "TLS", "");
    same["allowedRoutes"] = json!({"namespaces": {"from": "Same"}});
    let claims = || old(&["x.test"]);
    for (why, newest, expected) in [
        ("it claims others", vec![open(), claims(), young(&["z.test"]), third("c", &["x.test"])], "bound l x.test old"),
        ("then by age", vec![open(), old(&["y.test"]), third("c", &["x.test"])], "bound l x.test third"),
        ("it is deleted", vec![open(), claims(), third("c", &["x.test"])], "bound l x.test old"),
        ("another one has its name", vec![open(), claims(), successor], "bound l x.test young"),
        ("it is not allowed", vec![gateway(&json!([same])), claims(), young(&["x.test"])], "bound l x.test old"),
        ("another port", vec![with_listeners(&[("l", 8443, "")]), claims(), young(&["x.test"])], "bound l x.test old"),
    ] {
        assert_among(why, &lines(&after(&before, &newest)), &[expected]);
    }
}

#[test]
fn clusters_own_names_that_routes_held() {
    let documents = [open(), old(&["*.test"]), young(&["x.other"])];
    let former_holders = attached(&documents, &inventory()).holders;
    let mut inventory = Inventory { former_holders, ..inventory() };
    inventory.clusters.insert("c3".to_owned(), BTreeSet::from(["x.other".to_owned()]));
    let expected = [
        "bound l *.test old",
        "no bound l x.other",
        "route young Accepted False HostnameConflict: x.other belongs to UpstreamCluster c3",
    ];
    assert_among("a new cluster", &lines(&attached(&documents, &inventory)), &expected);
}

#[test]
fn names_that_are_held_have_room_before_new_ones() {
    let many = |index: usize| {
        let hosts: Vec<String> = (0..1_024).map(|host| format!("x{index}-{host}.test")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        route((&format!("old{index}"), "1"), "b", 2020, &hosts)
    };
    let documents =
        |count: usize| -> Vec<Value> { [open(), young(&["x.test"])].into_iter().chain((0..count).map(many)).collect() };
    let refused = ["route young Accepted False TooManyHostnames", "no bound l x.test"];
    assert_among("by age", &lines(&attached(&documents(16), &inventory())), &refused);
    let found = lines(&after(&documents(15), &documents(16)));
    let expected = ["bound l x.test young", "route young Accepted True", "route old15 Accepted False TooManyHostnames"];
    assert_among("an older route adds too many", &found, &expected);
}

#[test]
fn held_names_count_once_and_copies_refuse_no_route() {
    let many = |number: usize| {
        let hosts: Vec<String> = (0..1_024).map(|host| format!("x{number}-{host}.d.c.b.a.test")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        route((&format!("old{number}"), "1"), "b", 2020, &hosts)
    };
    let routes = |hosts: &[&str]| {
        let other = route(("young", "2"), "b", 2024, hosts);
        (0..13).map(many).chain([other]).collect::<Vec<_>>()
    };
    let of = |gateway: Value, hosts: &[&str]| [vec![gateway], routes(hosts)].concat();
    let nested = [("l", 443, "*.test"), ("m", 443, "*.a.test"), ("n", 443, "*.b.a.test")];
    let before = of(with_listeners(&nested[..1]), &["x.test"]);
    let found = after(&before, &of(with_listeners(&nested), &["x.test"]));
    let expected = [
        "bound l x.test young",
        "no bound l x0-0.d.c.b.a.test",
        "route young Accepted True",
        "route old0 Accepted True",
        "route old9 Accepted True",
    ];
    assert_among("listeners are added below", &lines(&found), &expected);
    assert!(found.holders == attached(&before, &inventory()).holders, "they are where they were");
}

/// As many names as a namespace may have at a Gateway, of routes of a kind with these parent references beside that to all listeners.
fn full_namespace(kind: &str, sections: &[&str]) -> Vec<Value> {
    let parent = |section: &&str| json!({"name": "g", "namespace": INFRA, "sectionName": section});
    let of = |number: usize| {
        let hosts: Vec<String> = (0..1_024).map(|host| format!("x{number}-{host}.test")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let mut route = route((&format!("old{number}"), "1"), "b", 2020, &hosts);
        route["kind"] = json!(kind);
        route["spec"]["parentRefs"].as_array_mut().unwrap().extend(sections.iter().map(parent));
        route
    };
    (0..16).map(of).collect()
}

#[test]
fn plain_listener_refuses_no_route_that_holds_its_names() {
    let of = |listeners: Value| [vec![gateway(&listeners)], full_namespace("HTTPRoute", &[])].concat();
    let (plain, https) = (listener("a", 80, "HTTP", ""), listener("l", 443, "HTTPS", ""));
    let before = of(json!([https]));
    let expected = ["route old0 Accepted True", "route old15 Accepted True", "bound l x15-1023.test old15"];
    assert_among("without it", &lines(&attached(&before, &inventory())), &expected);
    let newest = of(json!([plain, https]));
    for (why, found) in [("an edit", after(&before, &newest)), ("at once", attached(&newest, &inventory()))] {
        let found = lines(&found);
        assert_among(why, &found, &expected);
        assert!(!found.iter().any(|line| line.contains("TooManyHostnames")), "{why}");
    }
}

#[test]
fn second_reference_to_a_listener_refuses_no_route() {
    let of = |sections: &[&str]| {
        let listeners = with_listeners(&[("l", 443, "")]);
        [vec![listeners], full_namespace("TLSRoute", sections)].concat()
    };
    for found in [after(&of(&[]), &of(&["l", "l"])), attached(&of(&["l"]), &inventory())] {
        let found = lines(&found);
        let expected = ["route old0 Accepted True", "route old0#l Accepted True", "route old15#l Accepted True"];
        assert_among("it is named again", &found, &expected);
        assert_among(
            "it is named again",
            &found,
            &["bound l x15-1023.test old15", "listener l kinds TLSRoute routes 16"],
        );
        assert!(!found.iter().any(|line| line.contains("Accepted False")), "each parent accepts it");
    }
}

#[test]
fn copies_take_no_room_from_names() {
    let hosts: Vec<String> = (0..1_024).map(|host| format!("x{host}.d.c.b.a.test")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let nested = [("l", ""), ("m", "*.test"), ("n", "*.a.test"), ("o", "*.b.a.test"), ("p", "*.c.b.a.test")];
    let listeners: Vec<_> = nested.iter().map(|(name, host)| (*name, 443, *host)).collect();
    let found = attached(&[with_listeners(&listeners), young(&hosts)], &inventory());
    let expected = ["route young Accepted True", "bound p x0.d.c.b.a.test young", "bound p x1023.d.c.b.a.test young"];
    assert_among("wider listeners are first", &lines(&found), &expected);
}

#[test]
fn statuses_list_the_names_that_routes_hold() {
    let listeners = [("l", 443, ""), ("n", 443, "*.n.test"), ("m", 8443, "")];
    let of = |old: Value| [with_listeners(&listeners), old, young(&["x.test", "x.n.test"]), third("c", &["x.test"])];
    let found = after(&of(old(&["y.test"])), &of(old(&["*.test", "x.test"])));
    let held = |name: &str| {
        let verdict = found.routes.iter().find(|one| one.name.name == name).unwrap();
        let held = verdict.parents[0].held.as_ref().unwrap();
        format!("{} {}: {}", held.status, held.reason, held.message)
    };
    assert_eq!(held("old"), "false HeldByOthers: port 443: *.n.test, *.test; port 8443: *.test");
    assert_eq!(held("young"), "true Held: port 443 8443: x.test, x.n.test");
    assert_eq!(held("third"), "false HeldByOthers: none");
    let uid = |name: &str| match name {
        "old" => "1".to_owned(),
        "young" => "2".to_owned(),
        _ => "3".to_owned(),
    };
    assert_eq!(listed(&found, uid), *found.holders);
}

#[test]
fn list_of_names_is_bounded_and_has_contested_ones_first() {
    let host = |index: usize| format!("{}{index:04}.test", "x".repeat(50));
    let hosts: Vec<String> = (0..1_000).map(host).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let last = *hosts.last().unwrap();
    let many = || young(&hosts);
    let found = after(&[open(), old(&["y.test"]), many()], &[open(), old(&[last]), many()]);
    let message = |name: &str| {
        let verdict = found.routes.iter().find(|one| one.name.name == name).unwrap();
        verdict.parents[0].held.as_ref().unwrap().message.clone()
    };
    let long = message("young");
    assert!(long.len() < 16_500 && long.ends_with(", …"), "{}", long.len());
    assert!(long.starts_with(&format!("port 443: {last}, {}", hosts[0])), "{long}");
    let mut listed = FormerHolders::default();
    let verdict = found.routes.iter().find(|one| one.name.name == "young").unwrap();
    let status = json!({"parents": route_parents(&[], verdict, None, NOW).parents});
    listed.add_status(RouteKind::Tls, &verdict.name, Some("2"), &status);
    assert!(
        listed != FormerHolders::default() && listed.is_part_of(&found.holders) && !found.holders.is_part_of(&listed)
    );
}

#[test]
fn names_beyond_a_list_stay_at_a_start_if_all_were_held() {
    let hosts: Vec<String> = (0..1_000).map(|index| format!("{}{index:04}.test", "x".repeat(50))).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).chain(["z.a.test"]).collect();
    let wildcard = || third("c", &["*.a.test"]);
    let before = [open(), young(&hosts)];
    for (others, holder) in
        [(vec![wildcard()], "bound l z.a.test young"), (vec![wildcard(), old(&["y.test"])], "no bound l z.a.test")]
    {
        // One name is an older route's, so that the list does not say whose those beyond it are.
        let mine: Vec<&str> = hosts.iter().copied().chain(["y.test"].into_iter().take(others.len() - 1)).collect();
        let newest = [vec![open(), young(&mine)], others.clone()].concat();
        let found = after(&[&before[..], &others[1..]].concat(), &newest);
        assert_among("before", &lines(&found), &["bound l z.a.test young"]);
        let uid = |name: &str| (["old", "young", "third"].iter().position(|one| *one == name).unwrap() + 1).to_string();
        let listed_holders = Arc::new(listed(&found, uid));
        let mut unlisted = FormerHolders::default();
        for verdict in &found.routes {
            let status = json!({"parents": route_parents(&[], verdict, None, NOW).parents});
            unlisted.add_unlisted(verdict.kind, &verdict.name, Some(&uid(&verdict.name.name)), &status);
        }
        let former_holders = Arc::new(unlisted);
        let restarted = attached(&newest, &Inventory { listed_holders, former_holders, ..inventory() });
        assert_among("a start", &lines(&restarted), &[holder]);
    }
}

#[test]
fn statuses_of_others_and_unreadable_ones_list_nothing() {
    let name = crate::ObjectName::new("b", "young");
    let condition = |kind: &str, message: Value| json!({"type": kind, "status": "True", "message": message});
    let own = "portcullis.dev/HostnamesHeld";
    let entry = |controller: &str, condition: Value| json!({"controllerName": controller, "parentRef": {"name": "g", "namespace": INFRA}, "conditions": [condition]});
    let documents = [open(), old(&["x.test"]), young(&["x.test"])];
    for (why, entry, holder) in [
        ("its own", entry(crate::CONTROLLER_NAME, condition(own, json!("port 443: x.test"))), "young"),
        ("of another controller", entry("example.com/other", condition(own, json!("port 443: x.test"))), "old"),
        ("another condition", entry(crate::CONTROLLER_NAME, condition("Accepted", json!("port 443: x.test"))), "old"),
        ("no port", entry(crate::CONTROLLER_NAME, condition(own, json!("port x: x.test"))), "old"),
        ("another port", entry(crate::CONTROLLER_NAME, condition(own, json!("port 444: x.test"))), "old"),
        ("no name", entry(crate::CONTROLLER_NAME, condition(own, json!("port 443: x_; x.test"))), "old"),
        ("no text", entry(crate::CONTROLLER_NAME, condition(own, json!(1))), "old"),
        ("no entry", json!(1), "old"),
    ] {
        let mut listed = FormerHolders::default();
        listed.add_status(RouteKind::Tls, &name, Some("2"), &json!({"parents": [entry]}));
        let found = attached(&documents, &Inventory { listed_holders: Arc::new(listed), ..inventory() });
        assert_among(why, &lines(&found), &[format!("bound l x.test {holder}").as_str()]);
    }
}

#[test]
fn listed_names_go_before_those_of_the_judgement_before() {
    let documents = [open(), old(&["x.test"]), young(&["x.test"])];
    let by_age = attached(&documents, &inventory());
    let other = after(&[open(), young(&["x.test"])], &documents);
    assert_among("its own past", &lines(&other), &["bound l x.test young"]);
    let (former_holders, listed_holders) = (Arc::clone(&other.holders), Arc::clone(&by_age.holders));
    let found = attached(&documents, &Inventory { former_holders, listed_holders, ..inventory() });
    assert_eq!(lines(&found), lines(&by_age), "what another replica says");
}
