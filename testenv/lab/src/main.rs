//! The lab: apiservers, the control plane and Envoy on loopback, to try the gateway by hand and to point scripts at.
//!
//! Everything that it starts ends with it. What runs where stands in `lab.json`.

mod apiservers;
mod error;
mod report;
mod users;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use portcullis_e2e::{Gateway, GatewayOptions, Manifest};
use portcullis_harness::rundir::RunDir;
use tokio::signal::unix::{SignalKind, signal};

use apiservers::{Apiservers, SERVER_NAME};
use error::LabError;
use users::Users;

/// The host name of the lab's cluster.
const CLUSTER: &str = "prod.lab";

/// Starts a lab and runs until Ctrl-C: apiservers, the control plane, and Envoy with the filter in front of them.
#[derive(Debug, Parser)]
struct Options {
    /// What stands behind the gateway: three stubs (fast, nothing to build), or two real kube-apiservers.
    #[arg(long, value_enum, default_value_t = Kube::Stub)]
    kube: Kube,
    /// Where manifests, kubeconfigs, logs and lab.json go; emptied at the start.
    #[arg(long, default_value = ".lab")]
    dir: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kube {
    Stub,
    Real,
}

/// Everything that runs. Fields end in this order: first the gateway, then what it stands in front of.
struct Lab {
    gateway: Gateway,
    apiservers: Apiservers,
    users: Users,
    /// Of a service account.
    token: String,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(options: &Options) -> Result<(), LabError> {
    // Taken before anything starts, so that Ctrl-C during the start ends the lab in order, too.
    let mut interrupted = signal(SignalKind::interrupt()).map_err(LabError::Signals)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(LabError::Signals)?;
    let starting = {
        let (kube, dir) = (options.kube, options.dir.clone());
        tokio::task::spawn_blocking(move || start(kube, &dir))
    };
    let lab = tokio::select! {
        lab = starting => lab.map_err(|_| LabError::Panicked)??,
        _ = interrupted.recv() => return Err(LabError::Interrupted),
        _ = terminated.recv() => return Err(LabError::Interrupted),
    };
    report::print(&lab, &options.dir);
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    println!("\nstopping");
    tokio::task::spawn_blocking(move || drop(lab)).await.map_err(|_| LabError::Panicked)
}

fn start(kube: Kube, dir: &Path) -> Result<Lab, LabError> {
    let run = RunDir::at(dir)?;
    step("starting apiservers");
    let apiservers = Apiservers::start(kube, &run)?;
    let users = Users::new(apiservers.client_ca())?;
    step("starting the control plane and Envoy");
    let options = GatewayOptions { instance: Some("lab".to_owned()), ..GatewayOptions::default() };
    let gateway = Gateway::start(&run, &options)?;
    let token = apiservers.grant(&run, &gateway)?;
    step("applying the cluster's manifest");
    let manifest = Manifest::new(CLUSTER, apiservers.addresses())
        .upstream(&users.gateway, apiservers.server_ca(), SERVER_NAME)
        .serving(&gateway.serving_identity(CLUSTER)?, apiservers.client_ca());
    gateway.apply(&manifest)?;
    let lab = Lab { gateway, apiservers, users, token };
    report::write(&lab, &run)?;
    Ok(lab)
}

fn step(what: &str) {
    println!("lab: {what}");
}
