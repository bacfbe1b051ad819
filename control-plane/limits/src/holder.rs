/// A process that reports the use of its parts. A later one has a greater number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HolderId(pub(crate) u64);

/// One report of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub(crate) id: HolderId,
    /// The number of the report.
    pub(crate) number: u64,
}
