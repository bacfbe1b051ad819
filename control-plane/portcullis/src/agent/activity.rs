//! The page of activity of the filter.

use portcullis_filter_config::activity::Activity;

/// Where the page is read.
#[derive(Clone, Debug)]
pub(super) struct ActivitySource;

/// The reason that there is no page.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActivityError {
    #[error("no filter has announced a page")]
    Unavailable,
}

impl ActivitySource {
    /// The newest page.
    pub(super) async fn fetch(&self) -> Result<Activity, ActivityError> {
        Err(ActivityError::Unavailable)
    }
}
