use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use portcullis_filter_config::activity::{ClusterActivity, LimitUse, TopTalkers};
use portcullis_xds::Membership;

use super::super::super::report_origin::ReportOrigin;
use super::super::super::shadow_reports::ShadowReports;
use super::super::Memory;
use super::super::cluster_view::cluster_view;
use super::super::fleet_view::{fleet_view, rates_by_cluster};
use super::super::inputs::Inputs;
use super::super::served_objects::{ServedObjectCache, ServedObjects};
use super::super::view::GatewayTraffic;
use super::{Agent, Clock, activity, cluster, object, status};
use crate::activity_report::ReportPart;
use crate::serve::status::StatusBody;

/// Gateways whose views send requests to objects.
struct World {
    clock: Clock,
    memory: Memory,
    shadows: ShadowReports,
    status: StatusBody,
    served: Arc<ServedObjects>,
    agents: BTreeMap<(String, String), Agent>,
}

fn bound(gateway: &str) -> Membership {
    Membership::Bound([gateway.to_owned()].into())
}

fn served(views: &[(&str, &[&str])]) -> Arc<ServedObjects> {
    let objects = |names: &[&str]| Arc::new(names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>());
    let views = views.iter().map(|(gateway, names)| ((*gateway).to_owned(), objects(names))).collect();
    Arc::new(ServedObjectCache::default().read("lab", &BTreeMap::new()).requested_at(Arc::new(views)))
}

impl World {
    fn new(views: &[(&str, &[&str])]) -> Self {
        let mut world = Self {
            clock: Clock::new(),
            memory: Memory::default(),
            shadows: ShadowReports::default(),
            status: status(vec![object("a", &[]), object("b", &[])]),
            served: served(views),
            agents: BTreeMap::new(),
        };
        world.memory.look(&world.status, &world.served, world.clock.moment(0));
        world
    }

    /// A node reports these counts of its process at a second.
    fn report(&mut self, node: &str, membership: &Membership, clusters: Vec<ClusterActivity>, second: u64) {
        let agent = self.agents.entry((node.to_owned(), format!("{membership:?}"))).or_default();
        for part in agent.parts(&activity(1, clusters)) {
            self.take(node, membership, part, second);
        }
    }

    fn take(&mut self, node: &str, membership: &Membership, part: Bytes, second: u64) {
        let part = ReportPart::read(part).unwrap();
        let clusters = part.clusters().map(Result::unwrap).collect();
        let from = ReportOrigin { name: node, membership };
        self.memory.take(from, (&part, clusters), (&self.served, &self.shadows), self.clock.at(second));
    }

    /// Two reports of a Gateway's Envoy: good and bad answers of a cluster in five seconds.
    fn requests(&mut self, gateway: &str, id: &str, name: &str, (good, bad): (u64, u64)) {
        for turn in 0..2 {
            let counts = cluster(name, &[("s", good * turn, bad * turn)]);
            self.report(&format!("gateway:{gateway}/{id}"), &bound(gateway), vec![counts], 5 * turn);
        }
    }

    fn follow(&mut self, views: &[(&str, &[&str])]) {
        self.served = served(views);
        self.memory.follow_instances(&self.served, &self.shadows);
    }

    fn lines(&self, cluster: Option<&str>) -> Vec<(String, u32, f64, Option<f64>)> {
        let lines = self.memory.at_gateways.lines(cluster, &self.served, self.clock.moment(5));
        let shown = |one: GatewayTraffic| (one.gateway, one.envoys, one.numbers.requests_per_second, one.error_ratio);
        lines.into_iter().map(shown).collect()
    }

    /// Everything that the fleet shows of its own.
    fn fleet(&self) -> String {
        let Self { status, served, memory, clock, .. } = self;
        let inputs = Inputs { status, served, activity: &memory.activity, now: clock.moment(5) };
        let detail = cluster_view(inputs, "a", &memory.histories, &memory.transitions);
        let rates = rates_by_cluster(&inputs);
        format!("{:?} {detail:?} {rates:?}", fleet_view(inputs))
    }
}

fn line(gateway: &str, envoys: u32, rate: f64, ratio: f64) -> (String, u32, f64, Option<f64>) {
    (gateway.to_owned(), envoys, rate, Some(ratio))
}

/// A tenant's Envoy may say anything, and ask for the attention of all operators.
#[test]
fn activity_at_gateways_changes_nothing_of_the_fleets() {
    let mut world = World::new(&[("infra/edge", &["a", "b"]), ("team/own", &["a"])]);
    for turn in 0..2 {
        world.report("n", &Membership::Free, vec![cluster("a", &[("s", 50 * turn, 0)])], 5 * turn);
    }
    let before = world.fleet();
    world.requests("infra/edge", "0", "a", (30, 10));
    world.requests("infra/edge", "1", "a", (40, 0));
    world.requests("team/own", "0", "a", (0, u64::MAX / 2));
    let limit = LimitUse { schema: "few".to_owned(), shared: true, local: true, ..LimitUse::default() };
    let loud = ClusterActivity {
        limits: vec![limit],
        running: u32::MAX,
        top: Some(TopTalkers::default()),
        ..cluster("a", &[("s", 1, 1)])
    };
    world.report("gateway:team/own/1", &bound("team/own"), vec![loud], 5);
    assert_eq!(world.fleet(), before);
    let lines = world.lines(Some("a"));
    assert_eq!(lines[0], line("infra/edge", 2, 16.0, 0.125));
    assert_eq!((lines[1].0.as_str(), lines[1].1, lines[1].3), ("team/own", 2, Some(1.0)));
    assert_eq!(world.lines(Some("b")), []);
    assert_eq!(world.lines(Some("-")), []);
    assert_eq!(world.lines(None).len(), 2);
}

#[test]
fn activity_of_foreign_and_former_objects_is_not_shown() {
    let mut world = World::new(&[("infra/edge", &["a"]), ("team/own", &[])]);
    world.requests("infra/edge", "0", "a", (50, 0));
    world.requests("team/own", "0", "a", (50, 0));
    world.requests("other/none", "0", "a", (50, 0));
    assert_eq!(world.lines(Some("a")), [line("infra/edge", 1, 10.0, 0.0)]);
    let of_all = world.lines(None);
    assert_eq!(of_all, [line("infra/edge", 1, 10.0, 0.0), ("team/own".to_owned(), 1, 0.0, None)]);
    // A route ends, or is refused: the view has the cluster no more.
    world.follow(&[("infra/edge", &["b"]), ("team/own", &[])]);
    assert_eq!(world.lines(Some("a")), []);
    assert_eq!(world.lines(None)[0].2, 0.0);
    // It comes back, and its counts begin anew.
    world.follow(&[("infra/edge", &["a"]), ("team/own", &[])]);
    assert_eq!(world.lines(Some("a")), [], "it is forgotten, not only hidden");
}

/// Another tenant's object of the same name.
#[test]
fn activity_at_a_gateway_is_forgotten_with_its_object() {
    let mut world = World::new(&[("infra/edge", &["a"])]);
    world.requests("infra/edge", "0", "a", (50, 0));
    assert_eq!(world.lines(Some("a")).len(), 1);
    let gone = status(vec![object("b", &[])]);
    world.memory.look(&gone, &world.served, world.clock.moment(5));
    assert_eq!(world.lines(Some("a")), []);
}

/// One certificate may have both names, and its node one name.
#[test]
fn counts_of_one_gateway_are_not_those_of_the_next() {
    let mut world = World::new(&[("infra/edge", &["a"]), ("team/own", &["a"])]);
    let node = "gateway:infra/edge+team/own/0";
    for turn in 0..2 {
        world.report(node, &bound("infra/edge"), vec![cluster("a", &[("s", 50 * turn, 0)])], turn);
    }
    assert_eq!(world.lines(Some("a")), [line("infra/edge", 1, 50.0, 0.0)]);
    world.report(node, &bound("team/own"), vec![cluster("a", &[("s", 900, 0)])], 5);
    let found = world.lines(Some("a"));
    assert_eq!(found.iter().map(|one| (one.0.as_str(), one.2)).collect::<Vec<_>>(), [("team/own", 0.0)]);
}

#[test]
fn flood_of_one_namespace_leaves_others_their_room() {
    let names: Vec<String> = (0..2_000).map(|number| format!("{number:04}{}", "x".repeat(200))).collect();
    let objects: Vec<&str> = names.iter().map(String::as_str).chain(["a"]).collect();
    let mut world = World::new(&[("loud/edge", &objects), ("quiet/edge", &["a"])]);
    world.status = status(objects.iter().map(|name| object(name, &[])).collect());
    world.memory.look(&world.status, &world.served, world.clock.moment(0));
    // Words of an object that is not known by one.
    let word = "y".repeat(100_000);
    let wordy = |name: &str| ClusterActivity { object: word.clone(), ..cluster(name, &[("s", 1, 0)]) };
    let all: Vec<ClusterActivity> = names.iter().map(|name| cluster(name, &[("s", 1, 0)])).collect();
    let parts = Agent::default().parts(&activity(1, all));
    let wordy_parts = Agent::default().parts(&activity(1, names.iter().take(20).map(|name| wordy(name)).collect()));
    for node in 0..120 {
        // A few fill the room, and all others try.
        for part in parts.iter().filter(|_| node < 3).chain(&wordy_parts) {
            world.take(&format!("gateway:loud/edge/{node}"), &bound("loud/edge"), part.clone(), 1);
        }
    }
    let mib = world.memory.at_gateways.bytes() >> 20;
    assert!((3..=6).contains(&mib), "{mib} MiB");
    world.requests("quiet/edge", "0", "a", (50, 0));
    let quiet = world.lines(Some("a")).into_iter().find(|line| line.0 == "quiet/edge");
    assert_eq!(quiet, Some(line("quiet/edge", 1, 10.0, 0.0)));
    let envoys: Vec<(String, u32)> = world.lines(None).into_iter().map(|line| (line.0, line.1)).collect();
    assert!(envoys.iter().any(|(name, envoys)| name == "loud/edge" && *envoys <= 100), "{envoys:?}");
}
