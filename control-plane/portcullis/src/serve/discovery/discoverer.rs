use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use kube::Client;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until, timeout};

use super::super::metrics::{ControlPlaneMetrics, DiscoveryCounts};
use super::answers::Answers;
use super::report::{Reporter, SourceReport, TaskReport};
use super::service::FollowedService;
use super::srv::{self, Nameservers};
use super::want::{Want, WantedSource, Wants};
use super::{saved, service, upstream};

/// Time to wait for the rest of a burst of changes.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// The pause after a publication: a list that flaps costs no more than five configurations a second.
const PAUSE: Duration = Duration::from_millis(200);
/// How long new wants may hold a configuration back until their sources have answered.
const FIRST_ANSWERS: Duration = Duration::from_secs(2);
/// How much longer they may do so before the first configuration of the process: gateways have one with servers, which a control
/// plane without a memory must not take away because a source is slow or away as it starts.
const AT_START: Duration = Duration::from_secs(28);
/// How often an object's new source that does not answer may hold back a configuration, which is one of all objects.
const ONCE_IN: Duration = Duration::from_secs(60);
/// Messages of the tasks that may wait.
const QUEUE: usize = 64;

/// The sources that have to be watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Demanded {
    pub(super) wants: Arc<Wants>,
    /// Whether the Services of Gateways are among them. Before the first verdicts about Gateways these are not known.
    is_whole: bool,
}

/// The reconciler's end: wants go in, answers come out.
pub(in super::super) struct DiscoveryHandle {
    demanded: watch::Sender<Demanded>,
    pub(in super::super) answers: watch::Receiver<Arc<Answers>>,
    /// Whether a configuration was waited for.
    is_started: bool,
    /// When a source of each object was waited for last, in vain.
    awaited: BTreeMap<String, Instant>,
}

impl DiscoveryHandle {
    /// Has these objects' sources watched; `is_whole` says whether those of Gateways are among them. Returns whether there are answers that the caller has not seen: new wants of objects
    /// without another server are waited for, so that none loses its written servers before the discovered ones are known.
    pub(in super::super) async fn want(&mut self, wants: &Arc<Wants>, is_whole: bool) -> bool {
        let is_start = !std::mem::replace(&mut self.is_started, true);
        let before = self.demanded.borrow().clone();
        let newest = Demanded { wants: Arc::clone(wants), is_whole };
        if before == newest {
            return false;
        }
        self.demanded.send_replace(newest);
        let is_known = |want: &Want| before.wants.get(want.name()).is_some_and(|known| known.is_of_source(want));
        let now = Instant::now();
        self.awaited.retain(|name, at| wants.contains_key(name) || now.duration_since(*at) < ONCE_IN);
        let is_due = |want: &Want| self.awaited.get(want.name()).is_none_or(|at| now.duration_since(*at) >= ONCE_IN);
        let awaited: Vec<_> = wants.values().filter(|want| want.is_sole && !is_known(want) && is_due(want)).collect();
        if self.answers.borrow().are_complete(awaited.iter().copied()) {
            return false;
        }
        let complete = self.answers.wait_for(|answers| answers.are_complete(awaited.iter().copied()));
        if timeout(FIRST_ANSWERS, complete).await.is_err() {
            let answers = self.answers.borrow().clone();
            let missing = awaited.iter().filter(|want| !answers.are_complete([**want]));
            self.awaited.extend(missing.map(|want| (want.name().to_owned(), now)));
        }
        if is_start {
            let elsewhere = || awaited.iter().copied().filter(|want| !want.asks_upstream());
            let complete = self.answers.wait_for(|answers| answers.are_complete(elsewhere()));
            if timeout(AT_START, complete).await.is_err() {
                tracing::error!(
                    "not all Services and SRV records with servers of objects are known: these objects are served without any"
                );
            }
        }
        true
    }
}

/// Runs a task for each want, and keeps the last answers.
pub(in super::super) struct Discoverer {
    kubernetes: Option<Client>,
    nameservers: Nameservers,
    /// For questions to them.
    turns: Arc<Semaphore>,
    state_dir: Option<PathBuf>,
    metrics: Arc<ControlPlaneMetrics>,
    pub(super) demanded: watch::Receiver<Demanded>,
    /// See [`Demanded`].
    pub(super) is_whole: bool,
    pub(super) answers: Answers,
    pub(super) published: watch::Sender<Arc<Answers>>,
    /// By the names that their sources have for them.
    tasks: BTreeMap<String, SourceTask>,
    /// How many tasks were started.
    starts: u64,
}

/// A task that follows a source. The wants of several ports of a Service share one.
struct SourceTask {
    wants: Vec<Arc<Want>>,
    start: u64,
    task: JoinHandle<()>,
}

impl Discoverer {
    /// `kubernetes` is where Services are found, `nameservers` where SRV records are; the answers of the last run are in `state_dir`.
    pub(in super::super) fn new(
        kubernetes: Option<Client>,
        nameservers: Nameservers,
        state_dir: Option<PathBuf>,
        metrics: Arc<ControlPlaneMetrics>,
    ) -> (DiscoveryHandle, Self) {
        let by_name = state_dir.as_deref().map(saved::load).unwrap_or_default();
        let answers = Answers { by_name, has_kubernetes: kubernetes.is_some() };
        let (published, receiver) = watch::channel(Arc::new(answers.clone()));
        let (sender, demanded) = watch::channel(Demanded::default());
        let handle =
            DiscoveryHandle { demanded: sender, answers: receiver, is_started: false, awaited: BTreeMap::new() };
        (
            handle,
            Self {
                kubernetes,
                nameservers,
                turns: Arc::new(Semaphore::new(srv::NAMES_AT_A_TIME)),
                state_dir,
                metrics,
                demanded,
                is_whole: false,
                answers,
                published,
                tasks: BTreeMap::new(),
                starts: 0,
            },
        )
    }

    /// Runs until the handle is gone.
    pub(in super::super) async fn run(mut self) {
        let (sender, mut found) = mpsc::channel(QUEUE);
        loop {
            let settlement = self.answers.next_settlement();
            let settling = sleep_until(settlement.unwrap_or_else(Instant::now).into());
            tokio::select! {
                () = settling, if settlement.is_some() => self.settle(),
                changed = self.demanded.changed() => {
                    if changed.is_err() {
                        return self.stop();
                    }
                    let Demanded { wants, is_whole } = self.demanded.borrow_and_update().clone();
                    self.is_whole = is_whole;
                    self.follow(&wants, &sender);
                }
                Some(report) = found.recv() => self.take(report),
            }
            let burst = sleep(DEBOUNCE);
            tokio::pin!(burst);
            loop {
                tokio::select! {
                    () = &mut burst => break,
                    Some(report) = found.recv() => self.take(report),
                }
            }
            if self.publish().await {
                sleep(PAUSE).await;
            }
        }
    }

    fn stop(self) {
        self.tasks.values().for_each(|running| running.task.abort());
    }

    /// Starts what is wanted anew, and ends what is not wanted any more.
    pub(super) fn follow(&mut self, wants: &Wants, sender: &mpsc::Sender<TaskReport>) {
        let kept = if self.is_whole { BTreeMap::new() } else { self.answers.of_gateways() };
        self.answers.follow(wants, SystemTime::now());
        self.answers.by_name.extend(kept);
        let mut wanted: BTreeMap<&str, Vec<Arc<Want>>> = BTreeMap::new();
        for want in wants.values() {
            wanted.entry(want.key.task()).or_default().push(Arc::clone(want));
        }
        self.tasks.retain(|name, running| {
            let is_wanted = wanted.get(name.as_str()) == Some(&running.wants);
            if !is_wanted {
                running.task.abort();
            }
            is_wanted
        });
        for (name, wants) in wanted {
            if self.tasks.contains_key(name) {
                continue;
            }
            self.starts += 1;
            let start = self.starts;
            if let Some(task) = self.start(&wants, start, sender) {
                self.tasks.insert(name.to_owned(), SourceTask { wants, start, task });
            }
        }
    }

    fn start(&self, wants: &[Arc<Want>], start: u64, sender: &mpsc::Sender<TaskReport>) -> Option<JoinHandle<()>> {
        let want = wants.first()?;
        let to = |want: &Want| Reporter::new(want.key.clone(), start, sender.clone());
        match &want.source {
            WantedSource::Service { namespace, name, uid, .. } => {
                let client = self.kubernetes.clone()?;
                let port = |want: &Arc<Want>| match &want.source {
                    WantedSource::Service { port, .. } => Some((port.clone(), to(want))),
                    WantedSource::Upstream(_) | WantedSource::Srv(_) => None,
                };
                let ports = wants.iter().filter_map(port).collect();
                let followed = FollowedService { name: name.clone(), uid: uid.clone(), ports };
                Some(tokio::spawn(service::follow(client, namespace.clone(), followed)))
            }
            WantedSource::Upstream(access) => {
                let last = self.answers.by_name.get(&want.key.name).map(|answer| answer.servers.clone());
                let last = last.unwrap_or_default();
                Some(tokio::spawn(upstream::follow(access.clone(), want.allow_loopback, last, to(want))))
            }
            WantedSource::Srv(name) => {
                let turns = Arc::clone(&self.turns);
                Some(tokio::spawn(srv::follow(self.nameservers.clone(), turns, name.clone(), to(want))))
            }
        }
    }

    pub(super) fn take(&mut self, TaskReport { key, start, found }: TaskReport) {
        let running = self.tasks.get(key.task()).filter(|running| running.start == start);
        let want = running.and_then(|running| running.wants.iter().find(|want| want.key == key));
        let Some(want) = want else { return };
        let Some(answer) = self.answers.by_name.get_mut(&key.name).filter(|answer| answer.key == key) else { return };
        match found {
            SourceReport::Servers(found) => {
                answer.take(found, want.allow_loopback, (SystemTime::now(), Instant::now()))
            }
            SourceReport::Failed(why) => answer.fail(why, SystemTime::now()),
        }
    }

    fn settle(&mut self) {
        for answer in self.answers.by_name.values_mut() {
            answer.settle((SystemTime::now(), Instant::now()));
        }
    }

    /// Returns whether there was something new.
    async fn publish(&mut self) -> bool {
        let servers_before = self.published.borrow().servers();
        let servers = self.answers.servers();
        let is_object = |name: &str| self.answers.by_name.get(name).is_some_and(|one| !one.key.is_of_gateways());
        let is_changed = |name: &str, now: &Vec<_>| servers_before.get(name).is_some_and(|before| before != now);
        let changes = servers.iter().filter(|(name, now)| is_object(name) && is_changed(name, now));
        self.metrics.discovered(DiscoveryCounts { changes: changes.count(), ..self.answers.counts() });
        let is_new = self.published.send_if_modified(|published| {
            let is_new = **published != self.answers;
            if is_new {
                self.answers.log(published);
                *published = Arc::new(self.answers.clone());
            }
            is_new
        });
        if let Some(directory) = self.state_dir.clone().filter(|_| servers_before != servers) {
            saved::save(directory, self.answers.by_name.clone()).await;
        }
        is_new
    }
}
