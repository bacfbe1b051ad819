use std::path::Path;

use serde::Deserialize;

use crate::FEATURES;
use crate::combination::{Combination, Filter};
use crate::error::Error;

/// The list of features, in the order of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    /// The test that finds out whether a combination serves anything at all.
    pub probe: String,
    /// The features.
    pub features: Vec<Feature>,
    /// Remarks where a yes or a no is not enough.
    pub remarks: Vec<Note>,
}

/// A feature for users. A test is `<suite>::<path>`, where the suite is a test of the package `portcullis-e2e`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// In the words of users.
    pub feature: String,
    /// The tests that prove it with each build of the filter.
    #[serde(default)]
    pub tests: Vec<String>,
    /// More tests, which are about the module.
    #[serde(default)]
    pub module: Vec<String>,
    /// More tests, which are about portcullis.wasm.
    #[serde(default)]
    pub wasm: Vec<String>,
}

/// A remark below the table about cells of a feature.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The feature, as it is called in the list.
    pub feature: String,
    /// Versions of Envoy without the patch.
    pub envoy: Vec<String>,
    /// Builds of the filter; all if left out.
    #[serde(default = "every_build")]
    pub filter: Vec<Filter>,
    /// The tests of the feature that need not pass there, for the reason in the remark.
    #[serde(default)]
    pub excuses: Vec<String>,
    /// The remark.
    pub text: String,
}

fn every_build() -> Vec<Filter> {
    Filter::ALL.to_vec()
}

impl Features {
    /// Reads the list below the project's root and checks that it fits the combinations.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Json`], [`Error::List`].
    pub fn read(root: &Path) -> Result<Self, Error> {
        let features: Self = read(root, FEATURES)?;
        let wrong = |what: &str, why| Err(Error::List { what: what.to_owned(), why });
        for feature in &features.features {
            if Filter::ALL.iter().all(|filter| feature.proofs(*filter).next().is_none()) {
                return wrong(&feature.feature, "it has no test");
            }
        }
        for remark in &features.remarks {
            if features.features.iter().all(|feature| feature.feature != remark.feature) {
                return wrong(&remark.feature, "a remark is about it, and it is no feature");
            }
            let is_known = |minor: &String| Combination::all().iter().any(|one| one.minor() == minor);
            if remark.envoy.is_empty() || !remark.envoy.iter().all(is_known) {
                return wrong(&remark.text, "it is about an Envoy that is not pinned");
            }
        }
        Ok(features)
    }

    /// Every test that is to run with a build, in the list's order, each once. The probe is the first.
    pub fn tests(&self, filter: Filter) -> Vec<&str> {
        let mut all = vec![self.probe.as_str()];
        for test in self.features.iter().flat_map(|feature| feature.proofs(filter)) {
            if !all.contains(&test) {
                all.push(test);
            }
        }
        all
    }
}

impl Feature {
    /// The tests that prove it with a build of the filter. None: it is not for that build.
    pub fn proofs(&self, filter: Filter) -> impl Iterator<Item = &str> {
        let more = match filter {
            Filter::Module => &self.module,
            Filter::Wasm => &self.wasm,
        };
        self.tests.iter().chain(more).map(String::as_str)
    }
}

impl Note {
    /// Whether it is about a cell.
    pub fn is_about(&self, feature: &str, combination: &Combination) -> bool {
        self.feature == feature
            && self.filter.contains(&combination.filter)
            && self.envoy.iter().any(|minor| minor == combination.minor())
    }
}

/// Reads a JSON file below the project's root.
pub(crate) fn read<T: serde::de::DeserializeOwned>(root: &Path, file: &str) -> Result<T, Error> {
    let path = root.join(file);
    let text = std::fs::read_to_string(&path).map_err(|source| Error::File { step: "reading", path, source })?;
    serde_json::from_str(&text).map_err(|source| Error::Json { what: file.to_owned(), source })
}
