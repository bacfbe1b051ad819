//! A request's instructions in proportion to the bare Envoy's of the same run, against those that the tree keeps; and those of a limit
//! of all gateways, against a bound.
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
use crate::profile::Profile;

/// The library's file.
const MODULE: &str = "libportcullis.so";
const FILE: &str = "testenv/bench/ratios.json";
const ALL: [Case; 9] = [
    Case::Last,
    Case::None,
    Case::Token,
    Case::Uncached,
    Case::Impersonated,
    Case::FrontProxy,
    Case::Forwarded,
    Case::WasmLast,
    Case::WasmToken,
];
/// Cases with a limit of all gateways, and the instructions that it may cost in the module: a whole request differs by more from
/// run to run.
const GLOBAL: [Case; 2] = [Case::GlobalLimit, Case::GlobalRate];
const MAX_OF_GLOBAL: f64 = 200.0;
const SHORT: [Case; 3] = [Case::Last, Case::None, Case::Token];
/// How much more a case may cost than by the tree.
const TOLERANCE: f64 = 0.01;
/// The same after few requests, and of a build for V8, which compiles functions anew while they run: rounds of one Envoy differ by
/// half a percent.
const WIDE_TOLERANCE: f64 = 0.03;

/// Fails when a request has become dearer than by testenv/bench/ratios.json.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Three cases of the module and few requests, up to 3 % in the place of 1 %, and no limit of all gateways.
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

/// By the case's name.
type Costs = BTreeMap<&'static str, Cost>;

/// Instructions of a request: all, and those of the module itself.
#[derive(Clone, Copy, Debug)]
struct Cost {
    total: f64,
    module: f64,
}

pub(crate) fn run(options: &Check) -> Result<(), BenchError> {
    let run = match &options.dir {
        Some(dir) => RunDir::at(dir)?,
        None => RunDir::new("ratios")?,
    };
    let (cases, requests): (&[Case], _) = if options.short { (&SHORT, 500) } else { (&ALL, 2_000) };
    let fixture = Fixture::new(&run, true)?;
    let global: &[Case] = if options.short { &[] } else { &GLOBAL };
    let costs = measured(&fixture, &[&[Case::Bare, Case::BareToken][..], cases, global].concat(), requests)?;
    let found = ratios(&costs, cases);
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
    let mut dearer = dearer(&found, &kept, |name| tolerance(name, options.short));
    for (name, more) in of_global_limits(&costs) {
        println!("{name}\t{more:.0} instructions of the module more than without a limit, {MAX_OF_GLOBAL} at most");
        dearer.extend((more >= MAX_OF_GLOBAL).then(|| format!("{name} {more:.0} more")));
    }
    if dearer.is_empty() { Ok(()) } else { Err(BenchError::Dearer(dearer.join(", "))) }
}

fn measured(fixture: &Fixture<'_>, cases: &[Case], requests: u32) -> Result<Costs, BenchError> {
    let count = |case: &Case| {
        eprintln!("{}", case.title());
        Ok((case.slug(), Cost::of(&fixture.measure(*case, requests, 1)?, requests)))
    };
    cases.iter().map(count).collect()
}

fn ratios(costs: &Costs, cases: &[Case]) -> Ratios {
    let total = |case: Case| costs.get(case.slug()).map_or(f64::NAN, |cost| cost.total);
    // Four digits: the rest differs from run to run.
    let ratio = |case: Case| (total(case) / total(case.baseline()) * 10_000.0).round() / 10_000.0;
    cases.iter().map(|case| (case.slug().to_owned(), ratio(*case))).collect()
}

/// The instructions that limits of all gateways cost, by case, if they were counted.
fn of_global_limits(costs: &Costs) -> Vec<(&'static str, f64)> {
    let module = |case: Case| costs.get(case.slug()).map(|cost| cost.module);
    GLOBAL.iter().filter_map(|case| Some((case.slug(), module(*case)? - module(Case::Last)?))).collect()
}

impl Cost {
    fn of(rounds: &[Profile], requests: u32) -> Self {
        let each = |count: &dyn Fn(&Profile) -> u64| {
            rounds.iter().map(|round| count(round) as f64).sum::<f64>() / f64::from(requests)
        };
        let module = |round: &Profile| round.objects.get(MODULE).copied().unwrap_or_default();
        Cost { total: each(&|round| round.total), module: each(&module) }
    }
}

/// How much more a case of this name may cost.
fn tolerance(name: &str, is_short: bool) -> f64 {
    let is_wasm = ALL.iter().any(|case| case.slug() == name && case.is_wasm());
    if is_short || is_wasm { WIDE_TOLERANCE } else { TOLERANCE }
}

/// The cases beyond the tolerance, and those that the tree has no ratio of.
fn dearer(found: &Ratios, kept: &Ratios, tolerance: impl Fn(&str) -> f64) -> Vec<String> {
    let is_dearer =
        |(name, ratio): &(&String, &f64)| kept.get(*name).is_none_or(|kept| **ratio > kept * (1.0 + tolerance(name)));
    found.iter().filter(is_dearer).map(|(name, ratio)| format!("{name} {ratio:.4}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Cost, Costs, Ratios, dearer, of_global_limits, tolerance};

    #[test]
    fn ratio_beyond_the_tolerance_is_refused() {
        let ratios = |last: f64| Ratios::from([("last".to_owned(), last)]);
        let kept = ratios(1.17);
        let dearer = |found: &Ratios, kept: &Ratios| dearer(found, kept, |_| 0.01);
        assert_eq!(dearer(&ratios(1.181), &kept), Vec::<String>::new());
        assert_eq!(dearer(&ratios(1.1), &kept), Vec::<String>::new());
        assert_eq!(dearer(&ratios(1.183), &kept), ["last 1.1830"]);
        assert_eq!(dearer(&ratios(1.0), &Ratios::new()), ["last 1.0000"]);
    }

    #[test]
    fn tolerance_is_wide_for_wasm_and_for_few_requests() {
        let percent = |name, is_short| tolerance(name, is_short) * 100.0;
        assert_eq!(
            ["last", "forwarded", "wasm-last", "wasm-token"].map(|name| percent(name, false)),
            [1.0, 1.0, 3.0, 3.0]
        );
        assert_eq!(percent("last", true), 3.0);
    }

    #[test]
    fn global_limit_is_compared_with_no_limit() {
        let cost = |module| Cost { total: 1.0, module };
        let costs =
            Costs::from([("last", cost(8_000.0)), ("global-limit", cost(8_170.0)), ("global-rate", cost(8_200.0))]);
        assert_eq!(of_global_limits(&costs), [("global-limit", 170.0), ("global-rate", 200.0)]);
        assert!(of_global_limits(&Costs::from([("last", cost(8_000.0))])).is_empty(), "they were not counted");
    }
}
