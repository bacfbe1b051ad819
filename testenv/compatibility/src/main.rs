//! Runs the tests of every feature with every Envoy and each build of the filter, one combination after the other, and writes what
//! came of it: `docs/reference/compatibility.json`, and the table in `docs/compatibility.md`.
//!
//! A test that fails among the others is run once more, alone. Each run of tests is bounded in time; a test that has not ended
//! then has failed. Logs are kept in `target/compatibility`.

mod libtest;
mod suite;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use portcullis_compatibility::{Combination, Differences, Error, Features, Filter, Outcome, Results, Run, table};
use portcullis_harness::{deps, project_root};

use suite::Suites;

/// Runs the tests of every feature with every Envoy and each build of the filter.
#[derive(Debug, Parser)]
struct Options {
    /// Only this version of Envoy, like 1.38.3; what is known of others stays.
    #[arg(long)]
    envoy: Option<String>,
    /// Only this build, module or wasm; what is known of the other stays.
    #[arg(long, value_parser = filter)]
    filter: Option<Filter>,
    /// Only what failed the last time, or is new, each test alone.
    #[arg(long)]
    again: bool,
    /// Runs nothing: makes the table of what is known.
    #[arg(long)]
    table: bool,
}

fn filter(text: &str) -> Result<Filter, String> {
    let found = Filter::ALL.into_iter().find(|filter| filter.to_string() == text);
    found.ok_or_else(|| "module or wasm".to_owned())
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(complaints) if complaints.is_empty() => ExitCode::SUCCESS,
        Ok(complaints) => {
            for complaint in complaints {
                eprintln!("{complaint}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("compatibility: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<Vec<String>, Error> {
    let root = project_root();
    let (features, differences) = (Features::read(&root)?, Differences::read(&root)?);
    let mut results = Results::read(&root).unwrap_or_default();
    if !options.table {
        let suites = Suites::build(&root)?;
        for combination in Combination::all().into_iter().filter(|one| options.includes(one)) {
            let run = match results.of(&combination) {
                Ok(run) if options.again && run.refusal.is_none() => again(&suites, &features, run.clone())?,
                _ => run_combination(&suites, &features, &combination)?,
            };
            // Another run, about another combination, may have written meanwhile.
            results = Results::read(&root).unwrap_or_default();
            results.put(run);
            results.write(&root)?;
        }
    }
    results.check(&features)?;
    let table = table::make(&features, &differences, &results)?;
    table::write(&root, &table)?;
    Ok(table.complaints)
}

impl Options {
    fn includes(&self, combination: &Combination) -> bool {
        self.envoy.as_ref().is_none_or(|envoy| *envoy == combination.envoy)
            && self.filter.is_none_or(|filter| filter == combination.filter)
    }
}

/// Runs every test with a combination, or only the probe, if that says that the combination serves nothing.
fn run_combination(suites: &Suites, features: &Features, combination: &Combination) -> Result<Run, Error> {
    let started = Instant::now();
    eprintln!("== {combination}");
    let (outcome, refusal) = probe(suites, features, combination)?;
    let mut tests = BTreeMap::from([(features.probe.clone(), outcome)]);
    if refusal.is_none() {
        let rest = features.tests(combination.filter).split_off(1);
        for suite in suite::NAMES {
            tests.extend(together(suites, suite, &rest, combination)?);
        }
    }
    Ok(Run {
        envoy: combination.envoy.clone(),
        filter: combination.filter,
        kubernetes: deps::pinned("KUBERNETES_VERSION").unwrap_or_default(),
        seconds: started.elapsed().as_secs(),
        refusal,
        tests,
    })
}

/// Runs what failed or is new once more, each test alone, and forgets what is on the list no more.
fn again(suites: &Suites, features: &Features, mut run: Run) -> Result<Run, Error> {
    let combination = run.combination();
    eprintln!("== {combination}, again");
    let wanted = features.tests(combination.filter);
    run.tests.retain(|test, _| wanted.contains(&test.as_str()));
    for test in wanted {
        let before = run.tests.get(test).copied();
        let (None | Some(Outcome::Failed), Some((suite, name))) = (before, test.split_once("::")) else { continue };
        let passed = suites.run(suite, &[name], &combination)?.passed.iter().any(|one| one == test);
        let outcome = match (passed, before) {
            (true, None) => Outcome::Passed,
            (true, Some(_)) => Outcome::Repeated,
            (false, _) => Outcome::Failed,
        };
        run.tests.insert(test.to_owned(), outcome);
    }
    Ok(run)
}

/// The outcome of the probe, and the reason if the combination serves nothing.
fn probe(suites: &Suites, features: &Features, combination: &Combination) -> Result<(Outcome, Option<String>), Error> {
    let Some((suite, test)) = features.probe.split_once("::") else {
        return Err(Error::List { what: features.probe.clone(), why: "it names no suite" });
    };
    let mut said = None;
    for outcome in [Outcome::Passed, Outcome::Repeated] {
        let outputs = suites.run(suite, &[test], combination)?;
        if outputs.passed.contains(&features.probe) {
            return Ok((outcome, None));
        }
        said = libtest::refusal(&outputs.text);
    }
    Ok((Outcome::Failed, Some(said.unwrap_or_else(|| "no reason was told".to_owned()))))
}

/// Runs the tests of one suite, and those that fail once more, alone.
fn together(
    suites: &Suites,
    suite: &str,
    tests: &[&str],
    combination: &Combination,
) -> Result<BTreeMap<String, Outcome>, Error> {
    let of_suite = tests.iter().filter_map(|test| test.split_once("::"));
    let names: Vec<&str> = of_suite.filter(|(of, _)| *of == suite).map(|(_, name)| name).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let passed = suites.run(suite, &names, combination)?.passed;
    let mut outcomes = BTreeMap::new();
    for name in names {
        let test = format!("{suite}::{name}");
        let outcome = if passed.contains(&test) {
            Outcome::Passed
        } else if suites.run(suite, &[name], combination)?.passed.contains(&test) {
            Outcome::Repeated
        } else {
            Outcome::Failed
        };
        outcomes.insert(test, outcome);
    }
    Ok(outcomes)
}
