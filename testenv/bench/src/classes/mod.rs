//! The owners of the code that a request runs in Envoy: instructions by source file, library and class, of two cases and between
//! them.

mod areas;
mod costs;
mod executable;
mod ledger;
mod mangled;
mod paths;
mod samples;
mod units;
mod vtables;

use std::path::Path;

use portcullis_harness::deps;

use crate::callgrind;
use crate::case::Case;
use crate::error::BenchError;
use crate::profile::Profile;
use costs::Costs;
use executable::Executable;
use ledger::Ledger;
pub(crate) use samples::{Samples, run as samples};
use units::Units;

/// Prints the tables of the cases of an earlier run.
pub(crate) fn saved(dir: &Path, requests: u32) -> Result<(), BenchError> {
    let mut classes = Classes::default();
    for case in Case::ALL {
        let out = dir.join(case.slug()).join(callgrind::OUT);
        let rounds = (1..).map(|number| callgrind::dumps(&out, number)).take_while(|files| !files.is_empty());
        if let Some(files) = rounds.last() {
            classes.take(case, &[callgrind::worker(&files)?])?;
        }
    }
    classes.print(requests);
    Ok(())
}

/// The rounds that are compared, each a case's last.
#[derive(Default)]
pub(crate) struct Classes {
    cases: Vec<(Case, Costs)>,
    envoy: Option<Executable>,
}

impl Classes {
    /// Takes a case's last round.
    pub(crate) fn take(&mut self, case: Case, rounds: &[Profile]) -> Result<(), BenchError> {
        let Some(round) = rounds.last() else { return Ok(()) };
        let path = deps::envoy().map_err(portcullis_harness::Error::from)?;
        let envoy = match self.envoy.take() {
            Some(envoy) => envoy,
            None => Executable::read(&path)
                .map_err(|source| BenchError::Executable { path: path.display().to_string(), source })?,
        };
        let text = std::fs::read_to_string(&round.file)
            .map_err(|source| BenchError::Read { path: round.file.display().to_string(), source })?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.cases.push((case, Costs::parse(&text, &envoy, &name)));
        self.envoy = Some(envoy);
        Ok(())
    }

    /// Prints each case beside the one that it is compared with.
    pub(crate) fn print(&self, requests: u32) {
        let Some(envoy) = &self.envoy else { return };
        let units = Units::new(envoy);
        for (case, costs) in self.cases.iter().filter(|(case, _)| case.baseline() != *case) {
            if let Some((of, baseline)) = self.cases.iter().find(|(of, _)| *of == case.baseline()) {
                println!("\n{}, beside {}\n", case.title(), of.title());
                print!("{}", Ledger::new(&units, baseline, costs, requests));
            }
        }
    }
}
