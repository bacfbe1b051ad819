//! A property of the whole way from an edit to Envoy: for any edits, and any order in which Envoy applies responses, a decision
//! of one generation of an object reaches no cluster, secret or endpoint of another.
//!
//! The reconciler, the translation and the protocol are the real ones; Envoy is a model.

mod chains;
mod edits;
mod envoy;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_translate::type_urls;
use portcullis_xds::{Resource, Snapshot};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use self::edits::{Edit, EditedObject, Pki};
use self::envoy::{Applied, EnvoyModel, Step};
use super::reconciler::Reconciler;
use super::retention::DEFAULT_GRACE_PERIOD;

/// Digits of a generation.
const DIGITS: usize = 16;

/// The facts that the filter decides by and the servers rely on, derived from the edits and not from the translation.
type Facts = String;

/// An event of the test.
#[derive(Clone, Debug)]
enum Event {
    Edit(Edit),
    Envoy(Step),
    /// Envoy does so many things in the usual order.
    Run(u8),
    /// Time goes by, so that what lingers may go.
    Wait(u8),
    /// The control plane starts anew, without anything that it knew.
    Restart,
    /// The control plane starts anew with what it served last, before it reads the objects.
    Resume,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any::<Edit>().prop_map(Event::Edit),
        24 => any::<Step>().prop_map(Event::Envoy),
        8 => (0..32_u8).prop_map(Event::Run),
        1 => (0..40_u8).prop_map(Event::Wait),
        1 => Just(Event::Restart),
        1 => Just(Event::Resume),
    ]
}

/// An event as before, or a refusal of something good by Envoy.
fn event_or_refusal() -> impl Strategy<Value = Event> {
    prop_oneof![
        16 => event(),
        1 => any::<u8>().prop_map(|number| Event::Envoy(Step::Refuse(number))),
    ]
}

/// The names of resources that Envoy sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    AsTheyAre,
    /// All generations have one name, as if there were none.
    WithoutGenerations,
}

struct Simulation {
    pki: Pki,
    object: EditedObject,
    reconciler: Reconciler,
    /// The snapshot that was served last.
    served: Snapshot,
    envoy: EnvoyModel,
    names: Names,
    now: Instant,
    /// Of which facts everything is that was ever served.
    made_of: BTreeMap<Applied, Facts>,
    /// The number of resources that destinations led to, and of the secrets among them.
    reached: usize,
    secrets: usize,
}

impl Simulation {
    fn new(names: Names) -> Self {
        let mut simulation = Self {
            pki: Pki::new(),
            object: EditedObject::default(),
            reconciler: Reconciler::default(),
            served: Snapshot::default(),
            envoy: EnvoyModel::new(Arc::new(Snapshot::default())),
            names,
            now: Instant::now(),
            made_of: BTreeMap::new(),
            reached: 0,
            secrets: 0,
        };
        simulation.publish();
        simulation
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Edit(edit) => {
                self.object.edit(*edit);
                self.publish();
            }
            Event::Envoy(step) => self.envoy.take(*step),
            Event::Run(count) => (0..*count).for_each(|_| self.envoy.go_on_once()),
            Event::Wait(seconds) => {
                self.now += Duration::from_secs((*seconds).into());
                self.publish();
            }
            Event::Restart => {
                self.reconciler = Reconciler::default();
                self.object.is_forgotten();
                let snapshot = self.snapshot();
                self.envoy.reconnect(snapshot);
            }
            Event::Resume => {
                self.reconciler = Reconciler::resume(Some(&self.served), DEFAULT_GRACE_PERIOD);
                self.object.is_forgotten();
                let saved = Arc::new(Snapshot::new(self.as_seen(&self.served)));
                self.envoy.reconnect(saved);
                self.publish();
            }
        }
    }

    fn publish(&mut self) {
        let snapshot = self.snapshot();
        self.envoy.on_snapshot(snapshot);
    }

    fn snapshot(&mut self) -> Arc<Snapshot> {
        let set = self.object.set(&self.pki);
        // With the answers from before the edit first, as the control plane has it.
        let before = self.reconciler.reconcile(&set, &BTreeSet::new(), self.now).unwrap();
        self.reconciler.discover(self.object.answers(&before.wants));
        let update = self.reconciler.reconcile(&set, &BTreeSet::new(), self.now).unwrap();
        let is_accepted = update.diagnoses.iter().any(|one| one.name == edits::NAME && one.accepted);
        self.object.is_accepted(is_accepted);
        if is_accepted {
            // Another control plane over the same objects, one that saw no edit.
            let mut other = Reconciler::default();
            other.discover(self.object.answers(&update.wants));
            let other = other.reconcile(&set, &BTreeSet::new(), self.now).unwrap();
            let version = |snapshot: &Snapshot| snapshot.version_of(edits::NAME);
            assert_eq!(version(&update.snapshot), version(&other.snapshot), "replicas agree on what is served");
        }
        let facts = self.object.facts();
        let seen = self.as_seen(&update.snapshot);
        for (url, name, resource) in &seen {
            let made = Applied { url: url.clone(), name: name.clone(), body: resource.pieces().concat() };
            let chains = if *url == type_urls::listener() { chains::of(&made.body) } else { Vec::new() };
            for made in chains.into_iter().chain([made]) {
                self.made_of.entry(made).or_insert_with(|| facts.clone());
            }
        }
        self.served = update.snapshot;
        Arc::new(Snapshot::new(seen))
    }

    /// Resources by type and name, with the names that Envoy sees.
    fn as_seen(&self, snapshot: &Snapshot) -> Vec<(String, String, Resource)> {
        let all = snapshot
            .resources()
            .map(|(url, name, resource)| (url, self.seen_bytes(name.as_bytes()), self.renamed(resource)));
        all.map(|(url, name, resource)| (url.to_owned(), String::from_utf8(name).unwrap(), resource)).collect()
    }

    /// A resource with the names that Envoy sees.
    fn renamed(&self, resource: &Resource) -> Resource {
        if self.names == Names::AsTheyAre {
            return resource.clone();
        }
        let mut renamed = Resource::new(self.seen_bytes(&resource.pieces().concat()));
        if let Some((url, name)) = resource.companion() {
            renamed =
                renamed.with_companion(url.to_owned(), String::from_utf8(self.seen_bytes(name.as_bytes())).unwrap());
        }
        resource.owner().map_or(renamed.clone(), |owner| renamed.owned_by(owner))
    }

    /// Of the same length, so that encodings stay whole.
    fn seen_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut blanked = bytes.to_vec();
        if self.names == Names::AsTheyAre {
            return blanked;
        }
        let starts: Vec<_> = (0..bytes.len().saturating_sub(DIGITS)).filter(|at| bytes[*at] == b'@').collect();
        for at in starts {
            if bytes[at + 1..=at + DIGITS].iter().all(u8::is_ascii_hexdigit) {
                blanked[at + 1..=at + DIGITS].fill(b'0');
            }
        }
        blanked
    }

    /// Follows each destination of each route configuration that Envoy ever had: a request may wait for long between its
    /// decision and its way.
    fn check_destinations(&mut self) -> Result<(), String> {
        let of = |one: &Applied| self.made_of.get(one).cloned();
        let (mut reached, mut secrets) = (0, 0);
        for decided in self.envoy.decisions() {
            let Some(facts) = of(&decided.routes) else { return Err("routes that were not served".to_owned()) };
            for (destination, target) in &decided.destinations {
                for used in self.envoy.way(target) {
                    reached += 1;
                    secrets += usize::from(used.url == type_urls::secret());
                    let found = of(&used).ok_or_else(|| format!("{} that was not served", used.name))?;
                    if found != facts {
                        return Err(format!("{destination} of {facts} reaches {} of {found}", used.name));
                    }
                }
            }
        }
        self.reached += reached;
        self.secrets += secrets;
        Ok(())
    }
}

fn run(names: Names, events: &[Event]) -> Result<Simulation, String> {
    let mut simulation = Simulation::new(names);
    for event in events {
        simulation.take(event);
        simulation.check_destinations()?;
    }
    Ok(simulation)
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 64, max_shrink_iters: 400, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]
    #[test]
    fn generations_never_meet(events in proptest::collection::vec(event_or_refusal(), 1..120)) {
        run(Names::AsTheyAre, &events).map(drop).map_err(TestCaseError::fail)?;
    }

    /// In the end Envoy has what is served, and requests find their way.
    #[test]
    fn generations_end_with_the_newest(events in proptest::collection::vec(event(), 1..80)) {
        let mut simulation = run(Names::AsTheyAre, &events).map_err(TestCaseError::fail)?;
        simulation.envoy.settle();
        simulation.check_destinations().map_err(TestCaseError::fail)?;
        if simulation.object.is_served() {
            let chain = simulation.object.is_passed_on().then(|| simulation.envoy.current_chain()).flatten();
            let current = chain.as_ref().or_else(|| simulation.envoy.current());
            let current = current.ok_or_else(|| TestCaseError::fail("no routes and no chain"))?;
            prop_assert_eq!(simulation.made_of.get(&current.routes), Some(&simulation.object.facts()));
            for target in current.destinations.values() {
                prop_assert!(!simulation.envoy.way(target).is_empty(), "{} leads nowhere", target);
            }
            prop_assert!(simulation.envoy.has_only_what_is_served(type_urls::cluster()));
        }
    }
}

/// An object that was deleted serves no more, though one of its name was created since that cannot be served itself.
#[test]
fn object_that_was_deleted_is_not_served_for_its_successor() {
    let serves = |simulation: &Simulation| simulation.served.resources().any(|(url, ..)| url == type_urls::cluster());
    let mut simulation = Simulation::new(Names::AsTheyAre);
    simulation.take(&Event::Edit(Edit::Wrong));
    assert!(serves(&simulation), "what was accepted last is served");
    simulation.take(&Event::Edit(Edit::Recreate));
    assert!(!serves(&simulation));
    simulation.take(&Event::Edit(Edit::Wrong));
    assert!(serves(&simulation));
}

/// The control plane starts anew after an edit of the listener, and the next edit brings back what Envoy has.
#[test]
fn edit_back_to_what_envoy_has_holds_up_no_removal() {
    use Edit::{Account, HeaderNames, Mode, Wrong};
    let edits = |edits: &[Edit]| edits.iter().copied().map(Event::Edit).collect::<Vec<_>>();
    let mut events = edits(&[Wrong, Wrong]);
    events.push(Event::Run(14));
    events.extend(edits(&[Mode, Account, HeaderNames]));
    events.extend([Event::Restart, Event::Run(6), Event::Edit(HeaderNames)]);
    let mut simulation = run(Names::AsTheyAre, &events).unwrap();
    simulation.envoy.settle();
    assert!(simulation.envoy.has_only_what_is_served(type_urls::cluster()));
}

/// Without generations in names the same property fails: it can.
#[test]
fn generations_without_names_meet() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = proptest::collection::vec(event(), 60..120);
    let meets = (0..200).any(|_| {
        let events = strategy.new_tree(&mut runner).unwrap().current();
        run(Names::WithoutGenerations, &events).is_err()
    });
    assert!(meets);
}

/// The property looks at something.
#[test]
fn generations_are_observed_on_many_ways() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = proptest::collection::vec(event_or_refusal(), 80..120);
    let runs = (0..20).map(|_| run(Names::AsTheyAre, &strategy.new_tree(&mut runner).unwrap().current()).unwrap());
    let (mut reached, mut secrets, mut facts) = (0, 0, BTreeSet::new());
    for simulation in runs {
        reached += simulation.reached;
        secrets += simulation.secrets;
        facts.extend(simulation.made_of.into_values());
    }
    let figures = format!("{reached} ways, {secrets} to secrets, {} generations", facts.len());
    assert!(reached > 20_000 && secrets > 10_000 && facts.len() > 15, "{figures}");
}
