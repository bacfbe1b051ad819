//! Many clusters at once: the time until an edit arrives, the time of the first push, and the memory that they need.
//!
//! A real control plane reads a directory with one file for each cluster and serves a real Envoy over xDS. An edit renames a
//! finished file into place, as an operator's tool does; it has arrived when Envoy has acknowledged the whole new snapshot, and
//! it is visible in the first request that is answered by the new policy.

mod edits;
mod figures;
mod fixture;
mod manifests;

use std::path::PathBuf;

use clap::Args;
use portcullis_harness::rundir::RunDir;

use crate::error::BenchError;
use figures::Figures;
use fixture::Fixture;

/// Measures many UpstreamClusters: cold push, one edit, memory.
#[derive(Debug, Args)]
pub(crate) struct Scale {
    /// How many UpstreamClusters; each number is measured alone.
    #[arg(long, value_delimiter = ',', default_value = "100,1000")]
    clusters: Vec<u32>,
    /// Dispatch policies of each.
    #[arg(long, default_value_t = 20)]
    policies: u32,
    /// Edits of each kind.
    #[arg(long, default_value_t = 100)]
    edits: u32,
    /// Stub apiservers, which the clusters share.
    #[arg(long, default_value_t = 1)]
    servers: u32,
    /// Let Envoy make pools beside the first of each cluster when they are used (`secondaryPools: OnDemand`).
    #[arg(long)]
    on_demand: bool,
    /// Let Envoy make all of its statistics.
    #[arg(long)]
    all_envoy_statistics: bool,
    /// Directory of manifests and logs, emptied at the start. A temporary directory if unset.
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(options: &Scale) -> Result<(), BenchError> {
    let run = match &options.dir {
        Some(dir) => RunDir::at(dir)?,
        None => RunDir::new("scale")?,
    };
    let mut all: Vec<Figures> = Vec::new();
    for count in &options.clusters {
        eprintln!("measuring {count} clusters");
        let mut fixture = Fixture::start(&run, options, *count)?;
        let figures = fixture.measure(options)?;
        figures.print();
        all.push(figures);
    }
    figures::print_growth(&all);
    Ok(())
}
