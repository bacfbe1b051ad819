use std::collections::BTreeMap;
use std::path::Path;

use portcullis_harness::deps;
use serde::{Deserialize, Serialize};

use crate::RESULTS;
use crate::combination::{Combination, Filter};
use crate::error::Error;
use crate::features::Features;
use crate::features::read;

/// The results of a run of the tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// One for each combination that was run, the oldest Envoy first.
    pub runs: Vec<Run>,
}

/// The results of the tests with one combination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Envoy's version to the patch.
    pub envoy: String,
    /// The build of the filter.
    pub filter: Filter,
    /// The version of the real Kubernetes behind the gateway.
    pub kubernetes: String,
    /// How long it took.
    pub seconds: u64,
    /// Why the combination serves nothing, in Envoy's own words. No further tests are run then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The outcome of each test.
    pub tests: BTreeMap<String, Outcome>,
}

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It failed among the others, and passed alone.
    Repeated,
    /// It failed among the others and alone.
    Failed,
}

impl Run {
    /// The combination that was run.
    pub fn combination(&self) -> Combination {
        Combination { envoy: self.envoy.clone(), filter: self.filter }
    }
}

impl Results {
    /// Reads them below the project's root.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Json`].
    pub fn read(root: &Path) -> Result<Self, Error> {
        read(root, RESULTS)
    }

    /// Writes them below the project's root.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Json`].
    pub fn write(&self, root: &Path) -> Result<(), Error> {
        let json = |source| Error::Json { what: RESULTS.to_owned(), source };
        let text = serde_json::to_string_pretty(self).map_err(json)? + "\n";
        let path = root.join(RESULTS);
        std::fs::write(&path, text).map_err(|source| Error::File { step: "writing", path, source })
    }

    /// The run of a combination.
    ///
    /// # Errors
    /// [`Error::NotRun`].
    pub fn of(&self, combination: &Combination) -> Result<&Run, Error> {
        let found = self.runs.iter().find(|run| run.combination() == *combination);
        found.ok_or_else(|| Error::NotRun { what: combination.to_string() })
    }

    /// Takes a run in the place of an older one of its combination, and forgets combinations that are pinned no more.
    pub fn put(&mut self, run: Run) {
        let all = Combination::all();
        self.runs.retain(|one| one.combination() != run.combination() && all.contains(&one.combination()));
        self.runs.push(run);
        self.runs.sort_by_key(|run| all.iter().position(|one| *one == run.combination()));
    }

    /// Checks that these are the runs of the pinned versions, of the tests of these features and no others.
    ///
    /// # Errors
    /// [`Error::NotRun`], for what is missing or too much.
    pub fn check(&self, features: &Features) -> Result<(), Error> {
        let missing = |what: String| Err(Error::NotRun { what });
        let (all, kubernetes) = (Combination::all(), deps::pinned("KUBERNETES_VERSION").unwrap_or_default());
        for combination in &all {
            let run = self.of(combination)?;
            if run.kubernetes != kubernetes {
                return missing(format!("{combination} with Kubernetes {kubernetes}"));
            }
            let wanted = features.tests(combination.filter);
            let wanted = if run.refusal.is_some() { wanted.get(..1).unwrap_or_default() } else { &wanted };
            if let Some(test) = wanted.iter().find(|test| !run.tests.contains_key(**test)) {
                return missing(format!("{combination}: {test}"));
            }
            if let Some(test) = run.tests.keys().find(|test| !wanted.contains(&test.as_str())) {
                return missing(format!("{combination}: the list that is without {test}"));
            }
        }
        if let Some(run) = self.runs.iter().find(|run| !all.contains(&run.combination())) {
            return missing(format!("what is pinned in the place of {}", run.combination()));
        }
        Ok(())
    }
}
