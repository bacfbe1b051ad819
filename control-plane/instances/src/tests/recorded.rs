use proptest::prelude::*;
use serde_json::json;

use super::world::{cluster, instance, objects, of, settle_ready, team};
use crate::{InstanceClaim, InstanceObjects, Member, MemberHolder, Settlement, settle};

/// Both select all clusters; `a` is older.
fn both() -> [InstanceClaim; 2] {
    [instance("a", 1, &json!({})), instance("b", 2, &json!({}))]
}

fn recorded(instance: &str) -> Member {
    Member { recorded: Some(instance.to_owned()), ..cluster("x") }
}

fn owner(settled: &Settlement) -> MemberHolder {
    settled.owners.first_key_value().unwrap().1.settled().clone()
}

fn follower(before: &Settlement, instances: &[InstanceClaim], member: Member) -> Settlement {
    let objects = InstanceObjects { follows_statuses: true, ..objects(instances, &[member]) };
    settle(before, &objects, |_, _| false)
}

#[test]
fn owner_in_the_status_goes_before_age_after_a_start() {
    let settled = settle_ready(&Settlement::default(), &both(), &[recorded("b")]);
    assert_eq!(owner(&settled), of("b"));
    assert!(settled.conflicts["a"].to_string().contains("Instance b"));
}

#[test]
fn owner_in_the_status_counts_only_while_it_selects() {
    let rows = [
        (vec![instance("a", 1, &json!({})), instance("b", 2, &team("y"))], "b", of("a")),
        (vec![instance("a", 1, &json!({}))], "b", of("a")),
        (vec![instance("a", 1, &team("y"))], "a", MemberHolder::Free),
        // It is not known what `b` selects: its clusters stay with it.
        (
            vec![instance("a", 1, &json!({})), InstanceClaim { selection: None, ..instance("b", 2, &json!({})) }],
            "b",
            of("b"),
        ),
    ];
    for (instances, named, wanted) in rows {
        for settled in [
            settle_ready(&Settlement::default(), &instances, &[recorded(named)]),
            follower(&Settlement::default(), &instances, recorded(named)),
        ] {
            assert_eq!(owner(&settled), wanted, "{instances:?} {named}");
        }
    }
}

#[test]
fn replica_that_does_not_lead_hands_over_to_the_statuses_owner() {
    let of_a = settle_ready(&Settlement::default(), &both(), &[cluster("x")]);
    let settled = follower(&of_a, &both(), recorded("b"));
    let ownership = settled.owners.first_key_value().unwrap().1;
    assert_eq!((&ownership.holder, ownership.next.as_ref()), (&of("a"), Some(&of("b"))), "without a moment of none");
    let leading = settle_ready(&of_a, &both(), &[recorded("b")]);
    assert_eq!(owner(&leading), of("a"), "a control plane that writes the status goes by its own settlement");
    assert_eq!(owner(&follower(&of_a, &both(), cluster("x"))), of("a"), "without a status its own counts");
}

proptest! {
    #[test]
    fn replicas_agree_with_whichever_past_once_the_status_is_there(
        pasts in prop::collection::vec(prop::collection::vec((0..4_u32, any::<bool>()), 0..6), 2..5),
        leading in any::<prop::sample::Index>(),
    ) {
        // Instances come and go in another order at each replica, and are the same in the end.
        let after = |past: &[(u32, bool)]| {
            past.iter().fold(Settlement::default(), |before, (second, is_a)| {
                let one = if *is_a { instance("a", *second, &json!({})) } else { instance("b", *second, &json!({})) };
                settle_ready(&before, &[one], &[cluster("x")])
            })
        };
        let settlements: Vec<Settlement> = pasts.iter().map(|past| after(past)).collect();
        let leader = settle_ready(leading.get(&settlements), &both(), &[cluster("x")]);
        let written = owner(&leader).instance().unwrap().to_owned();
        for before in &settlements {
            let settled = follower(before, &both(), recorded(&written));
            prop_assert_eq!(owner(&settled), of(&written));
            // A replica that leads next goes on with it.
            let next = settle_ready(&settled, &both(), &[recorded(&written)]);
            prop_assert_eq!(owner(&next), of(&written));
        }
    }
}
