//! Properties of host names over several edits that one judgement finds.

use std::sync::Arc;

use proptest::prelude::*;

use super::holder_events::{Event, NAMES, World, bound, claims, documents, event, happen, namespace, reached};
use super::holders::{attached, listed};
use super::world::inventory;
use crate::{Attached, HostPattern, Inventory};

/// Steps of several events.
fn steps() -> impl Strategy<Value = Vec<Vec<Event>>> {
    prop::collection::vec(prop::collection::vec(event(), 1..4), 1..8)
}

/// Whether a route of a namespace claims a host name at a port.
fn is_claimed(world: &World, of: &str, site: &(u16, HostPattern)) -> bool {
    world.iter().any(|(route, (uid, _))| namespace(*route) == of && claims(world, *route, uid, site))
}

/// The judgement of a step, and that of the one before.
fn judge(world: &World, before: &Attached) -> Attached {
    attached(&documents(world), &Inventory { former_holders: Arc::clone(&before.holders), ..inventory() })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clients_stay_with_a_namespace_that_claims_their_name(steps in steps()) {
        let (mut world, mut before) = (World::new(), Attached::default());
        for (at, events) in steps.iter().enumerate() {
            events.iter().for_each(|event| happen(&mut world, event, at));
            let now = judge(&world, &before);
            let (had, has) = (bound(&before), bound(&now));
            for (port, name) in [443, 8443].into_iter().flat_map(|port| NAMES.map(|name| (port, name))) {
                let Some((holder, site)) = reached(&had, port, name) else { continue };
                let exact = (port, HostPattern::parse(name).unwrap());
                if [&site, &exact].into_iter().any(|site| is_claimed(&world, namespace(holder), site)) {
                    let (next, _) = reached(&has, port, name).unwrap();
                    prop_assert_eq!(namespace(next), namespace(holder), "{} at {} after {:?}", name, port, events);
                }
            }
            before = now;
        }
    }

    #[test]
    fn restart_after_moves_moves_no_host_name(steps in steps()) {
        let (mut world, mut before) = (World::new(), Attached::default());
        for (at, events) in steps.iter().enumerate() {
            events.iter().for_each(|event| happen(&mut world, event, at));
            before = judge(&world, &before);
            let uid = |name: &str| world[&name.trim_start_matches('r').parse::<usize>().unwrap()].0.clone();
            let listed_holders = Arc::new(listed(&before, uid));
            let restarted = attached(&documents(&world), &Inventory { listed_holders, ..inventory() });
            prop_assert_eq!(&restarted, &before, "a restart after {:?}", events);
            prop_assert_eq!(&judge(&world, &before), &before, "the same again after {:?}", events);
        }
    }
}

/// The property meets names that move within a namespace while an older route of another one claims them.
#[test]
fn steps_meet_names_that_older_strangers_wait_for() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let (mut runner, mut moved) = (TestRunner::deterministic(), 0);
    for _ in 0..200 {
        let (mut world, mut before) = (World::new(), Attached::default());
        for (at, events) in steps().new_tree(&mut runner).unwrap().current().iter().enumerate() {
            events.iter().for_each(|event| happen(&mut world, event, at));
            let now = judge(&world, &before);
            let had = bound(&before);
            let is_move = |(site, holder): (&(u16, HostPattern), &usize)| {
                let Some(former) = had.get(site).filter(|former| *former != holder) else { return false };
                // The older a route is, the greater is its number.
                let older = |(route, (uid, _)): (&usize, &(String, Vec<usize>))| {
                    route > holder && namespace(*route) != namespace(*holder) && claims(&world, *route, uid, site)
                };
                namespace(*former) == namespace(*holder) && world.iter().any(older)
            };
            moved += bound(&now).iter().filter(|(site, holder)| is_move((*site, *holder))).count();
            before = now;
        }
    }
    assert!(moved > 5, "{moved}");
}
