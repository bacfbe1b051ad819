//! Properties of host names over edits and restarts.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::holders::{attached, listed, route};
use super::world::{gateway, inventory, listener};
use crate::{Attached, HostPattern, Inventory, ListenerRole};

const HOSTS: [&str; 7] = ["a.test", "*.test", "x.a.test", "*.a.test", "y.x.a.test", "*.x.a.test", "b.test"];
pub(super) const NAMES: [&str; 5] = ["a.test", "x.a.test", "y.x.a.test", "z.x.a.test", "b.test"];
const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const ROUTES: usize = 5;

/// A route: its UID, and its host names by their indices.
pub(super) type Live = (String, Vec<usize>);
/// Live routes, by their indices.
pub(super) type World = BTreeMap<usize, Live>;
/// An event: a route, and its host names; none is its end.
pub(super) type Event = (usize, Vec<usize>);

pub(super) fn event() -> impl Strategy<Value = Event> {
    (0..ROUTES, prop::collection::vec(0..HOSTS.len(), 0..4))
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(), 1..14)
}

pub(super) fn namespace(route: usize) -> &'static str {
    NAMESPACES[route % NAMESPACES.len()]
}

pub(super) fn happen(world: &mut World, (route, hosts): &Event, at: usize) {
    match (hosts.is_empty(), world.get_mut(route)) {
        (true, _) => drop(world.remove(route)),
        (false, Some((_, known))) => known.clone_from(hosts),
        (false, None) => drop(world.insert(*route, (format!("{route}-{at}"), hosts.clone()))),
    }
}

pub(super) fn documents(world: &World) -> Vec<Value> {
    let listeners =
        [listener("l", 443, "TLS", ""), listener("n", 443, "TLS", "*.a.test"), listener("m", 8443, "TLS", "")];
    let routes = world.iter().map(|(index, (uid, hosts))| {
        let hosts: Vec<&str> = hosts.iter().map(|host| HOSTS[*host]).collect();
        // The older a route is, the later in the list.
        let year = 2030 - u32::try_from(*index).unwrap();
        route((&format!("r{index}"), uid), namespace(*index), year, &hosts)
    });
    [gateway(&json!(listeners))].into_iter().chain(routes).collect()
}

/// The routes by port and host name.
pub(super) fn bound(attached: &Attached) -> BTreeMap<(u16, HostPattern), usize> {
    let listeners = attached.served.iter().flat_map(|gateway| &gateway.listeners);
    let routes = listeners.flat_map(|listener| {
        let ListenerRole::Passthrough(table) = &listener.role else { panic!("{listener:?}") };
        let index = |name: &str| name.trim_start_matches('r').parse::<usize>().unwrap();
        table.routes.iter().map(move |(host, one)| ((listener.port, host.clone()), index(&one.route.name)))
    });
    routes.collect()
}

/// Whether a route claims a host name at a port. The listener `n` has its own part of a wider wildcard.
pub(super) fn claims(world: &World, route: usize, uid: &str, (port, host): &(u16, HostPattern)) -> bool {
    let Some((_, hosts)) = world.get(&route).filter(|(own, _)| own == uid) else { return false };
    let has = |host: &str| hosts.iter().any(|own| HOSTS[*own] == host);
    has(&host.to_string()) || (*port == 443 && host.to_string() == "*.a.test" && has("*.test"))
}

/// The route that a client of a name reaches, with the host name by which it does.
pub(super) fn reached(
    bound: &BTreeMap<(u16, HostPattern), usize>,
    port: u16,
    name: &str,
) -> Option<(usize, (u16, HostPattern))> {
    let exact = HostPattern::parse(name).unwrap();
    let mut chain = std::iter::once(exact.clone()).chain(exact.wider());
    chain.find_map(|host| Some((*bound.get(&(port, host.clone()))?, (port, host))))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_edit_takes_a_host_name_from_its_route(events in events()) {
        let (mut world, mut before) = (World::new(), Attached::default());
        for (at, event) in events.iter().enumerate() {
            let former = std::mem::take(&mut before);
            let routes_before = world.clone();
            happen(&mut world, event, at);
            let inventory = Inventory { former_holders: Arc::clone(&former.holders), ..inventory() };
            let now = attached(&documents(&world), &inventory);
            let (had, has) = (bound(&former), bound(&now));
            for (site, holder) in &had {
                if claims(&world, *holder, &routes_before[holder].0, site) {
                    prop_assert_eq!(has.get(site), Some(holder), "{:?} after {:?}", site, event);
                }
            }
            for (port, name) in [443, 8443].into_iter().flat_map(|port| NAMES.map(|name| (port, name))) {
                let Some((holder, site)) = reached(&had, port, name) else { continue };
                if claims(&world, holder, &routes_before[&holder].0, &site) {
                    let (next, _) = reached(&has, port, name).unwrap();
                    prop_assert_eq!(namespace(next), namespace(holder), "{} at {} after {:?}", name, port, event);
                }
            }
            before = now;
        }
    }

    #[test]
    fn restart_moves_no_host_name(events in events()) {
        let (mut world, mut before) = (World::new(), Attached::default());
        for (at, event) in events.iter().enumerate() {
            happen(&mut world, event, at);
            let documents = documents(&world);
            before = attached(&documents, &Inventory { former_holders: Arc::clone(&before.holders), ..inventory() });
            let uid = |name: &str| world[&name.trim_start_matches('r').parse::<usize>().unwrap()].0.clone();
            let listed_holders = Arc::new(listed(&before, uid));
            let restarted = attached(&documents, &Inventory { listed_holders, ..inventory() });
            prop_assert_eq!(&restarted, &before, "a restart after {:?}", event);
            let again = attached(&documents, &Inventory { former_holders: Arc::clone(&before.holders), ..inventory() });
            prop_assert_eq!(&again, &before, "the same again after {:?}", event);
        }
    }
}

/// The properties meet what they are about: names that are another one's by age, and wildcards that came later.
#[test]
fn events_meet_names_that_age_would_give_to_others() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut by_past, mut below) = (0, 0);
    for _ in 0..200 {
        let (mut world, mut before) = (World::new(), Attached::default());
        for (at, event) in events().new_tree(&mut runner).unwrap().current().iter().enumerate() {
            happen(&mut world, event, at);
            let inventory = Inventory { former_holders: Arc::clone(&before.holders), ..inventory() };
            before = attached(&documents(&world), &inventory);
        }
        let by_age = attached(&documents(&world), &inventory());
        by_past += usize::from(bound(&by_age) != bound(&before));
        below += usize::from(format!("{before:?}").contains("had a wildcard above it before"));
    }
    assert!(by_past > 20 && below > 5, "{by_past} {below}");
}
