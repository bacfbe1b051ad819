use std::path::Path;

use serde::Deserialize;

use crate::DIFFERENCES;
use crate::combination::{Combination, Filter};
use crate::error::Error;
use crate::features::read;

/// A difference of portcullis.wasm from the module, as `docs/compatibility.md` lists it.
#[derive(Clone, Debug)]
pub struct Differences(Vec<Difference>);

#[derive(Clone, Debug, Deserialize)]
struct Difference {
    what: String,
    tests: Vec<String>,
}

impl Differences {
    /// Reads them below the project's root.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Json`].
    pub fn read(root: &Path) -> Result<Self, Error> {
        read(root, DIFFERENCES).map(Self)
    }

    /// The row that says why a test need not pass with a combination, if one does.
    pub fn excuse(&self, test: &str, combination: &Combination) -> Option<&str> {
        let named = |one: &&Difference| one.tests.iter().any(|name| test.contains(name.as_str()));
        let of_wasm = (combination.filter == Filter::Wasm).then_some(&self.0)?;
        of_wasm.iter().find(named).map(|one| one.what.as_str())
    }
}
