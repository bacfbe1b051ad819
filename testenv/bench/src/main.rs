//! The cost of a whole request in Envoy, in instructions: bare, and with the gateway.
//!
//! Envoy runs with one worker under callgrind. After a warm-up each round sends a fixed number of requests over one HTTP/2
//! connection and counts the instructions of the worker's thread: of Envoy's code, the module's and the libraries'. The bare
//! Envoy runs the gateway's own listener, routes and clusters without the filter, the early header mutation and the choice of
//! the route.

mod bare;
mod callgrind;
mod case;
mod changed;
mod classes;
mod client;
mod compare;
mod converge;
mod cpu;
mod document;
mod error;
mod filtered;
mod fixture;
mod instances;
mod limits;
mod lua;
mod pause;
mod peers;
mod plane_log;
mod profile;
mod ratios;
mod report;
mod restart;
mod scale;
mod servers;
mod site;
mod soak;
mod spread;
mod usage;
mod verified;
mod watches;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use portcullis_harness::rundir::RunDir;

use case::Case;
use classes::Classes;
use error::BenchError;
use fixture::Fixture;

/// Counts instructions of a request in Envoy, bare and with the gateway.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// Requests of a round.
    #[arg(long, default_value_t = 2_000)]
    requests: u32,
    /// Rounds of each case: what differs between them is noise.
    #[arg(long, default_value_t = 2)]
    rounds: u32,
    /// Only these cases, and what they are compared with.
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Prints also instructions by source file, library and class of Envoy's code, of each case and of the one that it is compared
    /// with. Envoy's executable has no symbols: names are those of its classes, paths and exported functions.
    #[arg(long)]
    classes: bool,
    /// Measures nothing, and prints these tables of the files that an earlier run with as many requests left in --dir.
    #[arg(long, requires = "dir")]
    saved: bool,
    /// Directory of configurations, logs and callgrind's files, emptied at the start. A temporary directory if unset.
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Cpu(cpu::Cpu),
    Compare(compare::Compare),
    Check(ratios::Check),
    Converge(converge::Converge),
    Instances(instances::Instances),
    Restart(restart::Restart),
    Samples(classes::Samples),
    Watches(watches::Watches),
    Scale(scale::Scale),
    Soak(soak::Soak),
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), BenchError> {
    match &options.command {
        Some(Command::Cpu(cpu)) => return cpu::run(cpu),
        Some(Command::Compare(compare)) => return compare::run(compare),
        Some(Command::Check(check)) => return ratios::run(check),
        Some(Command::Converge(converge)) => return converge::run(converge),
        Some(Command::Instances(instances)) => return instances::run(instances),
        Some(Command::Restart(restart)) => return restart::run(restart),
        Some(Command::Samples(samples)) => return classes::samples(samples),
        Some(Command::Watches(watches)) => return watches::run(watches),
        Some(Command::Scale(scale)) => return scale::run(scale),
        Some(Command::Soak(soak)) => return soak::run(soak),
        None => {}
    }
    if let (Some(dir), true) = (&options.dir, options.saved) {
        return classes::saved(dir, options.requests);
    }
    let run = match &options.dir {
        Some(dir) => RunDir::at(dir)?,
        None => RunDir::new("bench")?,
    };
    let fixture = Fixture::new(&run, true)?;
    let mut baselines = Vec::new();
    println!("{}", report::HEADING);
    let mut classes = Classes::default();
    for case in Case::ALL.into_iter().filter(|case| options.runs(*case)) {
        let baseline = baselines.iter().find(|(of, _)| *of == case.baseline()).map(|(_, amount)| *amount);
        let rounds = fixture.measure(case, options.requests, options.rounds)?;
        let amount = report::print(case, &rounds, options.requests, baseline);
        if options.classes {
            classes.take(case, &rounds)?;
        }
        baselines.push((case, amount));
    }
    classes.print(options.requests);
    Ok(())
}

impl Options {
    fn runs(&self, case: Case) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|wanted| *wanted == case || wanted.baseline() == case)
    }
}
