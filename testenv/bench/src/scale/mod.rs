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
use std::time::Duration;

use clap::Args;
use portcullis_harness::rundir::RunDir;

use crate::error::BenchError;
use crate::limits;
use figures::Figures;
use fixture::Fixture;

/// Pools of a cluster, unless they are made when they are used.
const POOLS: u32 = 3;
/// How long the slowest step may take, and how much longer for each server of each cluster.
const PATIENCE: Duration = Duration::from_secs(120);
const PATIENCE_OF_SERVER: Duration = Duration::from_millis(20);
/// Files that a process has open besides a connection for the checks of each server by each pool.
const OTHER_FILES: u64 = 500;

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
    /// Stub apiservers, which the clusters share. Each pool of a cluster checks all of them.
    #[arg(long, default_value_t = 1)]
    servers: u32,
    /// Seconds between two checks of a server by one pool, 1 to 300. Clusters x servers x pools checks are made in that time, beside
    /// what is measured: 10,000 clusters of 3 servers with their first pools alone (--on-demand) make 250 checks a second at 120,
    /// and 100 at 300. The number is printed; the first check of each server comes at once, with its TLS handshake, and is a part of
    /// the push.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=300))]
    check_interval: u32,
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

impl Scale {
    /// Connections by which Envoy checks servers: each pool has one to each of its servers.
    fn checked(&self, clusters: u32) -> u64 {
        let pools = if self.on_demand { 1 } else { POOLS };
        u64::from(clusters) * u64::from(self.servers) * u64::from(pools)
    }

    /// Checks of servers that Envoy makes in a second.
    fn checks_per_second(&self, clusters: u32) -> f64 {
        self.checked(clusters) as f64 / f64::from(self.check_interval)
    }

    /// Refuses more servers than `most` open files allow.
    fn check_files(&self, clusters: u32, most: Option<u64>) -> Result<(), BenchError> {
        let needed = self.checked(clusters).saturating_add(OTHER_FILES);
        match most.filter(|most| *most < needed) {
            Some(most) => Err(BenchError::Files { needed, most }),
            None => Ok(()),
        }
    }

    /// How long the slowest step may take. Envoy acknowledges no cluster before each of its servers was checked once.
    fn patience(&self, clusters: u32) -> Duration {
        let servers = clusters.saturating_mul(self.servers);
        PATIENCE + PATIENCE_OF_SERVER.saturating_mul(servers)
    }
}

pub(crate) fn run(options: &Scale) -> Result<(), BenchError> {
    let run = match &options.dir {
        Some(dir) => RunDir::at(dir)?,
        None => RunDir::new("scale")?,
    };
    let mut all: Vec<Figures> = Vec::new();
    let most = limits::raise()?;
    for count in &options.clusters {
        options.check_files(*count, most)?;
        eprintln!("measuring {count} clusters; {:.1} checks of servers a second", options.checks_per_second(*count));
        let mut fixture = Fixture::start(&run, options, *count)?;
        let figures = fixture.measure(options)?;
        figures.print();
        all.push(figures);
    }
    figures::print_growth(&all);
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    fn options(arguments: &str) -> Option<Scale> {
        let command = Scale::augment_args(Command::new("scale").no_binary_name(true));
        Scale::from_arg_matches(&command.try_get_matches_from(arguments.split_whitespace()).ok()?).ok()
    }

    #[test]
    fn checks_are_counted_by_pools_interval_and_open_files() {
        for (arguments, expected) in [
            ("", 250.0),
            ("--servers 3", 750.0),
            ("--servers 3 --on-demand", 250.0),
            ("--servers 3 --on-demand --check-interval 300", 100.0),
        ] {
            assert_eq!(options(arguments).unwrap().checks_per_second(10_000), expected, "{arguments}");
        }
        let many = options("--servers 3 --on-demand").unwrap();
        assert!(many.check_files(6_000, Some(20_000)).is_ok() && many.check_files(10_000, None).is_ok());
        let refused = many.check_files(10_000, Some(20_000)).unwrap_err().to_string();
        assert!(refused.starts_with("30500 open files"), "{refused}");
        for interval in ["0", "301", "5s"] {
            assert!(options(&format!("--check-interval {interval}")).is_none(), "{interval}");
        }
    }
}
