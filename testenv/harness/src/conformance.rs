//! The Gateway API project's own conformance suite (testenv/conformance).

use std::path::PathBuf;

use crate::deps::{Missing, present, unless_required};
use crate::paths::project_root;

/// The suite, built by Go.
#[derive(Debug, Clone)]
pub struct ConformanceSuite {
    /// The program that runs its tests.
    pub program: PathBuf,
    /// The server of its backends.
    pub echo_basic: PathBuf,
    /// The directory with its manifests.
    pub manifests: PathBuf,
}

impl ConformanceSuite {
    /// The suite, or a reason to skip a test; `make test-conformance` sets `PORTCULLIS_CONFORMANCE=required`.
    ///
    /// # Errors
    /// The missing part, if it is required.
    pub fn or_skip(test: &str) -> Result<Option<Self>, Missing> {
        let dir = project_root().join(".deps/conformance/current");
        let find = |name: &str| present(name, dir.join(name), "make test-conformance");
        let found = find("suite").and_then(|program| {
            Ok(Self { program, echo_basic: find("echo-basic")?, manifests: dir.join("manifests") })
        });
        unless_required("PORTCULLIS_CONFORMANCE", test, found)
    }
}
