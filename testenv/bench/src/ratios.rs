//! A request's instructions in proportion to the bare Envoy's of the same run, against those that the tree keeps.
//!
//! Instructions differ from processor to processor, because libraries choose their code by it; their ratio hardly does.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use portcullis_harness::project_root;
use portcullis_harness::rundir::RunDir;

use crate::case::Case;
use crate::document;
use crate::error::BenchError;
use crate::fixture::Fixture;

const FILE: &str = "testenv/bench/ratios.json";
const ALL: [Case; 6] = [Case::Last, Case::None, Case::Token, Case::Uncached, Case::Impersonated, Case::FrontProxy];
const SHORT: [Case; 3] = [Case::Last, Case::None, Case::Token];

/// Fails when a request has become dearer than by testenv/bench/ratios.json.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Three cases and few requests, and up to 3 % in the place of 1 %.
    #[arg(long)]
    short: bool,
    /// Writes the ratios of this run into the file.
    #[arg(long, conflicts_with = "short")]
    update: bool,
    /// Directory of configurations, logs and callgrind's files, emptied at the start. A temporary directory if unset.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// By the case's name.
type Ratios = BTreeMap<String, f64>;

pub(crate) fn run(options: &Check) -> Result<(), BenchError> {
    let run = match &options.dir {
        Some(dir) => RunDir::at(dir)?,
        None => RunDir::new("ratios")?,
    };
    let (cases, requests, tolerance): (&[Case], _, _) =
        if options.short { (&SHORT, 500, 0.03) } else { (&ALL, 2_000, 0.01) };
    let found = measured(&run, cases, requests)?;
    let path = project_root().join(FILE);
    if options.update {
        let text = serde_json::to_string_pretty(&found).map_err(BenchError::Ratios)?;
        return document::save(&path, &(text + "\n"));
    }
    let text = std::fs::read_to_string(&path).map_err(|source| BenchError::Read { path: FILE.to_owned(), source })?;
    let kept: Ratios = serde_json::from_str(&text).map_err(BenchError::Ratios)?;
    println!("case\tof bare\tin the tree\tmore");
    for (name, ratio) in &found {
        let before = kept.get(name).copied().unwrap_or(f64::NAN);
        println!("{name}\t{ratio:.4}\t{before:.4}\t{:+.2} %", (ratio / before - 1.0) * 100.0);
    }
    let dearer = dearer(&found, &kept, tolerance);
    if dearer.is_empty() { Ok(()) } else { Err(BenchError::Dearer(dearer.join(", "))) }
}

fn measured(run: &RunDir, cases: &[Case], requests: u32) -> Result<Ratios, BenchError> {
    let fixture = Fixture::new(run, true)?;
    let count = |case: Case| -> Result<f64, BenchError> {
        eprintln!("{}", case.title());
        let rounds = fixture.measure(case, requests, 1)?;
        Ok(rounds.iter().map(|round| round.total as f64).sum::<f64>() / f64::from(requests))
    };
    let mut baselines: Vec<(Case, f64)> = Vec::new();
    for baseline in [Case::Bare, Case::BareToken] {
        baselines.push((baseline, count(baseline)?));
    }
    let mut ratios = Ratios::new();
    for case in cases {
        let baseline = baselines.iter().find(|(of, _)| *of == case.baseline()).map_or(f64::NAN, |(_, count)| *count);
        // Four digits: the rest differs from run to run.
        ratios.insert(case.slug().to_owned(), (count(*case)? / baseline * 10_000.0).round() / 10_000.0);
    }
    Ok(ratios)
}

/// The cases beyond the tolerance, and those that the tree has no ratio of.
fn dearer(found: &Ratios, kept: &Ratios, tolerance: f64) -> Vec<String> {
    let is_dearer =
        |(name, ratio): &(&String, &f64)| kept.get(*name).is_none_or(|kept| **ratio > kept * (1.0 + tolerance));
    found.iter().filter(is_dearer).map(|(name, ratio)| format!("{name} {ratio:.4}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Ratios, dearer};

    #[test]
    fn ratio_beyond_the_tolerance_is_refused() {
        let ratios = |last: f64| Ratios::from([("last".to_owned(), last)]);
        let kept = ratios(1.17);
        assert_eq!(dearer(&ratios(1.181), &kept, 0.01), Vec::<String>::new());
        assert_eq!(dearer(&ratios(1.1), &kept, 0.01), Vec::<String>::new());
        assert_eq!(dearer(&ratios(1.183), &kept, 0.01), ["last 1.1830"]);
        assert_eq!(dearer(&ratios(1.0), &Ratios::new(), 0.01), ["last 1.0000"]);
    }
}
