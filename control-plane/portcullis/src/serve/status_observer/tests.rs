use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use super::world::{Contents, World, diagnosis, instance_diagnoses, named, snapshot};
use super::*;

/// Objects of a test, beside two instances.
const OBJECTS: usize = 4;

/// An event that changes an input.
#[derive(Clone, Debug)]
enum Event {
    /// An edition of each object; 3 is none.
    Objects([u8; OBJECTS]),
    /// Contents of the base and of two instances' views, of a listener, and whether there are the latter.
    Snapshot([[u8; OBJECTS]; 3], u8, bool),
    Toggle(usize),
    Follow,
    Acknowledge,
    /// One answer of one stream.
    Answer(usize, bool),
    Report(usize, [u8; OBJECTS]),
    Silence(usize),
    Repeat(usize, [u8; OBJECTS]),
    Freeze(bool),
    Divide([u8; OBJECTS], bool),
    Discover([u8; OBJECTS]),
    Keys([u8; OBJECTS]),
    Policies([u8; OBJECTS]),
    Shadow(usize, u64),
    Limits([u8; OBJECTS]),
    Written(usize),
}

fn each(most: u8) -> impl Strategy<Value = [u8; OBJECTS]> {
    proptest::array::uniform4(0..most)
}

fn event() -> impl Strategy<Value = Event> {
    let views = proptest::array::uniform3(each(3));
    prop_oneof![
        2 => each(4).prop_map(Event::Objects),
        4 => (views, 0..2_u8, any::<bool>()).prop_map(|(views, listener, divided)| Event::Snapshot(views, listener, divided)),
        3 => (0..4_usize).prop_map(Event::Toggle),
        3 => Just(Event::Follow),
        2 => Just(Event::Acknowledge),
        6 => (0..3_usize, proptest::bool::weighted(0.3)).prop_map(|(stream, refuses)| Event::Answer(stream, refuses)),
        5 => (0..4_usize, each(4)).prop_map(|(node, healthy)| Event::Report(node, healthy)),
        1 => (0..4_usize).prop_map(Event::Silence),
        3 => (0..3_usize, each(4)).prop_map(|(node, answers)| Event::Repeat(node, answers)),
        1 => any::<bool>().prop_map(Event::Freeze),
        2 => (each(4), any::<bool>()).prop_map(|(owners, is_served)| Event::Divide(owners, is_served)),
        2 => each(3).prop_map(Event::Discover),
        2 => each(3).prop_map(Event::Keys),
        2 => each(3).prop_map(Event::Policies),
        2 => (0..OBJECTS, 1..200_u64).prop_map(|(number, judged)| Event::Shadow(number, judged)),
        2 => each(4).prop_map(Event::Limits),
        1 => (0..OBJECTS).prop_map(Event::Written),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(), 1..40)
}

/// Two observers of one world: the one follows changes, the other one observes everything each time.
struct Pair {
    world: World,
    following: StatusObserver,
    anew: StatusObserver,
    editions: [u8; OBJECTS],
    seconds: u64,
}

impl Pair {
    fn new() -> Self {
        let world = World::new();
        let (following, anew) = (world.observer(), world.observer());
        Self { world, following, anew, editions: [3; OBJECTS], seconds: 0 }
    }

    fn take(&mut self, event: &Event) {
        let world = &mut self.world;
        match event {
            Event::Objects(editions) => self.edit(*editions),
            Event::Snapshot(views, listener, is_divided) => {
                let views: [Contents; 3] = views.map(Vec::from);
                world.snapshots.send_replace(Some(Arc::new(snapshot(&views, *listener, *is_divided))));
            }
            Event::Toggle(view) => world.toggle(*view),
            Event::Follow => world.follow(),
            Event::Acknowledge => world.acknowledge(),
            Event::Answer(stream, refuses) => {
                if let Some(stream) = world.streams.get_mut(stream) {
                    stream.answer(*refuses);
                }
            }
            Event::Report(node, healthy) => world.report(*node, healthy, Duration::ZERO),
            Event::Silence(node) => {
                world.report(*node, &[1; OBJECTS], HealthRegistry::MAX_AGE + Duration::from_secs(1))
            }
            Event::Repeat(node, answers) => world.repeat(*node, answers),
            Event::Freeze(is_now) => world.freeze(Duration::from_secs(if *is_now { 0 } else { 120 })),
            Event::Divide(owners, is_served) => world.divide(owners, *is_served),
            Event::Discover(counts) => {
                drop(world.answers.send_replace(Arc::new(Answers::of_counts(&named(counts, |count| count)))))
            }
            Event::Keys(editions) => {
                let keys = KeysByObject::of_sources(&named(editions, |edition| format!("source {edition}")));
                world.token_keys.send_replace(Arc::new(keys));
            }
            Event::Policies(editions) => {
                let verdicts = PolicyVerdicts::on_clusters(&named(editions, |edition| format!("reason {edition}")));
                world.policies.send_replace(Arc::new(verdicts));
            }
            Event::Shadow(number, judged) => world.shadow(*number, *judged),
            Event::Limits(gateways) => world.limit(gateways),
            Event::Written(number) => {
                let condition = Condition {
                    kind: portcullis_api::status::ConditionType::Accepted,
                    status: portcullis_api::status::State::True,
                    reason: String::new(),
                    message: String::new(),
                    last_transition_time: Timestamp::from_seconds(7),
                    observed_generation: None,
                };
                for observer in [&self.following, &self.anew] {
                    observer.remember((CLUSTER_KIND, &super::world::cluster(*number)), "", vec![condition.clone()]);
                }
            }
        }
    }

    /// Each diagnosis of an edition that stays is the same allocation.
    fn edit(&mut self, editions: [u8; OBJECTS]) {
        let before = self.world.diagnoses.borrow().clone();
        let known = |number: usize, edition: u8| {
            let name = super::world::cluster(number);
            let is_it = |one: &&Arc<Diagnosis>| one.name == name && self.editions[number] == edition;
            before.iter().find(is_it).cloned().unwrap_or_else(|| diagnosis(number, edition))
        };
        let there = editions.into_iter().enumerate().filter(|(_, edition)| *edition < 3);
        let mut diagnoses: Vec<_> = there.map(|(number, edition)| known(number, edition)).collect();
        let instances: Vec<_> = before.iter().filter(|one| one.kind != CLUSTER_KIND).cloned().collect();
        diagnoses.extend(if instances.is_empty() { instance_diagnoses() } else { instances });
        self.editions = editions;
        self.world.diagnoses.send_replace(Arc::new(diagnoses));
    }

    /// The bodies of both, observed at the same time.
    fn look(&mut self, comparisons: &[(&str, Comparison)]) -> [Value; 2] {
        self.seconds += 1;
        let now = Timestamp::from_seconds(self.seconds);
        let followed = self.following.observe(&mut self.following.lock(), comparisons, &now);
        let mut state = self.anew.lock();
        state.inputs = None;
        let anew = self.anew.observe(&mut state, &COMPARISONS, &now);
        [followed, anew].map(|body| serde_json::to_value(&*body).unwrap())
    }
}

/// The first place at which the statuses are two, if there is one.
fn difference(events: &[Event], comparisons: &[(&str, Comparison)]) -> Option<String> {
    let mut pair = Pair::new();
    for (place, event) in events.iter().enumerate() {
        pair.take(event);
        // Some events come together.
        if place % 3 != 2 {
            let [followed, anew] = pair.look(comparisons);
            if followed != anew {
                return Some(format!("{place} {event:?}:\n{followed}\n{anew}"));
            }
        }
    }
    None
}

proptest! {
    #[test]
    fn followed_status_is_the_status_observed_anew(events in events()) {
        if let Some(difference) = difference(&events, &COMPARISONS) {
            prop_assert!(false, "{}", difference);
        }
    }
}

/// A comparison that is left out is missed: so the property is about each of them.
#[test]
fn status_needs_the_comparison_of_each_input() {
    let mut runner = TestRunner::deterministic();
    let all: Vec<Vec<Event>> = (0..1_500).map(|_| events().new_tree(&mut runner).unwrap().current()).collect();
    let is_missed = |left_out: &usize| {
        let others: Vec<_> =
            COMPARISONS.into_iter().enumerate().filter(|(place, _)| place != left_out).map(|(_, one)| one).collect();
        !all.iter().any(|events| difference(events, &others).is_some())
    };
    let needless: Vec<&str> = (0..COMPARISONS.len()).filter(is_missed).map(|place| COMPARISONS[place].0).collect();
    assert_eq!(needless, [""; 0]);
}

#[test]
fn observation_without_a_change_is_the_one_before() {
    let mut pair = Pair::new();
    let views = [[1, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]];
    for event in [
        Event::Objects([1, 1, 2, 1]),
        Event::Snapshot(views, 0, true),
        Event::Divide([0, 0, 1, 2], true),
        Event::Toggle(0),
        Event::Toggle(1),
        Event::Acknowledge,
        Event::Report(0, [1; OBJECTS]),
        Event::Repeat(1, [2; OBJECTS]),
        Event::Shadow(2, 9),
        Event::Limits([2; OBJECTS]),
    ] {
        pair.take(&event);
    }
    let observe = |seconds| {
        let now = Timestamp::from_seconds(seconds);
        pair.following.observe(&mut pair.following.lock(), &COMPARISONS, &now)
    };
    let first = observe(1);
    assert!(Arc::ptr_eq(&first, &observe(2)));
    pair.world.report(0, &[1; OBJECTS], Duration::ZERO);
    pair.world.divide(&[0, 0, 1, 2], true);
    let observe =
        |seconds| pair.following.observe(&mut pair.following.lock(), &COMPARISONS, &Timestamp::from_seconds(seconds));
    assert!(Arc::ptr_eq(&first.objects, &observe(3).objects), "the same again");
    pair.world.report(0, &[0, 1, 1, 1], Duration::ZERO);
    let newer = observe(4);
    let changed = newer.objects.changed_names(&first.objects);
    assert_eq!(changed.into_iter().collect::<Vec<_>>(), [super::world::cluster(0)]);
}
