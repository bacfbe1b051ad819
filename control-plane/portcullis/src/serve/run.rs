use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use portcullis_sources::ObjectSet;
use portcullis_translate::{Diagnosis, Flavour};
use portcullis_xds::{HealthRegistry, Registry, ServeError, Served, Snapshot};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use super::flavours::Flavours;
use super::guard::Hosts;
use super::http::{Pages, router};
use super::observer::{Observed, Observer};
use super::source::{Source, SourceError};
use super::source_state::SourceState;
use super::writer::Writer;
use super::xds::XdsError;
use super::{Model, ModelError};
use crate::cli::Serve;
use crate::leader::campaign;

/// How long open connections may take to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why the control plane cannot start or go on. The operator has to act.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    #[error("cannot listen for signals")]
    Signal(#[source] io::Error),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Doors(#[from] XdsError),
    #[error("cannot listen at {0}")]
    Http(SocketAddr, #[source] io::Error),
    #[error("the status pages failed")]
    Pages(#[source] io::Error),
    #[error(transparent)]
    Xds(#[from] ServeError),
}

pub(crate) fn run(arguments: &Serve) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(RunError::Runtime);
    match runtime.and_then(|runtime| runtime.block_on(serve(arguments))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::fail(&error),
    }
}

async fn serve(arguments: &Serve) -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signal)?;
    let source = Source::open(&arguments.source).await?;
    let doors = arguments.xds.open().await?;
    let failed = |error| RunError::Http(arguments.http_address, error);
    let listener = TcpListener::bind(arguments.http_address).await.map_err(failed)?;
    let http_address = listener.local_addr().map_err(failed)?;
    tracing::info!(%http_address, "listening");

    let (snapshot_sender, snapshots) = watch::channel(None);
    let (diagnosis_sender, diagnoses) = watch::channel(Arc::default());
    let registry = Arc::new(Registry::default());
    let health = Arc::new(HealthRegistry::default());
    let leadership = source.kubernetes.as_ref().map(|access| campaign(access, &arguments.source.lease_name));
    let observer = Arc::new(Observer::new(Observed {
        diagnoses: diagnoses.clone(),
        snapshots: snapshots.clone(),
        registry: Arc::clone(&registry),
        health: Arc::clone(&health),
        source: SourceState::new(&source, leadership.as_ref()),
    }));
    let hosts = Arc::new(Hosts::new(&arguments.http_hosts));
    let mut tasks = vec![tokio::spawn(Arc::clone(&observer).watch())];
    if let (Some(access), Some(leadership)) = (&source.kubernetes, &leadership) {
        let (client, leads, statuses) = (access.client.clone(), leadership.leads.clone(), source.statuses.clone());
        let writer = Writer { client, leads, statuses, diagnoses, observer: Arc::clone(&observer) };
        tasks.push(tokio::spawn(writer.run()));
    }
    let pages = router(Pages { observer, snapshots: snapshots.clone(), hosts });
    let views = Arc::new(Flavours::default());
    let flavours = views.wanted();
    let follow = tokio::spawn(async move {
        if let Some(objects) = source.sets.await {
            follow(objects, flavours, snapshot_sender, diagnosis_sender).await;
        }
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async {
        // An error means that the other end is gone, which is the end as well.
        let _ = stopped.await;
    };
    let served = Served { snapshots, registry, health, views };
    let mut xds = tokio::spawn(portcullis_xds::serve(doors, served, shutdown));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        ended = &mut xds => return ended.map_err(|error| RunError::Pages(io::Error::other(error)))?.map_err(RunError::Xds),
        ended = async { axum::serve(listener, pages).await } => return ended.map_err(RunError::Pages),
    }
    tracing::info!("stopping");
    // Takes the sender of snapshots with it, at which every stream ends.
    follow.abort();
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    if let Some(leadership) = leadership {
        leadership.release().await;
    }
    drop(stop);
    if tokio::time::timeout(FAREWELL, &mut xds).await.is_err() {
        xds.abort();
        // Its end removes the socket's file.
        let _ = xds.await;
    }
    Ok(())
}

/// Translates every newer set of objects.
async fn follow(
    mut objects: watch::Receiver<Arc<ObjectSet>>,
    mut flavours: watch::Receiver<BTreeSet<Flavour>>,
    snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    diagnoses: watch::Sender<Arc<Vec<Diagnosis>>>,
) {
    let mut model = Model::default();
    loop {
        let newest = objects.borrow_and_update().clone();
        let wanted = flavours.borrow_and_update().clone();
        match model.update(&newest, &wanted) {
            Ok(update) => {
                log(&update.diagnoses);
                // In this order: whoever reads the diagnoses and then the snapshot never takes an older snapshot for what
                // the newest version of an object led to.
                publish(&snapshots, update.snapshot);
                diagnoses.send_replace(Arc::new(update.diagnoses));
            }
            Err(ModelError::Settings(told)) => {
                log(&told);
                diagnoses.send_replace(Arc::new(told));
            }
        }
        let changed = tokio::select! {
            changed = objects.changed() => changed,
            changed = flavours.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

fn publish(snapshots: &watch::Sender<Option<Arc<Snapshot>>>, snapshot: Snapshot) {
    let is_new = snapshots.borrow().as_ref().is_none_or(|before| **before != snapshot);
    if is_new {
        tracing::info!(snapshot = snapshot.version(), "serving");
        snapshots.send_replace(Some(Arc::new(snapshot)));
    }
}

fn log(diagnoses: &[Diagnosis]) {
    for diagnosis in diagnoses {
        let at = diagnosis.at.as_deref();
        if !diagnosis.accepted {
            tracing::warn!(at, kind = diagnosis.kind, name = diagnosis.name, reason = %diagnosis.reason, "{}", diagnosis.message);
        }
        for warning in &diagnosis.warnings {
            tracing::warn!(at, kind = diagnosis.kind, name = diagnosis.name, "{warning}");
        }
    }
}
