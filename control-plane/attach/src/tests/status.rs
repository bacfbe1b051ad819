//! Verdicts in a status that others write, too.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::world::{class, gateway, inventory, listener, read, tls_route};
use crate::{CONTROLLER_NAME, ConditionVerdict, ObjectGenerations, RouteVerdict, attach, conditions, route_parents};

const NOW: &str = "2026-01-02T03:04:05Z";
const BEFORE: &str = "2025-01-01T00:00:00Z";

fn verdict() -> RouteVerdict {
    let gateway = gateway(&json!([listener("l", 443, "TLS", "")]));
    let objects = read(&[class(), gateway, tls_route("r", &["a.test"], &["c2"])]);
    attach(&objects, &inventory()).routes.remove(0)
}

fn at(judged: i64, newest: Option<i64>) -> ObjectGenerations {
    ObjectGenerations { judged: Some(judged), newest }
}

fn foreign(name: &str) -> Value {
    json!({"parentRef": {"name": name}, "controllerName": "example.com/other", "conditions": [{"type": "X"}]})
}

#[test]
fn entries_of_other_controllers_are_kept() {
    let written = route_parents(&[foreign("a"), foreign("b")], &verdict(), None, NOW);
    assert_eq!(written.parents[..2], [foreign("a"), foreign("b")]);
    let parent = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "infra", "name": "g"});
    let own = json!({"parentRef": parent, "controllerName": CONTROLLER_NAME, "conditions": [
        {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": NOW, "observedGeneration": 3},
        {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs", "message": "", "lastTransitionTime": NOW, "observedGeneration": 3},
        {"type": "portcullis.dev/HostnamesHeld", "status": "True", "reason": "Held", "message": "port 443: a.test", "lastTransitionTime": NOW, "observedGeneration": 3},
    ]});
    assert_eq!(written.parents[2..], [own]);
    let again = route_parents(&written.parents, &verdict(), None, "2027-01-01T00:00:00Z");
    assert_eq!(again, written, "an equal verdict changes nothing");
    let gone = RouteVerdict { parents: Vec::new(), ..verdict() };
    assert_eq!(route_parents(&written.parents, &gone, None, NOW).parents, [foreign("a"), foreign("b")]);
}

#[test]
fn entries_are_thirty_two_at_most_and_others_come_first() {
    let full: Vec<Value> = (0..32).map(|index| foreign(&index.to_string())).collect();
    let written = route_parents(&full, &verdict(), None, NOW);
    assert_eq!((written.parents, written.left_out), (full.clone(), 1));
    let written = route_parents(&full[1..], &verdict(), None, NOW);
    assert_eq!((written.parents.len(), written.left_out), (32, 0));
}

#[test]
fn messages_are_one_line_of_bounded_length() {
    let hosts: Vec<String> = (0..1_024).map(|index| format!("{}{index}.test", "x".repeat(50))).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let passthrough = gateway(&json!([listener("l", 443, "TLS", "")]));
    let (first, mut second) = (tls_route("a", &hosts, &["c2"]), tls_route("b", &hosts, &["c2"]));
    second["spec"]["rules"][0]["\u{1b}[31m\n"] = json!(1);
    let attached = attach(&read(&[class(), passthrough.clone(), first.clone(), second]), &inventory());
    let message = |name: &str, of: &crate::Attached| {
        of.routes.iter().find(|one| one.name.name == name).unwrap().parents[0].conditions[0].message.clone()
    };
    assert_eq!(message("b", &attached), "spec.rules[0]. [31m  is not supported");
    let attached = attach(&read(&[class(), passthrough, first, tls_route("b", &hosts, &["c2"])]), &inventory());
    let long = message("b", &attached);
    assert_eq!((long.chars().count(), long.ends_with('…')), (1_024, true));
}

#[test]
fn conditions_are_merged() {
    let before = [
        json!({"type": "special.io/Field", "status": "Unknown", "x": 1}),
        json!({"type": "Accepted", "status": "True", "lastTransitionTime": BEFORE, "observedGeneration": 2}),
        json!({"type": "PartiallyInvalid", "status": "True", "lastTransitionTime": BEFORE}),
        json!({"type": "ResolvedRefs", "status": "True", "lastTransitionTime": BEFORE}),
    ];
    let accepted = ConditionVerdict { kind: "Accepted", status: true, reason: "Accepted", message: "m".to_owned() };
    let resolved =
        ConditionVerdict { kind: "ResolvedRefs", status: false, reason: "InvalidKind", message: String::new() };
    let merged = conditions(&before, &[resolved, accepted.clone()], at(3, None), NOW);
    let fields = |name: &str| merged.iter().map(|one| one[name].clone()).collect::<Vec<_>>();
    assert_eq!(fields("type"), ["special.io/Field", "Accepted", "ResolvedRefs"]);
    assert_eq!(merged[0], before[0]);
    assert_eq!(
        fields("lastTransitionTime"),
        [Value::Null, json!(BEFORE), json!(NOW)],
        "only a new status has a new time"
    );
    assert_eq!(fields("observedGeneration"), [Value::Null, json!(3), json!(3)]);
    let newer = [json!({"type": "Accepted", "status": "False", "observedGeneration": 4})];
    assert_eq!(
        conditions(&newer, std::slice::from_ref(&accepted), at(3, None), NOW),
        newer,
        "a version that is not known here"
    );
    for (newest, is_kept) in [(4, true), (3, false)] {
        let found = conditions(&newer, std::slice::from_ref(&accepted), at(3, Some(newest)), NOW);
        assert_eq!(found == newer, is_kept, "the newest version is {newest}");
    }
    let of_a_file = conditions(&[], &[accepted], ObjectGenerations::default(), NOW);
    assert_eq!(of_a_file[0].get("observedGeneration"), None);
}

/// They may be what another controller goes by.
#[test]
fn conditions_of_others_stay_and_own_ones_have_the_rest() {
    let own = |kind| ConditionVerdict { kind, status: true, reason: "Accepted", message: String::new() };
    let kinds = [
        "Accepted",
        "portcullis.dev/DispatchPolicyAffected",
        "PartiallyInvalid",
        "portcullis.dev/HostnamesHeld",
        "ResolvedRefs",
    ];
    let verdicts = kinds.map(own);
    for (number, expected) in [
        (3, &kinds[..]),
        (4, &["Accepted", "PartiallyInvalid", "portcullis.dev/HostnamesHeld", "ResolvedRefs"]),
        (5, &["Accepted", "portcullis.dev/HostnamesHeld", "ResolvedRefs"]),
        (6, &["Accepted", "ResolvedRefs"]),
        (7, &["Accepted"]),
        (8, &[]),
    ] {
        let others: Vec<Value> = (0..number).map(|index| json!({"type": format!("example.com/C{index}")})).collect();
        // One that had a place before others took it.
        let before = [&others[..], &[json!({"type": kinds[1], "status": "True"})]].concat();
        let merged = conditions(&before, &verdicts, at(3, None), NOW);
        assert_eq!(merged.len(), number + expected.len(), "{number}");
        assert_eq!(merged[..number], others[..], "{number}");
        let found: BTreeSet<&str> = merged[number..].iter().map(|one| one["type"].as_str().unwrap()).collect();
        assert_eq!(found, expected.iter().copied().collect(), "{number}");
        assert_eq!(conditions(&merged, &verdicts, at(3, None), "2027-01-01T00:00:00Z"), merged, "{number}");
    }
}
