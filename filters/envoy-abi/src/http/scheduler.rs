use crate::raw::{self, ConfigPtr, FilterPtr, SchedulerPtr};

/// Wakes one stream on its worker, from any thread. Does nothing once the stream is gone.
#[derive(Debug)]
pub struct StreamScheduler(SchedulerPtr);

// SAFETY: Envoy's scheduler posts to the worker's dispatcher, which is made for calls from other threads.
unsafe impl Send for StreamScheduler {}
// SAFETY: as above; committing does not change the scheduler.
unsafe impl Sync for StreamScheduler {}

impl StreamScheduler {
    /// # Safety
    /// `filter` is what Envoy passed to the hook that is running.
    pub(super) unsafe fn new(filter: FilterPtr) -> Self {
        // SAFETY: as the caller says.
        StreamScheduler(unsafe { raw::envoy_dynamic_module_callback_http_filter_scheduler_new(filter) })
    }

    /// Makes Envoy call `resumed`.
    pub fn wake(&self) {
        // SAFETY: deleted only on drop.
        unsafe { raw::envoy_dynamic_module_callback_http_filter_scheduler_commit(self.0, 0) }
    }
}

impl Drop for StreamScheduler {
    fn drop(&mut self) {
        // SAFETY: made by `scheduler_new`, not used again.
        unsafe { raw::envoy_dynamic_module_callback_http_filter_scheduler_delete(self.0) }
    }
}

/// Wakes a filter's configuration on the main thread, from any thread.
#[derive(Debug)]
pub struct ConfigScheduler(SchedulerPtr);

// SAFETY: as for the stream's scheduler, with the main thread's dispatcher.
unsafe impl Send for ConfigScheduler {}
// SAFETY: as above.
unsafe impl Sync for ConfigScheduler {}

impl ConfigScheduler {
    /// # Safety
    /// `config` is what Envoy passed to `http_filter_config_new`, and the call has not returned.
    pub(super) unsafe fn new(config: ConfigPtr) -> Self {
        // SAFETY: as the caller says.
        ConfigScheduler(unsafe { raw::envoy_dynamic_module_callback_http_filter_config_scheduler_new(config) })
    }

    /// Makes Envoy call `on_main_thread`.
    pub fn wake(&self) {
        // SAFETY: deleted only on drop.
        unsafe { raw::envoy_dynamic_module_callback_http_filter_config_scheduler_commit(self.0, 0) }
    }
}

impl Drop for ConfigScheduler {
    fn drop(&mut self) {
        // SAFETY: made by `scheduler_new`, not used again.
        unsafe { raw::envoy_dynamic_module_callback_http_filter_config_scheduler_delete(self.0) }
    }
}
