use std::sync::Arc;

/// Bytes that an entry of a policy's lists takes in the index of policies (docs/performance.md).
const ENTRY_BYTES: usize = 500;
/// Copies of a configuration's text that a proxy and the filter keep beside the one of each load, parsed ones included.
const TEXT_COPIES: usize = 3;

/// One edition of a cluster's configuration. The filter keeps it until the last load of it is gone. Loads that differ in host names
/// alone are of one edition.
#[derive(Debug, Default)]
pub struct Edition {
    id: u64,
    /// The variant of the configuration.
    variant: Arc<str>,
    bytes: usize,
}

impl Edition {
    /// An edition with a text of that many bytes, and policies with that many entries. A later edition has a greater `id`, which
    /// is unique in the process.
    pub fn new(id: u64, text: usize, entries: usize) -> Self {
        let bytes = text.saturating_mul(TEXT_COPIES).saturating_add(entries.saturating_mul(ENTRY_BYTES));
        Edition { id, bytes, ..Edition::default() }
    }

    /// The edition as one of a variant of the configuration.
    #[must_use]
    pub fn of_variant(self, variant: &str) -> Self {
        Edition { variant: variant.into(), ..self }
    }

    /// The variant of the configuration; empty for the cluster's own.
    pub fn variant(&self) -> &str {
        &self.variant
    }

    /// The same, for its loads.
    pub(super) fn shared_variant(&self) -> &Arc<str> {
        &self.variant
    }

    /// Unique in the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The memory that it takes, whatever number of loads it has.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
