//! Half an hour of mixed traffic while everything changes: memory, file descriptors and answering times over time.
//!
//! Reads, lists, watches, upgrades and refused requests come at a steady rate. Meanwhile policies are edited, servers
//! die and come back, and certificates are rotated. A leak shows as a line that rises.

mod churn;
mod figures;
mod traffic;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use portcullis_harness::rundir::RunDir;
use serde_json::json;

use crate::error::BenchError;
use crate::pause::pause;
use crate::site::Site;
use crate::{document, usage};
use churn::Churn;
use figures::{Figures, Sample};
use traffic::Traffic;

/// Runs a gateway under mixed traffic and changes, and reads its memory, file descriptors and answering times.
#[derive(Debug, Args)]
pub(crate) struct Soak {
    /// How long.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Reads per second; lists are a twentieth of them.
    #[arg(long, default_value_t = 100.0)]
    reads: f64,
    /// Watches, each on a connection of its own.
    #[arg(long, default_value_t = 100)]
    watches: usize,
    /// Writes figures and picture into docs.
    #[arg(long)]
    write: bool,
    /// Directory of configurations and logs, emptied at the start. A temporary directory if unset.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// The time between two changes, and between two samples.
const CHANGES: Duration = Duration::from_secs(5);
const SAMPLES: Duration = Duration::from_secs(10);

pub(crate) fn run(options: &Soak) -> Result<(), BenchError> {
    let run = match &options.dir {
        Some(dir) => RunDir::at(dir)?,
        None => RunDir::new("soak")?,
    };
    let mut site = Site::start(&run, 2, &json!({}))?;
    let mut churn = Churn::new(&site)?;
    let traffic = Traffic::start(&site, options.reads, options.watches)?;
    let length = Duration::from_secs_f64(options.minutes * 60.0);
    let (start, mut sampled) = (Instant::now(), Instant::now());
    let mut figures = Figures::default();
    while start.elapsed() < length {
        pause(CHANGES);
        churn.step(&mut site)?;
        if sampled.elapsed() < SAMPLES {
            continue;
        }
        sampled = Instant::now();
        let (envoy, plane) = (site.gateway.envoy().process().pid(), site.gateway.plane().process().pid());
        figures.add(Sample {
            minute: start.elapsed().as_secs_f64() / 60.0,
            envoy: usage::of(envoy)?.now,
            plane: usage::of(plane)?.now,
            envoy_files: usage::descriptors(envoy)?,
            plane_files: usage::descriptors(plane)?,
            seen: traffic.take(),
        });
    }
    drop(traffic);
    let text = format!("{}\n\n{}", figures.table(), figures.summary(&churn));
    println!("{text}");
    if options.write {
        let picture = "![Memory, file descriptors and answering times through the soak](images/soak.svg)";
        document::write("soak", &format!("{}.\n\n{text}\n\n{picture}", document::machine()))?;
        document::picture("soak", &figures.picture())?;
    }
    Ok(())
}
