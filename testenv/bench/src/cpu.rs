//! CPU time of a request: bare Envoy, the module and portcullis.wasm next to each other.
//!
//! The machine is shared, and its load changes every figure. All Envoys of a group therefore run at once, each gets the same
//! requests in turn, and each turn is compared with the bare Envoy's of the same round.

use std::path::PathBuf;

use clap::Args;
use portcullis_harness::rundir::RunDir;

use crate::case::Case;
use crate::client;
use crate::error::BenchError;
use crate::fixture::{Fixture, Running};
use crate::spread::Spread;
use crate::usage::process_time;

/// Measures CPU time of Envoy per request, with the module and with portcullis.wasm.
#[derive(Debug, Args)]
pub(crate) struct Cpu {
    /// Requests of a turn.
    #[arg(long, default_value_t = 2_000)]
    requests: u32,
    /// Rounds; in each every Envoy has one turn.
    #[arg(long, default_value_t = 30)]
    rounds: u32,
    /// Only the groups with these cases.
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Requests under way at a time: with one, most of the time is the worker's falling asleep and waking up.
    #[arg(long, default_value_t = 16)]
    at_once: usize,
    /// Directory of configurations and logs, emptied at the start. A temporary directory if unset.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// The compared cases, the baseline first.
const GROUPS: [&[Case]; 3] = [
    &[Case::Bare, Case::Last, Case::WasmLast],
    &[Case::BareToken, Case::Token, Case::WasmToken],
    &[Case::BareToken, Case::Uncached, Case::Verified],
];

pub(crate) fn run(options: &Cpu) -> Result<(), BenchError> {
    let run = match &options.dir {
        Some(dir) => RunDir::at(dir)?,
        None => RunDir::new("cpu")?,
    };
    let fixture = Fixture::new(&run, false)?;
    println!("case\tµs of Envoy per request: median (quartiles)\tof its baseline: median (quartiles)");
    let is_wanted = |group: &&[Case]| options.cases.is_empty() || options.cases.iter().any(|case| group.contains(case));
    for group in GROUPS.into_iter().filter(is_wanted) {
        let sites: Vec<Running> = group.iter().map(|case| fixture.start(*case)).collect::<Result<_, _>>()?;
        // V8 goes on to compile while the first requests come.
        turn(&fixture, &sites, 0, options)?;
        let rounds: Vec<Vec<u64>> =
            (0..options.rounds).map(|round| turn(&fixture, &sites, round, options)).collect::<Result<_, _>>()?;
        for (column, case) in group.iter().enumerate() {
            print(*case, &rounds, column, options.requests);
        }
    }
    Ok(())
}

/// One turn of each Envoy, another one first each time: nanoseconds, in the order of the sites.
fn turn(fixture: &Fixture<'_>, sites: &[Running], round: u32, options: &Cpu) -> Result<Vec<u64>, BenchError> {
    let mut spent = vec![0; sites.len()];
    let mut turns: Vec<_> = sites.iter().zip(&mut spent).collect();
    let first = usize::try_from(round).unwrap_or(0) % turns.len().max(1);
    turns.rotate_left(first);
    for (site, spent) in turns {
        let before = process_time(site.pid())?;
        client::burst(&site.client, site.case, fixture.token(), options.requests, options.at_once)?;
        *spent = process_time(site.pid())?.saturating_sub(before);
        fixture.forget();
    }
    Ok(spent)
}

fn print(case: Case, rounds: &[Vec<u64>], column: usize, requests: u32) {
    let of = |round: &Vec<u64>, column: usize| round.get(column).map_or(f64::NAN, |spent| *spent as f64);
    let each = rounds.iter().map(|round| of(round, column) / f64::from(requests) / 1_000.0);
    let ratios = rounds.iter().map(|round| of(round, column) / of(round, 0));
    println!("{}\t{:.1}\t{:.2}", case.title(), Spread::of(each), Spread::of(ratios));
}
