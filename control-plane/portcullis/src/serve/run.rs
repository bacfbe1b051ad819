use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use portcullis_limits_store::AddressError;
use portcullis_xds::{HealthRegistry, Registry, ServeError, ServerState, TlsError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::arguments::Serve;
use super::console::{Console, LiveData};
use super::discovery::Discoverer;
use super::edit_traces::{EditTraces, StreamObserver, TracingError};
use super::filter_views::FilterViews;
use super::fleet::{Fleet, ServedObjects};
use super::gateway_api::GatewayApi;
use super::gateway_health;
use super::gateway_views::{GatewayEnvoys, GatewayLink};
use super::http::{AllowedHosts, Probes, router};
use super::limit_reports::LimitReports;
use super::limits::{Divider, Reports};
use super::metrics::ControlPlaneMetrics;
use super::reconcile_loop::{Outputs, ReconcileLoop};
use super::shadow_reports::ShadowReports;
use super::source::SourceState;
use super::source::{FollowedOutputs, Source, SourceError, SourceKind};
use super::state::{LastGood, StateArguments, StateSender, StateWriter};
use super::status_observer::{ObserverInputs, StatusObserver};
use super::token_keys::{KeyFile, KeyFileWriting, with_token_keys};
use super::watchdog::Watchdog;
use super::writer::{SettingsUse, Writer};
use super::xds::XdsError;
use crate::leader::{Leadership, Timing, campaign};
use crate::listen;
use crate::runtime::{RuntimeError, Threads, runtime};
use crate::service_manager::ServiceManager;
use crate::stop_signals::StopSignals;

/// The time limit for open connections to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// Descriptors that the bounds of xDS and the status pages leave room for.
const MAX_DESCRIPTORS: u64 = 24_576;

/// Why the control plane cannot start or go on. The operator has to act.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("cannot listen for signals")]
    Signal(#[source] io::Error),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Listeners(#[from] XdsError),
    #[error("cannot listen at {0}")]
    Http(SocketAddr, #[source] io::Error),
    #[error("cannot use the certificate of the HTTP address")]
    PageTls(#[from] TlsError),
    #[error("the status pages failed")]
    Pages(#[source] io::Error),
    #[error(transparent)]
    Xds(#[from] ServeError),
    #[error("--limits-store cannot be used: it {0}")]
    LimitsStore(#[from] AddressError),
    #[error(transparent)]
    Tracing(#[from] TracingError),
}

pub(crate) fn run(arguments: &Serve) -> ExitCode {
    match runtime(Threads::PerCore).map_err(RunError::Runtime).and_then(|runtime| runtime.block_on(serve(arguments))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::fail(&error),
    }
}

async fn serve(arguments: &Serve) -> Result<(), RunError> {
    let mut stop_signals = StopSignals::new().map_err(RunError::Signal)?;
    raise_descriptors();
    let manager = Arc::new(ServiceManager::from_environment());
    let last_good = arguments.state.state_dir.as_deref().map(LastGood::load).unwrap_or_default();
    let (instance_sender, instances) = watch::channel(Arc::default());
    let (doors_sender, doors_served) = watch::channel(0);
    let followed = FollowedOutputs { instances: instances.clone(), doors_served };
    let source = Source::open(&arguments.source, last_good.snapshot.is_some(), followed).await?;
    let listeners = arguments.xds.open().await?;
    let page_tls = arguments.http.tls()?;
    let failed = |error| RunError::Http(arguments.http.http_address, error);
    let listener = TcpListener::bind(arguments.http.http_address).await.map_err(failed)?;
    let http_address = listener.local_addr().map_err(failed)?;
    tracing::info!(%http_address, "listening");

    let (snapshot_sender, snapshots) = watch::channel(None);
    let (diagnosis_sender, diagnoses) = watch::channel(Arc::default());
    let (served_sender, served_objects) = watch::channel(Arc::default());
    let metrics = Arc::new(ControlPlaneMetrics::default());
    let traces = EditTraces::start(&arguments.tracing)?;
    let observed = StreamObserver { metrics: Arc::clone(&metrics), traces: traces.clone() };
    let registry = Arc::new(Registry::with_metrics(Arc::new(observed)));
    let watchdog = Arc::new(Watchdog::new(Instant::now()));
    let health = Arc::new(HealthRegistry::default());
    let lease_name = arguments.source.lease_name.as_str();
    let (limits, limits_leadership) =
        Divider::start(&arguments.limits, (&source, lease_name), &served_objects, &metrics)?;
    let (_always, wanted) = watch::channel(true);
    let leadership = source.kubernetes.as_ref().map(|access| campaign(access, lease_name, Timing::CONTROLLER, wanted));
    let kubernetes = source.kubernetes.as_ref().map(|access| access.client.clone());
    let (discovery, discoverer) =
        Discoverer::new(kubernetes, arguments.nameservers(), arguments.state.state_dir.clone(), Arc::clone(&metrics));
    let shadows = Arc::new(ShadowReports::default());
    let (token_key_sender, token_keys) = watch::channel(Arc::default());
    let key_interval = arguments.token_keys_interval;
    let key_file = arguments.state.state_dir.clone().map(|directory| KeyFile::open(directory, Arc::clone(&metrics)));
    let (key_file, keys_writing) = key_file.unzip();
    let of_objects: watch::Receiver<Arc<ServedObjects>> = served_objects.clone();
    let limit_reports = Arc::new(LimitReports::new(move || Arc::clone(of_objects.borrow().limited())));
    let observer = Arc::new(StatusObserver::new(ObserverInputs {
        diagnoses: diagnoses.clone(),
        snapshots: snapshots.clone(),
        instances: instances.clone(),
        registry: Arc::clone(&registry),
        health: Arc::clone(&health),
        gateway_health_pace: gateway_health::PACE,
        source: SourceState::new(&source, leadership.as_ref(), limits_leadership.as_ref()),
        answers: discovery.answers.clone(),
        shadows: Arc::clone(&shadows),
        token_keys,
        limits: Arc::clone(&limit_reports),
        policies: source.policies.clone(),
    }));
    let fleet = Arc::new(Fleet::new(Arc::clone(&observer), served_objects, shadows, limit_reports));
    let hosts = Arc::new(AllowedHosts::new(&arguments.http.http_hosts));
    let mut tasks = vec![tokio::spawn(Arc::clone(&observer).watch()), tokio::spawn(Arc::clone(&fleet).watch())];
    tasks.push(tokio::spawn(discoverer.run()));
    let views = Arc::new(FilterViews::default());
    let mut gateways = GatewayLink::without_gateways(views.claims());
    if let (Some(access), Some(leadership)) = (&source.kubernetes, &leadership) {
        let (client, leads, statuses) = (access.client.clone(), leadership.leads.clone(), source.statuses.clone());
        let gateway_api = source.gateway_api.clone().map(|objects| {
            let (diagnoses, statuses) = (diagnoses.clone(), source.statuses.clone());
            let (access, settings) = (access.clone(), source.settings.clone());
            let (envoys, link) = GatewayEnvoys::new(&views.claims(), Arc::clone(&registry));
            let envoys = envoys.with_reports(Arc::clone(&health));
            gateways = link;
            let (policies, instances, leads) = (source.policies.clone(), instances.clone(), leads.clone());
            let api = GatewayApi {
                access,
                objects,
                diagnoses,
                statuses,
                settings,
                envoys,
                policies,
                instances,
                metrics: Arc::clone(&metrics),
                leads,
            };
            api.start()
        });
        let settings = SettingsUse::new(source.settings.clone(), source.control_plane.clone());
        let (observer, policies) = (Arc::clone(&observer), source.policies.clone());
        let writer = Writer { client, leads, statuses, diagnoses, observer, settings, gateway_api, policies };
        tasks.push(tokio::spawn(writer.run()));
    }
    let probes = Probes {
        snapshots: snapshots.clone(),
        registry: Arc::clone(&registry),
        reports: Arc::clone(&health),
        metrics: Arc::clone(&metrics),
        watchdog: Arc::clone(&watchdog),
        health: source.health.clone(),
    };
    tasks.push(tokio::spawn(announce(Arc::clone(&manager), snapshots.clone(), Arc::clone(&watchdog))));
    let objects = Arc::new(OnceLock::new());
    let data = LiveData { fleet: Arc::clone(&fleet), observer, objects: Arc::clone(&objects) };
    let console = Console::new(data, &arguments.http.login(&source));
    tasks.push(tokio::spawn(console.clone().review_sessions()));
    let pages = router(console, hosts, probes);
    let (state, mut writing) = save_state(&arguments.state, &metrics);
    let outputs = Outputs {
        snapshots: snapshot_sender,
        diagnoses: diagnosis_sender,
        served: served_sender,
        instances: instance_sender,
        doors_served: doors_sender,
        metrics,
        watchdog: Arc::clone(&watchdog),
        state,
        traces: traces.map(|traces| (traces, Arc::clone(&registry))),
    };
    let trusts_empty_source = source.kind == SourceKind::Kubernetes;
    let grace = arguments.revoked_reference_grace;
    let mut reconcile_loop = ReconcileLoop::new(outputs, last_good, trusts_empty_source, grace, discovery, gateways);
    if let Some(leadership) = &leadership {
        reconcile_loop.follow_leader(leadership.leads.clone());
    }
    let filters = views.wanted();
    let follow = tokio::spawn(async move {
        let work = async {
            if let Some(sets) = source.sets.await {
                let sets = with_token_keys(sets, key_interval, token_key_sender, key_file).await;
                // It is set once.
                let _ = objects.set(sets.clone());
                reconcile_loop.run(sets, filters).await;
            }
        };
        watchdog.watch(work).await;
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async {
        // An error means that the other end is gone, which is the end as well.
        let _ = stopped.await;
    };
    let served = ServerState { snapshots, registry, health, views, reports: Some(Arc::new(Reports { fleet, limits })) };
    let mut xds = tokio::spawn(portcullis_xds::serve(listeners, served, shutdown));
    tokio::select! {
        () = stop_signals.recv() => {}
        ended = &mut xds => return ended.map_err(|error| RunError::Pages(io::Error::other(error)))?.map_err(RunError::Xds),
        () = listen::serve(listener, pages, page_tls) => {}
    }
    tracing::info!("stopping");
    manager.stopping();
    // Takes the sender of snapshots with it, at which every stream ends.
    follow.abort();
    tasks.iter().for_each(JoinHandle::abort);
    // The last change is written before the end.
    let keys_written = futures_util::future::join_all(keys_writing.map(KeyFileWriting::end));
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, futures_util::future::join(&mut writing, keys_written)).await;
    futures_util::future::join_all([leadership, limits_leadership].into_iter().flatten().map(Leadership::release))
        .await;
    drop(stop);
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, &mut xds).await.is_err() {
        xds.abort();
        // Its end removes the socket's file.
        let _ = xds.await;
    }
    Ok(())
}

/// Announces to the service manager what the probes answer.
async fn announce<T>(manager: Arc<ServiceManager>, snapshots: watch::Receiver<Option<T>>, watchdog: Arc<Watchdog>) {
    let unready_reason = |snapshot: &Option<T>| snapshot.is_none().then_some("nothing is served yet: see /status");
    manager.follow(snapshots, unready_reason, |_| watchdog.is_alive(Instant::now())).await;
}

/// Every connection takes a descriptor, and the usual limit of 1,024 is meant for programs that select.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(MAX_DESCRIPTORS, |most| most.min(MAX_DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
    {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Starts to save snapshots, if --state-dir is set.
fn save_state(arguments: &StateArguments, metrics: &Arc<ControlPlaneMetrics>) -> (Option<StateSender>, JoinHandle<()>) {
    match &arguments.state_dir {
        Some(directory) => {
            let (sender, writer) = StateWriter::new(directory.clone(), arguments.state_secrets, Arc::clone(metrics));
            (Some(sender), tokio::spawn(writer.run()))
        }
        None => (None, tokio::spawn(async {})),
    }
}
