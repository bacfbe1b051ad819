//! Two instances of one control plane: answering times and edits of `b` while `a` is flooded, edited and limited.
//!
//! Two Envoys belong to each instance, each run by its agent, and the clusters of an instance have a server of their own. All
//! four Envoys listen at one address, because settings are shared: the kernel gives a connection to any of them, one that does not
//! have the name closes it in the handshake, and clients connect again until they have one that does. They keep that connection.
//!
//! Envoys follow the control plane by mutual TLS, as members of their instance by their certificates: at its Unix socket none would
//! have a share of its own. An edit is a file that is renamed into place; it is acknowledged when the control plane's log has both
//! Envoys in sync with it.

mod clusters;
mod cores;
mod disturbance;
mod figures;
mod observer;
mod phase;
mod priority;
mod site;
mod xds;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{ArgAction, Args};
use portcullis_harness::rundir::RunDir;

use crate::error::BenchError;
use crate::{document, limits};
use cores::Cores;
use disturbance::Disturbance;
use figures::{Trial, Trials};
use observer::Observer;
use phase::Phase;
use site::TwoInstances;

/// The handshakes of a client until it has one of its instance's Envoys, half of all: the last one fails once in 10^19 times.
const HANDSHAKES: u32 = 64;

/// Measures one instance while another one of the same control plane is under load.
///
/// Instances `a` and `b` have two Envoys each. In each round `a` is quiet, gets requests with unknown tokens, is edited, and has
/// limits of all gateways that its agents report; the next round begins with another phase. In each phase `b` gets reads at a
/// steady rate and an edit after the other; figures are compared with the quiet phase of the same round, so that the machine's
/// noise meets both.
///
/// Everything runs on this machine, on loopback, and ends with the command. A round of four phases takes four times --seconds and
/// some 30 seconds more.
#[derive(Debug, Args)]
pub(crate) struct Instances {
    /// Rounds, each of all phases.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long each phase is measured, seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Only these phases, and the quiet one.
    #[arg(long, value_enum, value_delimiter = ',')]
    phases: Vec<Phase>,
    /// Reads per second at `b`'s Envoys together; in the phase of limits at `a`'s, too.
    #[arg(long, default_value_t = 100.0)]
    reads: f64,
    /// Edits per second of `b`'s clusters, if each is acknowledged before the next is due.
    #[arg(long, default_value_t = 5.0)]
    edits: f64,
    /// Requests with unknown tokens per second at `a`'s Envoys together. Two cores, which clients share, do some thousands; what is
    /// not sent is said.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    flood: u32,
    /// Edits of `a`'s clusters per minute.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    storm: u32,
    /// The number of edits of the storm that are written at once. A directory is read ten milliseconds after its first change, whatever
    /// follows.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    burst: u32,
    /// Limits of each cluster of `a` in the phase of limits.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=64))]
    limits: u32,
    /// Clusters of `a`.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clusters: u32,
    /// Clusters of `b`.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clusters_of_b: u32,
    /// Run Envoys, agents, server, clients and editor of `a` at the lowest priority. All processes share this machine's cores, which
    /// two teams' Envoys do not as a rule: at the same priority the figures would be the scheduler's. With it they are those of what
    /// the instances share in Portcullis, the control plane, which runs at the ordinary priority whomever it works for.
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", default_value_t = true)]
    nice: bool,
    /// Keep Envoys, agents, server and clients of `b` on the second half of the machine's cores, and everything else on the first half:
    /// the control plane has a machine of its own as a rule. Needs two cores.
    #[arg(long, action = ArgAction::Set, value_name = "BOOL", default_value_t = true)]
    apart: bool,
    /// Writes figures and picture into docs.
    #[arg(long)]
    write: bool,
    /// Directory of configurations and logs, emptied at the start. A temporary directory if unset.
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(options: &Instances) -> Result<(), BenchError> {
    limits::raise()?;
    let run = match &options.dir {
        Some(dir) => RunDir::at(dir)?,
        None => RunDir::new("instances")?,
    };
    eprintln!("starting a control plane and four Envoys");
    let mut site = TwoInstances::start(&run, [options.clusters, options.clusters_of_b], options.nice)?;
    if options.apart {
        let [first, second] = Cores::halves()?;
        site.keep_apart(first, second)?;
    }
    let mut observer = Observer::start(&site, options)?;
    let mut trials = Trials::default();
    for round in 0..options.rounds {
        for phase in Phase::of_round(&options.phases, round) {
            let is_possible = phase != Phase::Limits || !trials.are_limits_refused;
            if is_possible && !measure(round, phase, &mut site, &mut observer, options, &mut trials)? {
                eprintln!("the agents of `a` get no parts of limits: not measured");
                trials.are_limits_refused = true;
            }
        }
    }
    let text = text(options, &trials);
    println!("{text}");
    if options.write {
        let picture = "![99 % of reads and edits of an instance under the load of another one](images/instances.svg)";
        document::write("instances", &format!("{}.\n\n{text}\n\n{picture}", document::machine()))?;
        document::picture("instances", &trials.picture())?;
    }
    Ok(())
}

/// Measures `b` in a phase; false if the phase's load cannot be made.
fn measure(
    round: u32,
    phase: Phase,
    site: &mut TwoInstances,
    observer: &mut Observer,
    options: &Instances,
    trials: &mut Trials,
) -> Result<bool, BenchError> {
    let Some(disturbance) = Disturbance::start(phase, site, options)? else { return Ok(false) };
    let (before, start) = (site.cpu_times()?, Instant::now());
    let (reads, edits) = observer.observe(site, Duration::from_secs(options.seconds.into()))?;
    let (cpu, took) = (site.cpu_times()?.since(before), start.elapsed());
    let effort = disturbance.end(phase, site)?;
    trials.add(Trial { round, phase, reads, edits, cpu, took, effort });
    Ok(true)
}

fn text(options: &Instances, trials: &Trials) -> String {
    let priority = if options.nice { "at the lowest priority" } else { "at the same priority as all else" };
    let cores = if options.apart { "`b` has half of the cores for itself" } else { "all share the cores" };
    format!(
        "{} rounds, {} s for each phase; {} clusters of `a` and {} of `b`; {} reads a second at `b`; the load of `a` {priority}; {cores}. In brackets the quartiles of the rounds; CPU time is of one core.\n\n{}\n{}",
        options.rounds,
        options.seconds,
        options.clusters,
        options.clusters_of_b,
        options.reads,
        trials.table(),
        trials.efforts(options.clusters * options.limits),
    )
}
