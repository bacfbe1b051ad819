use std::sync::Arc;

use crate::diagnosis::Diagnosis;
use crate::resource::ResourceGroup;

/// Parts of the objects, each for Envoys of its own. An object may be in several or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// The number of parts; at least one is made.
    pub count: usize,
    /// The parts of each document, in the documents' order. A document beyond their end is in the first part alone.
    pub of: &'a [Vec<usize>],
    /// Whether each document, in the documents' order, is translated elsewhere, by other settings: here it has its names alone, which it
    /// keeps closed, and its diagnosis says nothing. Those beyond the end are not.
    pub foreign: &'a [bool],
}

/// The output of a translation in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartedTranslation {
    /// Envoy's resources of each part, as [`crate::Translation::groups`]. An object that is in several has the same allocation there.
    pub groups: Vec<Vec<ResourceGroup>>,
    /// One per document, in the documents' order, whatever its parts are.
    pub diagnoses: Vec<Arc<Diagnosis>>,
}

impl Parts<'_> {
    /// Whether a document is in a part, by their indices.
    pub(crate) fn has(&self, part: usize, document: usize) -> bool {
        self.of.get(document).map_or(part == 0, |parts| parts.contains(&part))
    }

    /// Whether a document is translated elsewhere.
    pub(crate) fn is_foreign(&self, document: usize) -> bool {
        self.foreign.get(document).copied().unwrap_or_default()
    }

    /// Whether a document is in parts, and not in the first.
    pub(crate) fn has_others_alone(&self, document: usize) -> bool {
        self.of.get(document).is_some_and(|parts| !parts.is_empty() && !parts.contains(&0))
    }
}
