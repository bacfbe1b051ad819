//! The memory that each of many objects takes, stage by stage.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use portcullis_sources::{Watched, watch};
use portcullis_translate::type_urls;
use portcullis_xds::Snapshot;
use portcullis_xds::testing::InMemoryStream;

use super::edit_cost::{object, serving};
use super::reconciler::Reconciler;

/// Objects of the measurement, and of the test of its bound.
const OBJECTS: usize = 3_000;
const FEW_OBJECTS: usize = 400;
/// Most KiB that an object may take, with one stream that has all: a quarter more than it took when this was written.
const MOST_OF_OBJECT: f64 = 105.0;

/// Resident memory of this process but for that of files, KiB: the pages of its own program are more than thousands of objects.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Prints what was added since the last stage.
struct Stages {
    objects: usize,
    before: usize,
}

impl Stages {
    fn end(&mut self, stage: &str) {
        let now = resident();
        let each = now.saturating_sub(self.before) as f64 / self.objects as f64;
        println!("  {stage}: {each:.1} KiB for each object, {} MiB in all", now / 1_024);
        self.before = now;
    }
}

/// A stream that has taken everything, as an Envoy does whose requests use every pool.
fn synced(snapshot: Arc<Snapshot>) -> InMemoryStream {
    let mut stream = InMemoryStream::new(Arc::clone(&snapshot));
    let urls = [
        type_urls::cluster(),
        type_urls::assignment(),
        type_urls::secret(),
        type_urls::listener(),
        type_urls::route_configuration(),
    ];
    let mut inbox: VecDeque<DeltaDiscoveryResponse> = VecDeque::new();
    for url in urls {
        let is_whole = url == type_urls::listener();
        let names = snapshot.names(url).filter(|_| !is_whole).map(str::to_owned).collect();
        let request =
            DeltaDiscoveryRequest { type_url: url.to_owned(), resource_names_subscribe: names, ..Default::default() };
        inbox.extend(stream.on_request(request));
        while let Some(DeltaDiscoveryResponse { type_url, nonce, .. }) = inbox.pop_front() {
            let answer = DeltaDiscoveryRequest { type_url, response_nonce: nonce, ..Default::default() };
            inbox.extend(stream.on_request(answer));
        }
    }
    stream
}

#[tokio::test]
#[ignore = "a measurement: cargo test --release --workspace --bins -- --ignored --nocapture memory_of_many"]
async fn memory_of_many_objects_is_measured() {
    measure(OBJECTS).await;
}

/// In a process of its own, as other tests need memory, too.
#[test]
fn memory_of_an_object_is_bounded() {
    let alone = ["--exact", "serve::memory_cost::few_objects_take_little", "--ignored", "--nocapture"];
    let output = Command::new(std::env::current_exe().unwrap()).args(alone).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, trouble) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && told.contains("1 passed"), "{told}{trouble}");
}

#[tokio::test]
#[ignore = "measures the memory of its process, and is run in one of its own"]
async fn few_objects_take_little() {
    let each = measure(FEW_OBJECTS).await;
    assert!(each < MOST_OF_OBJECT, "{each:.1} KiB for each object");
}

/// KiB of each object, with one stream that has all.
async fn measure(objects: usize) -> f64 {
    let (dir, serving) = (tempfile::tempdir().unwrap(), serving());
    let write = |number: usize, edition: usize| {
        let text = object(number, edition, &serving).to_string();
        fs::write(dir.path().join(format!("c{number:05}.json")), &text).unwrap();
        text.len()
    };
    let bytes: usize = (0..objects).map(|number| write(number, 0)).sum();
    let settings = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: a}\n";
    fs::write(dir.path().join("settings.yaml"), settings).unwrap();
    println!("{objects} objects of {:.1} KiB", bytes as f64 / objects as f64 / 1_024.0);
    let begin = resident();
    let mut stages = Stages { objects, before: begin };
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
    let stream = synced(Arc::new(served.snapshot.clone()));
    stages.end("a stream");
    let each = resident().saturating_sub(begin) as f64 / objects as f64;
    drop(stream);
    for edition in 1..4 {
        write(objects / 2, edition);
        sets.changed().await.unwrap();
        let set = sets.borrow_and_update().clone();
        served = reconciler.reconcile(&set, &BTreeSet::new(), Instant::now()).unwrap();
        assert!(served.diagnoses.iter().all(|one| one.accepted));
    }
    stages.end("three edits");
    write(objects, 0);
    sets.changed().await.unwrap();
    let set = sets.borrow_and_update().clone();
    served = reconciler.reconcile(&set, &BTreeSet::new(), Instant::now()).unwrap();
    stages.end("another object");
    assert_eq!(served.diagnoses.iter().filter(|one| one.accepted).count(), objects + 2);
    each
}
