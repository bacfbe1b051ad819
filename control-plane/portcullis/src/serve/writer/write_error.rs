use kube::Error;

/// The step at which a write failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// A request.
    #[error(transparent)]
    Request(#[from] Error),
    /// The comparison with what was read.
    #[error("the status or the object is another one than the one that was read")]
    Comparison,
}
