//! The cost of observing many objects.

use std::time::Duration;

use super::world::{World, diagnosis, snapshot};
use super::*;

/// Objects, edits in a second and rounds of the measurement. An edit is that of one object.
const OBJECTS: usize = 10_000;
const EDITS: usize = 10;
const ROUNDS: u32 = 20;

/// The processor time of this thread: others use the machine, too.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().and_then(|spent| spent.parse().ok()).unwrap())
}

/// A world of two Envoys that have everything, and of an agent that reports.
struct Measured {
    world: World,
    observer: StatusObserver,
    contents: Vec<u8>,
    diagnoses: Vec<Arc<Diagnosis>>,
}

impl Measured {
    fn new() -> Self {
        let world = World::new();
        let observer = world.observer();
        let diagnoses = (0..OBJECTS).map(|number| diagnosis(number, 1)).collect();
        let mut this = Self { world, observer, contents: vec![1; OBJECTS], diagnoses };
        this.serve();
        this.world.toggle(0);
        this.world.acknowledge();
        this.world.report(0, &vec![2; OBJECTS], Duration::ZERO);
        this
    }

    fn serve(&mut self) {
        let newer = Arc::new(snapshot(&[self.contents.clone(), Vec::new(), Vec::new()], 0, false));
        self.world.snapshots.send_replace(Some(newer));
        self.world.diagnoses.send_replace(Arc::new(self.diagnoses.clone()));
        self.world.follow();
    }

    /// The processor time of an observation.
    fn observe(&self) -> Duration {
        let begin = cpu();
        drop(self.observer.observe(&mut self.observer.lock(), &COMPARISONS, &Timestamp::from_seconds(1)));
        cpu() - begin
    }
}

#[test]
#[ignore = "a measurement: cargo test --release --workspace --bins -- --ignored --nocapture status_cost"]
fn status_cost_of_many_objects_is_measured() {
    let mut measured = Measured::new();
    println!("{OBJECTS} objects: the first observation takes {:?}", measured.observe());
    let at_rest: Duration = (0..ROUNDS).map(|_| measured.observe()).sum();
    println!("  at rest: {:?}", at_rest / ROUNDS);
    measured.observer.lock().inputs = None;
    println!("  everything anew: {:?}", measured.observe());
    let mut with_edits = Duration::ZERO;
    for round in 0..ROUNDS {
        for edit in 0..EDITS {
            let number = (round as usize * 37 + edit * 991) % OBJECTS;
            measured.contents[number] = measured.contents[number] % 2 + 1;
            measured.diagnoses[number] = diagnosis(number, 1);
        }
        measured.serve();
        // Once while Envoys have yet to answer, and once after.
        with_edits += measured.observe();
        measured.world.acknowledge();
        with_edits += measured.observe();
    }
    println!("  {EDITS} edits: {:?}", with_edits / ROUNDS);
    let mut with_health = Duration::ZERO;
    for round in 0..ROUNDS {
        let mut healthy = vec![2; OBJECTS];
        healthy[round as usize] = 1;
        measured.world.report(0, &healthy, Duration::ZERO);
        with_health += measured.observe();
    }
    println!("  a report of another health: {:?}", with_health / ROUNDS);
}
