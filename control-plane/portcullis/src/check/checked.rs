//! The outcome of a check.

use portcullis_api::Problem;
use portcullis_sources::Position;
use portcullis_translate::Reason;

/// The outcome of everything that was read.
#[derive(Debug)]
pub(super) struct CheckReport {
    pub(super) objects: Vec<CheckedObject>,
    /// Objects that are not here and are assumed to exist.
    pub(super) notes: Vec<String>,
    /// Whether the settings were guessed, because there are none.
    pub(super) without_settings: bool,
}

/// The outcome of an object, or of a file that cannot be read.
#[derive(Debug)]
pub(super) struct CheckedObject {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) reason: Reason,
    /// Its conditions, in words; only of the Gateway API.
    pub(super) conditions: Vec<String>,
    /// In the order of the text.
    pub(super) findings: Vec<Finding>,
}

/// One thing that is wrong or suspicious, and where.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) file: String,
    pub(super) at: Option<Position>,
    pub(super) is_error: bool,
    pub(super) problem: Problem,
}

impl CheckReport {
    pub(super) fn errors(&self) -> usize {
        self.findings().filter(|finding| finding.is_error).count()
    }

    pub(super) fn warnings(&self) -> usize {
        self.findings().filter(|finding| !finding.is_error).count()
    }

    fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.objects.iter().flat_map(|object| &object.findings)
    }
}
