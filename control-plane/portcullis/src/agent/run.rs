use std::io;
use std::net::SocketAddr;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::admin::Admin;
use super::admin::{EnvoyState, leave, probe};
use super::drain::drain;
use super::envoy::{EnvoyProcess, exit_code};
use super::filter::Filter;
use super::pages::MetricsPage;
use super::report::LimitsState;
use super::{Agent, pages, report};
use crate::listen;
use crate::runtime::{RuntimeError, Threads, runtime};
use crate::service_manager::ServiceManager;
use crate::stop_signals::StopSignals;

/// Why the gateway cannot start or go on. The operator has to act.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("cannot listen for signals")]
    Signal(#[source] io::Error),
    #[error("Envoy's admin interface is not protected and has to stay on loopback: not at {0}")]
    Admin(SocketAddr),
    #[error("cannot listen at {0}")]
    Http(SocketAddr, #[source] io::Error),
    #[error("cannot start Envoy")]
    Start(#[source] io::Error),
    #[error("cannot wait for Envoy")]
    Wait(#[source] io::Error),
}

pub(crate) fn run(arguments: &Agent) -> ExitCode {
    // One thread, the process's first: Envoy must not outlive the thread that starts it.
    match runtime(Threads::Current)
        .map_err(RunError::Runtime)
        .and_then(|runtime| runtime.block_on(supervise(arguments)))
    {
        Ok(status) => ExitCode::from(exit_code(status)),
        Err(error) => crate::fail(&error),
    }
}

async fn supervise(arguments: &Agent) -> Result<ExitStatus, RunError> {
    let mut stop = StopSignals::new().map_err(RunError::Signal)?;
    let address = arguments.bootstrap.admin_address;
    if !address.ip().is_loopback() {
        return Err(RunError::Admin(address));
    }
    let failed = |error| RunError::Http(arguments.http_address, error);
    let listener = TcpListener::bind(arguments.http_address).await.map_err(failed)?;
    let http_address = listener.local_addr().map_err(failed)?;
    let mut envoy = EnvoyProcess::start(arguments).map_err(RunError::Start)?;
    let (filter, activity) = (envoy.filter(), envoy.activity());
    tracing::info!(%http_address, envoy = %arguments.envoy.display(), "listening");

    let admin = Admin::new(address);
    let limits = LimitsState::default();
    let (sight, seen) = watch::channel(EnvoyState::new(Instant::now()));
    let manager = Arc::new(ServiceManager::from_environment());
    tokio::spawn(announce(Arc::clone(&manager), seen.clone()));
    tokio::spawn(listen::serve(
        listener,
        pages::router(seen, MetricsPage::new(admin, activity.clone(), limits.clone())),
        None,
    ));
    tokio::spawn(probe(admin, sight.clone()));
    report::start(admin, activity, limits, &arguments.bootstrap);
    tokio::select! {
        status = envoy.ended() => return ended(status),
        () = stop.recv() => {}
    }
    leave(&sight);
    manager.stopping();
    tracing::info!(unready = ?arguments.shutdown_delay, drain = ?arguments.drain_timeout, "asked to end: draining");
    tokio::select! {
        status = envoy.ended() => return ended(status),
        () = stop.recv() => tracing::warn!("asked again: ending at once"),
        () = drain_after_delay(arguments, admin, &filter) => tracing::info!("drained"),
    }
    envoy.end().await.map_err(RunError::Wait)
}

/// Announces to the service manager what the probes answer.
async fn announce(manager: Arc<ServiceManager>, seen: watch::Receiver<EnvoyState>) {
    manager.follow(seen, EnvoyState::not_ready_reason, |state| !state.hangs(Instant::now())).await;
}

async fn drain_after_delay(arguments: &Agent, admin: Admin, filter: &Filter) {
    sleep(arguments.shutdown_delay).await;
    // An Envoy that does not answer is no reason to stay longer.
    if timeout(arguments.drain_timeout, drain(admin, filter, arguments.drain_timeout)).await.is_err() {
        tracing::info!("connections that are still open are cut");
    }
}

fn ended(status: io::Result<ExitStatus>) -> Result<ExitStatus, RunError> {
    let status = status.map_err(RunError::Wait)?;
    tracing::error!(%status, "Envoy has ended by itself");
    Ok(status)
}
