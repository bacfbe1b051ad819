//! The memory that each of many objects takes, stage by stage.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use portcullis_sources::{Watched, watch};

use super::edit_cost::{object, serving};
use super::reconciler::Reconciler;

/// Objects of the measurement.
const OBJECTS: usize = 3_000;

/// Resident memory of this process, KiB.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Prints what was added since the last stage.
struct Stages(usize);

impl Stages {
    fn end(&mut self, stage: &str) {
        let now = resident();
        let each = now.saturating_sub(self.0) as f64 / OBJECTS as f64;
        println!("  {stage}: {each:.1} KiB for each object, {} MiB in all", now / 1_024);
        self.0 = now;
    }
}

#[tokio::test]
#[ignore = "a measurement: cargo test --release --workspace --bins -- --ignored --nocapture memory_of_many"]
async fn memory_of_many_objects_is_measured() {
    let (dir, serving) = (tempfile::tempdir().unwrap(), serving());
    let write = |number: usize, edition: usize| {
        let text = object(number, edition, &serving).to_string();
        fs::write(dir.path().join(format!("c{number:05}.json")), &text).unwrap();
        text.len()
    };
    let bytes: usize = (0..OBJECTS).map(|number| write(number, 0)).sum();
    let settings = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: a}\n";
    fs::write(dir.path().join("settings.yaml"), settings).unwrap();
    println!("{OBJECTS} objects of {:.1} KiB", bytes as f64 / OBJECTS as f64 / 1_024.0);
    let mut stages = Stages(resident());
    let since = Instant::now();
    let mut sets = watch(Watched::directory(dir.path())).await.unwrap();
    println!("  they are read in {:?}", since.elapsed());
    stages.end("read");
    let mut reconciler = Reconciler::resume(None, Duration::ZERO);
    let first = sets.borrow_and_update().clone();
    let mut served = reconciler.reconcile(&first, &BTreeSet::new(), Instant::now()).unwrap();
    assert!(served.snapshot.version_of("c00000.scale.example.com").is_some());
    drop(first);
    stages.end("served");
    for edition in 1..4 {
        write(OBJECTS / 2, edition);
        sets.changed().await.unwrap();
        let set = sets.borrow_and_update().clone();
        served = reconciler.reconcile(&set, &BTreeSet::new(), Instant::now()).unwrap();
        assert!(served.diagnoses.iter().all(|one| one.accepted));
    }
    stages.end("three edits");
    write(OBJECTS, 0);
    sets.changed().await.unwrap();
    let set = sets.borrow_and_update().clone();
    served = reconciler.reconcile(&set, &BTreeSet::new(), Instant::now()).unwrap();
    stages.end("another object");
    assert_eq!(served.diagnoses.iter().filter(|one| one.accepted).count(), OBJECTS + 2);
}
