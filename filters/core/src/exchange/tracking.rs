use std::sync::Arc;

use crate::long_streams::{Edition, StreamGuard, StreamRegistry};
use crate::stream_origin::StreamOrigin;

/// How a long-running stream is followed until its server is removed or its time is over.
#[derive(Debug, Default)]
pub(super) enum Tracking<T> {
    /// The request ends by itself.
    #[default]
    None,
    /// The response has not come, and so the server is not known.
    Pending {
        streams: Arc<StreamRegistry<T>>,
        edition: Arc<Edition>,
        origin: Option<Arc<StreamOrigin>>,
        is_watch: bool,
        is_ordinary: bool,
    },
    /// It runs.
    Active { stream: T, is_watch: bool, is_terminated: bool, _guard: StreamGuard<T> },
}
