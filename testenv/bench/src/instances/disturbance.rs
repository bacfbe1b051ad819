//! The load of instance `a`. It ends with its value.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portcullis_harness::client::{ClientPool, LoadProfile, OpenLoopLoad, Outcome, Protocol};

use super::clusters::{self, Clusters, NAMESPACES};
use super::cores::Cores;
use super::phase::Phase;
use super::priority;
use super::site::{NAMESPACES_PATH, TwoInstances};
use super::{HANDSHAKES, Instances};
use crate::error::BenchError;
use crate::pause::pause;

/// The connections of clients: some to each Envoy.
const CLIENTS: u32 = 16;
/// The time for connections, before anything is measured.
const SETTLES: Duration = Duration::from_secs(2);

/// The load of a phase while it runs.
pub(super) enum Disturbance {
    Quiet,
    Requests(OpenLoopLoad),
    Edits(EditStorm),
}

/// The size of a load that has ended.
#[derive(Default)]
pub(super) struct Effort {
    pub(super) requests: Outcome,
    pub(super) edits: u64,
    /// The time of the edits.
    pub(super) took: Duration,
}

/// Edits at a steady rate, on a thread of its own.
pub(super) struct EditStorm {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Effort, BenchError>>>,
}

/// How edits come.
#[derive(Clone, Copy)]
struct EditPace {
    per_minute: u32,
    /// The number that is written at once.
    burst: u32,
    /// The number after which there is none.
    most: u64,
}

impl Disturbance {
    /// Starts the load of a phase and lets it come into effect. None if the control plane refuses the reports of `a`'s agents, without
    /// which limits are no load.
    pub(super) fn start(
        phase: Phase,
        site: &mut TwoInstances,
        options: &Instances,
    ) -> Result<Option<Self>, BenchError> {
        site.edit += 1;
        let this = match phase {
            Phase::Quiet => Disturbance::Quiet,
            Phase::Flood => Disturbance::Requests(flood(site, options)?),
            Phase::Storm => Disturbance::Edits(EditStorm::start(site, options)),
            Phase::Limits => {
                limit(site, options.limits)?;
                if !site.a.gets_parts() {
                    limit(site, 0)?;
                    return Ok(None);
                }
                Disturbance::Requests(limited_requests(site, options)?)
            }
        };
        pause(SETTLES);
        Ok(Some(this))
    }

    /// Ends the load, and waits until nothing of it is left.
    pub(super) fn end(self, phase: Phase, site: &mut TwoInstances) -> Result<Effort, BenchError> {
        let effort = match self {
            Disturbance::Quiet => Effort::default(),
            Disturbance::Requests(load) => Effort { requests: load.stop()?, ..Effort::default() },
            Disturbance::Edits(storm) => storm.end()?,
        };
        site.edit += effort.edits;
        if phase == Phase::Limits {
            limit(site, 0)?;
        } else {
            site.settle()?;
        }
        site.forget()?;
        Ok(effort)
    }
}

/// Requests with a new unknown token each.
fn flood(site: &TwoInstances, options: &Instances) -> Result<OpenLoopLoad, BenchError> {
    let clusters = &site.a.clusters;
    let client = |number: u32| {
        let target = site.stranger(clusters, number % clusters.count);
        // Tokens of an earlier flood are known as wrong ones.
        let tokens = format!("unknown-{}-{number}-", site.edit);
        LoadProfile::new(format!("stranger-{number}"), &target, Protocol::Http2)
            .handshakes(HANDSHAKES)
            .new_tokens(&tokens)
    };
    let lanes: Vec<LoadProfile> = (0..CLIENTS).map(client).collect();
    let path = path(0);
    Ok(pool(options.nice, site.of_a)?.steady(&lanes, &[path.as_str()], options.flood.into())?)
}

/// Requests that each of the limits counts now and then.
fn limited_requests(site: &TwoInstances, options: &Instances) -> Result<OpenLoopLoad, BenchError> {
    let clusters = &site.a.clusters;
    let client = |number: u32| {
        let target = site.alice(clusters, number % clusters.count);
        LoadProfile::new(format!("limited-{number}"), &target, Protocol::Http2).handshakes(HANDSHAKES)
    };
    let lanes: Vec<LoadProfile> = (0..CLIENTS).map(client).collect();
    let paths: Vec<String> = (0..options.limits.clamp(1, NAMESPACES)).map(path).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    Ok(pool(options.nice, site.of_a)?.steady(&lanes, &paths, options.reads)?)
}

/// The path of an object in the namespace of a limit.
fn path(limit: u32) -> String {
    format!("{NAMESPACES_PATH}{}/configmaps/config", clusters::namespace(limit))
}

/// Gives all clusters of `a` so many limits, and waits until its Envoys have them.
fn limit(site: &mut TwoInstances, limits: u32) -> Result<(), BenchError> {
    site.edit += 1;
    for number in 0..site.a.clusters.count {
        site.a.clusters.write(&site.manifests, number, site.edit, limits)?;
    }
    site.settle()
}

/// Threads for clients, of the lowest priority if they are to have it, on the cores of `a` if there are such.
fn pool(is_lowered: bool, cores: Option<Cores>) -> Result<ClientPool, BenchError> {
    let make = move || -> Result<ClientPool, BenchError> {
        place_this_thread(is_lowered, cores)?;
        // Its threads inherit priority and cores.
        Ok(ClientPool::new(2)?)
    };
    let panicked = |_| BenchError::Priority("clients".to_owned(), std::io::Error::other("the thread panicked"));
    std::thread::spawn(make).join().map_err(panicked)?
}

/// Gives the calling thread the place of `a`'s load.
fn place_this_thread(is_lowered: bool, cores: Option<Cores>) -> Result<(), BenchError> {
    cores.map_or(Ok(()), Cores::keep_this_thread)?;
    if is_lowered { priority::lower_this_thread() } else { Ok(()) }
}

impl EditStorm {
    fn start(site: &TwoInstances, options: &Instances) -> Self {
        let seconds = u64::from(options.seconds) + 60;
        let pace =
            EditPace { per_minute: options.storm, burst: options.burst, most: u64::from(options.storm) * seconds / 60 };
        let (clusters, dir, first) = (site.a.clusters.clone(), site.manifests.clone(), site.edit + 1);
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, is_lowered, cores) = (Arc::clone(&is_over), options.nice, site.of_a);
        let thread = std::thread::spawn(move || {
            place_this_thread(is_lowered, cores)?;
            let write = |number| edit(&clusters, &dir, first + number, number);
            pace.run(&over, write)
        });
        EditStorm { is_over, thread: Some(thread) }
    }

    fn end(mut self) -> Result<Effort, BenchError> {
        self.is_over.store(true, Ordering::Release);
        let panicked = |_| BenchError::Unseen;
        self.thread.take().map_or_else(|| Ok(Effort::default()), |thread| thread.join().map_err(panicked)?)
    }
}

impl Drop for EditStorm {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed already.
            let _ = thread.join();
        }
    }
}

/// Edits one cluster after the other.
fn edit(clusters: &Clusters, dir: &std::path::Path, edit: u64, number: u64) -> Result<(), BenchError> {
    let number = number % u64::from(clusters.count.max(1));
    clusters.write(dir, u32::try_from(number).unwrap_or_default(), edit, 0)
}

impl EditPace {
    /// Edits until it is over.
    fn run(self, is_over: &AtomicBool, write: impl Fn(u64) -> Result<(), BenchError>) -> Result<Effort, BenchError> {
        let start = Instant::now();
        let mut written = 0;
        while !is_over.load(Ordering::Acquire) && written < self.most {
            let due = self.due(start.elapsed());
            for number in written..due {
                write(number)?;
            }
            written = written.max(due);
            pause(self.time_of(written + u64::from(self.burst)).saturating_sub(start.elapsed()));
        }
        Ok(Effort { edits: written, took: start.elapsed(), ..Effort::default() })
    }

    /// The number of edits whose time has come.
    fn due(self, since: Duration) -> u64 {
        let burst = u64::from(self.burst.max(1));
        let due = (since.as_secs_f64() * f64::from(self.per_minute) / 60.0) as u64;
        (due / burst * burst).min(self.most)
    }

    /// The time of that edit.
    fn time_of(self, number: u64) -> Duration {
        Duration::from_secs_f64(number as f64 * 60.0 / f64::from(self.per_minute.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::EditPace;

    #[test]
    fn edits_come_at_their_rate_in_bursts_to_their_end() {
        let pace = |burst| EditPace { per_minute: 6_000, burst, most: 1_000 };
        let due = |burst: u32, millis: u64| pace(burst).due(Duration::from_millis(millis));
        assert_eq!([due(1, 0), due(1, 15), due(1, 1_000), due(1, 60_000)], [0, 1, 100, 1_000]);
        assert_eq!([due(20, 190), due(20, 200), due(20, 399)], [0, 20, 20]);
        assert_eq!(pace(1).time_of(100), Duration::from_secs(1));
    }
}
