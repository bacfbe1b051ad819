//! The lab: apiservers, the control plane and Envoy on loopback, to try the gateway by hand and to point scripts at.
//!
//! Everything that it starts ends with it. `lab.json` lists the addresses of everything.

mod apiservers;
mod error;
mod gateway;
mod keys;
mod manifests;
mod object_store;
mod report;
mod users;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use portcullis_harness::certs::Ca;
use portcullis_harness::rundir::RunDir;
use tokio::signal::unix::{SignalKind, signal};

use apiservers::Apiservers;
use error::LabError;
use gateway::Gateway;
use object_store::ObjectStore;
use users::Users;

/// The host name of the lab's cluster.
const CLUSTER: &str = "prod.lab";

/// Its other name, which every machine resolves to itself.
const LOCALHOST: &str = "localhost";

/// Starts a lab and runs until Ctrl-C: apiservers, the control plane, and Envoy with the filter in front of them.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// The servers behind the gateway: three stubs (fast, nothing to build), or two real kube-apiservers.
    #[arg(long, value_enum, default_value_t = Kube::Stub)]
    kube: Kube,
    /// How the apiservers learn who sends a request (docs/identity-modes.md).
    #[arg(long, value_enum, default_value_t = IdentityMode::Impersonate)]
    identity: IdentityMode,
    /// Which build of the filter Envoy runs.
    #[arg(long, value_enum, default_value_t = Filter::Module)]
    filter: Filter,
    /// The place of the objects: a directory of manifests, or a kube-apiserver that `portcullis init` lays out.
    #[arg(long, value_enum, default_value_t = Store::Directory)]
    store: Store,
    /// Directory of manifests, kubeconfigs, logs and lab.json, emptied at the start.
    #[arg(long, default_value = ".lab")]
    dir: PathBuf,
}

/// `spec.portcullis.upstreamIdentity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IdentityMode {
    #[value(name = "Impersonate")]
    Impersonate,
    #[value(name = "RequestHeader")]
    RequestHeader,
}

impl IdentityMode {
    const fn as_str(self) -> &'static str {
        match self {
            IdentityMode::Impersonate => "Impersonate",
            IdentityMode::RequestHeader => "RequestHeader",
        }
    }

    /// The user who asks the apiservers about tokens.
    const fn reviewer(self) -> &'static str {
        match self {
            IdentityMode::Impersonate => "portcullis",
            IdentityMode::RequestHeader => "system:portcullis",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kube {
    Stub,
    Real,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Filter {
    Module,
    Wasm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Store {
    Directory,
    Apiserver,
}

/// Everything that runs. Fields end in this order: first the gateway, then the servers behind it.
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
        let options = options.clone();
        tokio::task::spawn_blocking(move || start(&options))
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

fn start(options: &Options) -> Result<Lab, LabError> {
    let &Options { kube, identity, filter, store, ref dir } = options;
    let run = RunDir::at(dir)?;
    let store = match store {
        Store::Directory => None,
        Store::Apiserver => {
            step("laying out a store with `portcullis init`, and starting it");
            Some(ObjectStore::start(&run)?)
        }
    };
    step("starting apiservers");
    let front_proxies = Ca::new("lab front proxies")?;
    let apiservers = Apiservers::start(kube, &front_proxies, &run)?;
    let users = Users::new(apiservers.client_ca(), &front_proxies, identity)?;
    step("starting the control plane");
    let mut gateway = Gateway::prepare(&run, &apiservers, &users, identity, filter, store)?;
    let token = apiservers.grant(&run, gateway.plane(), identity)?;
    step("starting Envoy and waiting until the cluster is Ready");
    gateway.serve(&run)?;
    let lab = Lab { gateway, apiservers, users, token };
    report::write(&lab, &run)?;
    Ok(lab)
}

fn step(what: &str) {
    println!("lab: {what}");
}
