//! Many clients on few threads.

use std::sync::Arc;

use tokio::runtime::Runtime;

use crate::error::{Error, Result};

/// The threads that many connections share.
#[derive(Debug, Clone)]
pub struct ClientPool {
    runtime: Arc<Runtime>,
}

impl ClientPool {
    /// A crowd on that many threads.
    ///
    /// # Errors
    /// [`Error::Http`] if the system has no threads to give.
    pub fn new(threads: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime = runtime.map_err(|error| Error::Http { step: "starting a runtime", reason: error.to_string() })?;
        Ok(Self { runtime: Arc::new(runtime) })
    }

    pub(super) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }
}
