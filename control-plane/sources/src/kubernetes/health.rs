use std::time::SystemTime;

/// Whether what a source yields is current.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceHealth {
    /// Since when it is not, if it is not: the last set stays in use. At a start, since then.
    pub stale_since: Option<SystemTime>,
    /// Why, for people. No secret is in it.
    pub reason: Option<String>,
}

impl SourceHealth {
    /// The known objects are current.
    pub fn current() -> Self {
        Self::default()
    }

    /// The known objects may be old.
    pub fn stale(since: SystemTime, reason: impl Into<String>) -> Self {
        Self { stale_since: Some(since), reason: Some(reason.into()) }
    }
}
