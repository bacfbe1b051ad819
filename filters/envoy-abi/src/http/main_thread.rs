use crate::raw::{self, Buffer, ConfigPtr, HeaderPair};

/// Names a callout of one filter configuration.
pub type CalloutId = u64;

/// The main thread, for the length of one hook.
#[derive(Debug)]
pub struct MainThread {
    pub(super) config: ConfigPtr,
}

impl MainThread {
    /// # Safety
    /// `config` is what Envoy passed to the configuration hook that is running.
    pub(super) unsafe fn new(config: ConfigPtr) -> Self {
        MainThread { config }
    }

    /// Sends a request to an Envoy cluster. `None` if Envoy does not start it: the cluster is unknown or has no endpoint;
    /// then no answer comes.
    pub fn callout(
        &mut self,
        cluster: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        timeout_ms: u64,
    ) -> Option<CalloutId> {
        let headers: Vec<HeaderPair> = headers
            .iter()
            .map(|(name, value)| HeaderPair {
                key: Buffer::lend(name.as_bytes()),
                value: Buffer::lend(value.as_bytes()),
            })
            .collect();
        let mut id = 0;
        // SAFETY: the configuration is alive for the hook, all buffers are lent for the call and Envoy copies them.
        let result = unsafe {
            raw::envoy_dynamic_module_callback_http_filter_config_http_callout(
                self.config,
                &raw mut id,
                Buffer::lend(cluster.as_bytes()),
                headers.as_ptr(),
                headers.len(),
                Buffer::lend(body),
                timeout_ms,
            )
        };
        (result == 0).then_some(id)
    }
}

/// The answer to a callout. Envoy makes a 503 or 504 itself where the upstream was not reached.
#[derive(Debug)]
pub struct CalloutResponse<'a> {
    /// HTTP status; 0 where there is no answer.
    pub status: u16,
    /// The header `grpc-status`: the outcome of a gRPC call that failed before a message was sent, if Envoy or a server says so
    /// there and not in trailers, which do not come here.
    pub grpc_status: Option<u16>,
    /// The body, in pieces.
    pub chunks: Vec<&'a [u8]>,
    /// Whether Envoy gave the callout up, as it does when the Envoy cluster is replaced.
    pub is_given_up: bool,
}

impl CalloutResponse<'_> {
    /// No answer.
    pub const NONE: CalloutResponse<'static> =
        CalloutResponse { status: 0, grpc_status: None, chunks: Vec::new(), is_given_up: false };
}
