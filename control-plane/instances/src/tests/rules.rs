use serde_json::json;

use super::world::{cluster, instance, member, objects, of, settle_ready, settle_waiting, team};
use crate::{
    Entitlement, InstanceClaim, MAX_CONFLICTS, MAX_INSTANCES, Member, MemberHolder, MemberKind, MemberName, Ownership,
    Settlement, settle,
};

fn first(instances: &[InstanceClaim], members: &[Member]) -> Settlement {
    settle_ready(&Settlement::default(), instances, members)
}

fn holder(settled: &Settlement) -> &MemberHolder {
    &settled.owners.first_key_value().unwrap().1.holder
}

fn unreadable(claim: &InstanceClaim) -> InstanceClaim {
    InstanceClaim { selection: None, ..claim.clone() }
}

#[test]
fn oldest_instance_has_a_member_then_the_first_by_name() {
    let (a, b) = (|second| instance("a", second, &team("x")), |second| instance("b", second, &team("x")));
    let undated = InstanceClaim { creation_timestamp: None, ..a(1) };
    for (instances, owner) in [
        (vec![a(2), b(1)], "b"),
        (vec![a(1), b(1)], "a"),
        (vec![b(1), a(1)], "a"),
        (vec![undated.clone(), b(9)], "b"),
        (vec![b(9), undated], "b"),
    ] {
        let settled = first(&instances, &[cluster("x")]);
        assert_eq!(holder(&settled), &of(owner), "{instances:?}");
        let other = if owner == "a" { "b" } else { "a" };
        let told = settled.conflicts[other].to_string();
        assert_eq!(told, format!("UpstreamCluster prod.test belongs to Instance {owner}"));
        assert!(!settled.conflicts.contains_key(owner));
    }
}

#[test]
fn empty_selector_selects_all_and_none_selects_nothing() {
    let mut of_gateways = instance("a", 1, &json!({}));
    of_gateways.selection.as_mut().unwrap().clusters = None;
    for (claim, members, owners) in [
        (instance("a", 1, &json!({})), [cluster("x"), member(MemberName::gateway("n/g"), "y")], [of("a"), of("a")]),
        (of_gateways, [cluster("x"), member(MemberName::gateway("n/g"), "y")], [of("a"), MemberHolder::Free]),
        (
            unreadable(&instance("a", 1, &json!({}))),
            [cluster("x"), member(MemberName::envoy("e"), "x")],
            [MemberHolder::Free, MemberHolder::Nobody],
        ),
    ] {
        let settled = first(std::slice::from_ref(&claim), &members);
        let found: Vec<_> = settled.owners.values().map(|owner| owner.holder.clone()).collect();
        assert_eq!(found, owners, "{claim:?}");
    }
}

#[test]
fn owner_stays_when_an_older_instance_selects_too() {
    let (old, new) = (instance("old", 1, &team("x")), instance("new", 2, &team("x")));
    let before = first(std::slice::from_ref(&new), &[cluster("x")]);
    let settled = settle_ready(&before, &[old.clone(), new.clone()], &[cluster("x")]);
    assert_eq!(holder(&settled), &of("new"));
    assert_eq!(settled.conflicts["old"].named[0].owner, "new");
    // Without history the older one has it: a restart needs the owners of before.
    assert_eq!(holder(&first(&[old, new], &[cluster("x")])), &of("old"));
}

#[test]
fn member_passes_over_when_the_next_owner_is_ready() {
    let instances = [instance("a", 1, &team("x")), instance("b", 2, &team("y"))];
    let before = first(&instances, &[cluster("x")]);
    let waiting = settle_waiting(&before, &instances, &[cluster("y")]);
    let expected = Ownership { holder: of("a"), next: Some(of("b")) };
    assert_eq!(waiting.owners.values().collect::<Vec<_>>(), [&expected]);
    assert_eq!(settle_waiting(&waiting, &instances, &[cluster("y")]), waiting, "nothing happens twice");
    let ready = settle_ready(&waiting, &instances, &[cluster("y")]);
    assert_eq!(ready.owners.values().collect::<Vec<_>>(), [&Ownership { holder: of("b"), next: None }]);
    // The label comes back before the next owner was ready.
    let back = settle_waiting(&waiting, &instances, &[cluster("x")]);
    assert_eq!(back.owners, before.owners);
    // The next owner lets go: the member goes on with the last one until Envoys of none are ready.
    let gone = settle_waiting(&waiting, &instances[..1], &[cluster("y")]);
    assert_eq!(
        gone.owners.values().collect::<Vec<_>>(),
        [&Ownership { holder: of("a"), next: Some(MemberHolder::Free) }]
    );
}

#[test]
fn removed_instance_holds_until_the_next_owner_is_ready() {
    let instances = [instance("a", 1, &team("x"))];
    let before = first(&instances, &[cluster("x")]);
    let waiting = settle_waiting(&before, &[], &[cluster("x")]);
    assert_eq!(
        waiting.owners.values().collect::<Vec<_>>(),
        [&Ownership { holder: of("a"), next: Some(MemberHolder::Free) }]
    );
    assert_eq!(holder(&settle_ready(&waiting, &[], &[cluster("x")])), &MemberHolder::Free);
}

#[test]
fn refused_instance_keeps_what_it_has_and_gets_no_more() {
    let a = instance("a", 1, &team("x"));
    let other = member(MemberName::cluster("other.test"), "x");
    let before = first(std::slice::from_ref(&a), &[cluster("x")]);
    let b = instance("b", 2, &json!({}));
    let settled = settle_ready(&before, &[unreadable(&a), b], &[cluster("y"), other]);
    let found: Vec<_> = settled.owners.iter().map(|(name, owner)| (name.name.as_str(), owner.holder.clone())).collect();
    assert_eq!(found, [("other.test", of("b")), ("prod.test", of("a"))]);
    assert_eq!(settled.conflicts["b"].count, 1);
}

#[test]
fn new_cluster_waits_until_it_is_known_who_selects_it() {
    let (a, b) = (instance("a", 1, &team("x")), instance("b", 2, &team("y")));
    let refused = [unreadable(&a), b.clone()];
    let nobody = first(&refused, &[cluster("x")]);
    assert_eq!(holder(&nobody), &MemberHolder::Nobody);
    assert_eq!(holder(&settle_waiting(&nobody, &refused, &[cluster("x")])), &MemberHolder::Nobody);
    for (instances, label, expected) in [
        (vec![a.clone(), b.clone()], "x", of("a")),
        (vec![a, b], "z", MemberHolder::Free),
        (refused.to_vec(), "y", of("b")),
        (vec![], "x", MemberHolder::Free),
    ] {
        let settled = settle_waiting(&nobody, &instances, &[cluster(label)]);
        assert_eq!(settled.owners.values().next(), Some(&Ownership { holder: expected, next: None }), "{label}");
    }
    // One that is served by Envoys of none stays there.
    let free = first(&[], &[cluster("x")]);
    assert_eq!(holder(&settle_ready(&free, &refused, &[cluster("x")])), &MemberHolder::Free);
}

#[test]
fn envoy_belongs_to_what_its_certificate_names_and_no_more() {
    let instances = [instance("a", 1, &team("x")), instance("b", 2, &team("y")), instance("c", 3, &json!({}))];
    let named = |names: &[&str]| Entitlement::Named(names.iter().map(|name| (*name).to_owned()).collect());
    for (entitlement, label, expected) in [
        (Entitlement::Any, "x", of("a")),
        (Entitlement::Any, "z", of("c")),
        (Entitlement::Free, "x", MemberHolder::Free),
        (named(&["a"]), "x", of("a")),
        (named(&["a"]), "y", MemberHolder::Nobody),
        (named(&["b"]), "x", MemberHolder::Nobody),
        (named(&["a", "b"]), "y", of("b")),
        (named(&["c"]), "x", of("c")),
        (named(&["gone"]), "x", MemberHolder::Nobody),
        (named(&[]), "x", MemberHolder::Nobody),
    ] {
        let envoy = Member { entitlement: entitlement.clone(), ..member(MemberName::envoy("e"), label) };
        assert_eq!(holder(&first(&instances, &[envoy])), &expected, "{entitlement:?} {label}");
    }
}

#[test]
fn envoy_leaves_at_once_what_its_certificate_no_longer_names() {
    let instances = [instance("a", 1, &team("x")), instance("b", 2, &team("x"))];
    let envoy = |entitlement| Member { entitlement, ..member(MemberName::envoy("e"), "x") };
    let before = first(&instances, &[envoy(Entitlement::Named(["a".to_owned()].into()))]);
    assert_eq!(holder(&before), &of("a"));
    for (entitlement, expected) in [
        (Entitlement::Named(["b".to_owned()].into()), of("b")),
        (Entitlement::Named(["gone".to_owned()].into()), MemberHolder::Nobody),
        (Entitlement::Free, MemberHolder::Free),
    ] {
        let settled = settle_waiting(&before, &instances, &[envoy(entitlement.clone())]);
        assert_eq!(
            settled.owners.values().next(),
            Some(&Ownership { holder: expected, next: None }),
            "{entitlement:?}"
        );
    }
}

#[test]
fn clusters_stay_until_gateways_have_gone_the_same_way() {
    let instances = [instance("a", 1, &team("x")), instance("b", 2, &team("y"))];
    let members = |team: &str| [cluster(team), member(MemberName::gateway("n/g"), team)];
    let before = first(&instances, &members("x"));
    let is_of_cluster = |name: &MemberName, _: &MemberHolder| name.kind == MemberKind::UpstreamCluster;
    let waiting = settle(&before, &objects(&instances, &members("y")), is_of_cluster);
    let kinds: Vec<_> = waiting.hand_overs().into_iter().map(|one| one.member.kind).collect();
    assert_eq!(kinds, [MemberKind::Gateway, MemberKind::UpstreamCluster]);
    let settled = settle_ready(&waiting, &instances, &members("y"));
    assert_eq!(settled.hand_overs(), []);
    assert_eq!(settled.count("b", |_| true), 2);
}

#[test]
fn instances_beyond_the_bound_keep_and_take_nothing() {
    let name = |index: usize| format!("i{index:03}");
    let all: Vec<_> = (0..=MAX_INSTANCES).map(|index| instance(&name(index), 1, &team(&name(index)))).collect();
    let last = name(MAX_INSTANCES);
    let free = first(&[], &[cluster(&last)]);
    let settled = settle_ready(&free, &all, &[cluster(&last)]);
    assert_eq!((holder(&settled), settled.excess.len()), (&MemberHolder::Free, 1));
    // Keys of a new one would be at Envoys of none.
    assert_eq!(holder(&first(&all, &[cluster(&last)])), &of(&last));
    let before = first(&all[1..], &[cluster(&last)]);
    assert_eq!(holder(&before), &of(&last));
    assert_eq!(holder(&settle_ready(&before, &all, &[cluster(&last)])), &of(&last));
}

#[test]
fn conflicts_are_named_up_to_a_bound_and_counted() {
    let instances = [instance("a", 1, &team("x")), instance("b", 2, &json!({}))];
    let clusters: Vec<_> = (0..20).map(|index| member(MemberName::cluster(format!("c{index:02}")), "x")).collect();
    let conflicts = &first(&instances, &clusters).conflicts["b"];
    assert_eq!((conflicts.named.len(), conflicts.count), (MAX_CONFLICTS, 20));
    assert!(conflicts.to_string().ends_with("; and 12 more"), "{conflicts}");
}
