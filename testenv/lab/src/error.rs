use portcullis_stub_apiserver::StubError;

/// Why the lab does not stand. All are faults of the machine or of a program that it starts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    /// A step of the harness.
    #[error(transparent)]
    Harness(#[from] portcullis_harness::Error),
    /// A stub apiserver.
    #[error("starting a stub apiserver: {0}")]
    Stub(#[from] StubError),
    /// Signal handlers.
    #[error("waiting for signals: {0}")]
    Signals(std::io::Error),
    /// Ctrl-C before the lab stood.
    #[error("interrupted before the lab stood")]
    Interrupted,
    /// A bug of the lab.
    #[error("the lab's start panicked")]
    Panicked,
}
