use super::{ConfigScheduler, HeaderMap, StreamScheduler, worker_streams};
use crate::exported::is_1_39_or_later;
use crate::raw::{self, Buffer, ConfigPtr, FilterPtr, HeaderPair};

/// A filter's configuration while it is being made.
#[derive(Debug)]
pub struct ConfigHandle {
    pub(super) config: ConfigPtr,
}

impl ConfigHandle {
    /// # Safety
    /// `config` is what Envoy passed to `http_filter_config_new`, and the call has not returned.
    pub(crate) unsafe fn new(config: ConfigPtr) -> Self {
        ConfigHandle { config }
    }

    /// Wakes this configuration on the main thread.
    pub fn scheduler(&mut self) -> ConfigScheduler {
        // SAFETY: the call that `new` speaks of is running.
        unsafe { ConfigScheduler::new(self.config) }
    }
}

/// One stream. Lives for the length of one hook.
#[derive(Debug)]
pub struct FilterHandle {
    pub(super) filter: FilterPtr,
    ending: Option<Ending>,
    group: Option<u64>,
}

/// An answer of the filter's own.
#[derive(Debug)]
pub struct LocalReply {
    /// HTTP status.
    pub status: u16,
    /// Names, lower-case, and values.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
    /// `response.code_details`, for access logs; no blanks.
    pub details: String,
}

/// The effect at the end of a hook, because it may call other hooks of the same stream, which then is gone.
#[derive(Debug)]
enum Ending {
    Reply(LocalReply),
    Reset(String),
    Finish,
    Continue,
}

impl FilterHandle {
    /// # Safety
    /// `filter` is what Envoy passed to the hook that is running, and the handle does not outlive it.
    pub(crate) unsafe fn new(filter: FilterPtr) -> Self {
        FilterHandle { filter, ending: None, group: None }
    }

    /// The first header of the name.
    pub fn header(&self, map: HeaderMap, name: &[u8]) -> Option<&[u8]> {
        let mut value = Buffer::EMPTY;
        // SAFETY: the filter is alive, the name is lent for the call; Envoy keeps the value until a setter is called, which
        // needs `&mut self`.
        unsafe {
            raw::envoy_dynamic_module_callback_http_get_header(
                self.filter,
                map.code(),
                Buffer::lend(name),
                &raw mut value,
                0,
                std::ptr::null_mut(),
            )
            .then(|| value.bytes())
        }
    }

    /// Removes every header of the name. True if none is left, also where there was none; false if Envoy refuses, and the
    /// message must not go on.
    #[must_use]
    pub fn remove_header(&mut self, map: HeaderMap, name: &[u8]) -> bool {
        // SAFETY: buffers are lent for the call; a null value means removal.
        unsafe {
            raw::envoy_dynamic_module_callback_http_set_header(
                self.filter,
                map.code(),
                Buffer::lend(name),
                Buffer::EMPTY,
            )
        }
    }

    /// Replaces every header of the name by one. False if Envoy refuses.
    #[must_use]
    pub fn set_header(&mut self, name: &[u8], value: &[u8]) -> bool {
        let kind = HeaderMap::Request.code();
        // SAFETY: buffers are lent for the call and Envoy copies them; a slice's pointer is never null.
        unsafe {
            raw::envoy_dynamic_module_callback_http_set_header(
                self.filter,
                kind,
                Buffer::lend(name),
                Buffer::lend(value),
            )
        }
    }

    /// Adds a header beside others of the name. False if Envoy refuses.
    #[must_use]
    pub fn add_header(&mut self, name: &[u8], value: &[u8]) -> bool {
        let kind = HeaderMap::Request.code();
        // SAFETY: as in `set_header`.
        unsafe {
            raw::envoy_dynamic_module_callback_http_add_header(
                self.filter,
                kind,
                Buffer::lend(name),
                Buffer::lend(value),
            )
        }
    }

    /// Has the stream found by [`FilterHandle::wake_streams`] on its worker, as one of that group, until it ends.
    pub fn join(&mut self, group: u64) {
        self.group = Some(group);
    }

    pub(super) fn take_group(&mut self) -> Option<u64> {
        self.group.take()
    }

    /// Wakes the streams of this worker whose group `is_meant`: Envoy calls `resumed` of each once this hook has returned.
    pub fn wake_streams(&self, is_meant: impl Fn(u64) -> bool) {
        worker_streams::wake_streams(is_meant);
    }

    /// Answers the stream when the hook has returned. The first answer stands, later ones are dropped.
    pub fn send_response(&mut self, reply: LocalReply) {
        self.end(Ending::Reply(reply));
    }

    /// Ends the stream without an answer when the hook has returned.
    pub fn reset(&mut self, details: String) {
        self.end(Ending::Reset(details));
    }

    /// Ends the answer, whose headers have gone out, as if the upstream had ended it, when the hook has returned.
    ///
    /// For `resumed` only: between a hook about headers or body and what comes after it, Envoy does not expect an end.
    pub fn finish(&mut self) {
        self.end(Ending::Finish);
    }

    fn end(&mut self, ending: Ending) {
        if !matches!(self.ending, Some(Ending::Reply(_) | Ending::Reset(_) | Ending::Finish)) {
            self.ending = Some(ending);
        }
    }

    /// Applies the effect that the hook asked for. Nothing may refer to the stream's state any more: Envoy may call other hooks
    /// of it.
    pub(crate) fn carry_out(self) {
        match self.ending {
            Some(Ending::Reply(reply)) => reply.send(self.filter),
            Some(Ending::Reset(details)) => reset(self.filter, &details),
            // SAFETY: the filter is alive; nothing is lent.
            Some(Ending::Finish) => unsafe {
                raw::envoy_dynamic_module_callback_http_send_response_data(self.filter, Buffer::EMPTY, true);
            },
            // SAFETY: the filter is alive, nothing before this call has ended it.
            Some(Ending::Continue) => unsafe {
                raw::envoy_dynamic_module_callback_http_filter_continue_decoding(self.filter);
            },
            None => {}
        }
    }

    /// Whether the connection's client presented a certificate: presented, not verified.
    pub fn presented_certificate(&self) -> bool {
        /// `connection.mtls`
        const ATTRIBUTE: u32 = 29;
        let mut presented = false;
        // SAFETY: the filter is alive; Envoy writes one bool, if any.
        let known = unsafe {
            raw::envoy_dynamic_module_callback_http_filter_get_attribute_bool(
                self.filter,
                ATTRIBUTE,
                &raw mut presented,
            )
        };
        known && presented
    }

    /// The SHA-256 of the certificate that the connection's client presented, in lower-case hexadecimal digits. `None` or empty
    /// if it presented none.
    pub fn certificate_digest(&self) -> Option<&[u8]> {
        /// `connection.sha256_peer_certificate_digest`
        const ATTRIBUTE: u32 = 38;
        let mut value = Buffer::EMPTY;
        // SAFETY: the filter is alive; Envoy writes a buffer that it keeps for as long as the connection.
        unsafe {
            raw::envoy_dynamic_module_callback_http_filter_get_attribute_string(self.filter, ATTRIBUTE, &raw mut value)
                .then(|| value.bytes())
        }
    }

    /// A value of the stream's or its connection's filter state.
    pub fn filter_state(&self, key: &str) -> Option<&[u8]> {
        let mut value = Buffer::EMPTY;
        // SAFETY: the filter is alive; Envoy writes a buffer that it keeps for as long as the stream's filter state is not
        // written to, which needs `&mut self`.
        unsafe {
            raw::envoy_dynamic_module_callback_http_get_filter_state_bytes(
                self.filter,
                Buffer::lend(key.as_bytes()),
                &raw mut value,
            )
            .then(|| value.bytes())
        }
    }

    /// Writes the stream's filter state. False if Envoy refuses.
    #[must_use]
    pub fn set_filter_state(&mut self, key: &str, value: &[u8]) -> bool {
        // SAFETY: buffers are lent for the call and Envoy copies them.
        unsafe {
            raw::envoy_dynamic_module_callback_http_set_filter_state_bytes(
                self.filter,
                Buffer::lend(key.as_bytes()),
                Buffer::lend(value),
            )
        }
    }

    /// Wakes this stream from elsewhere.
    pub fn scheduler(&mut self) -> StreamScheduler {
        // SAFETY: the filter is alive.
        unsafe { StreamScheduler::new(self.filter) }
    }

    /// Lets a waiting stream go on to the next filter when the hook has returned.
    pub fn continue_decoding(&mut self) {
        self.ending.get_or_insert(Ending::Continue);
    }

    /// Makes Envoy choose the route again.
    pub fn clear_route_cache(&mut self) {
        // SAFETY: the filter is alive.
        unsafe { raw::envoy_dynamic_module_callback_http_clear_route_cache(self.filter) }
    }

    /// Lets the connection take no more requests: the next answer on HTTP/1.1 carries `Connection: close`, HTTP/2 sends
    /// GOAWAY. Whatever runs on the connection goes on, and it is closed when all has ended.
    ///
    /// For `resumed` only: within a hook about headers, body or trailers Envoy stops passing on the message as well.
    pub fn drain_connection(&mut self) {
        // SAFETY: the filter is alive; Envoy writes a frame and starts a timer, and calls no hook meanwhile.
        unsafe { raw::envoy_dynamic_module_callback_http_filter_send_go_away_and_close(self.filter, true) }
    }

    /// Address and port of the server that the request went to last (`upstream.address`). `None` without one.
    pub fn upstream_address(&self) -> Option<&[u8]> {
        /// `upstream.address`
        const ATTRIBUTE: u32 = 41;
        self.text(ATTRIBUTE)
    }

    /// The server name of the client's TLS handshake (`connection.requested_server_name`). `None` without one.
    pub fn requested_server_name(&self) -> Option<&[u8]> {
        /// `connection.requested_server_name`
        const ATTRIBUTE: u32 = 30;
        self.text(ATTRIBUTE)
    }

    /// How Envoy says that the answer came about (`response.code_details`). `None` where there is no answer, and on Envoy
    /// before 1.39.
    pub fn code_details(&self) -> Option<&[u8]> {
        /// `response.code_details`
        const ATTRIBUTE: u32 = 16;
        // Envoy logs an error whenever it is asked for what it does not know.
        is_1_39_or_later().then(|| self.text(ATTRIBUTE)).flatten()
    }

    /// The status of the answer (`response.code`). `None` where there is no answer.
    pub fn response_code(&self) -> Option<u16> {
        /// `response.code`
        const ATTRIBUTE: u32 = 15;
        self.number(ATTRIBUTE).and_then(|code| u16::try_from(code).ok()).filter(|code| *code > 0)
    }

    /// Bytes of the answer's body that went to the client so far (`response.size`). `None` on Envoy before 1.39.
    pub fn response_bytes(&self) -> Option<u64> {
        /// `response.size`
        const ATTRIBUTE: u32 = 21;
        is_1_39_or_later().then(|| self.number(ATTRIBUTE)).flatten()
    }

    fn text(&self, attribute: u32) -> Option<&[u8]> {
        let mut value = Buffer::EMPTY;
        // SAFETY: the filter is alive; Envoy writes a buffer that it keeps until a setter is called, which needs
        // `&mut self`.
        unsafe {
            raw::envoy_dynamic_module_callback_http_filter_get_attribute_string(self.filter, attribute, &raw mut value)
                .then(|| value.bytes())
        }
    }

    fn number(&self, attribute: u32) -> Option<u64> {
        let mut value = 0;
        // SAFETY: the filter is alive; Envoy writes one number, if any.
        unsafe {
            raw::envoy_dynamic_module_callback_http_filter_get_attribute_int(self.filter, attribute, &raw mut value)
                .then_some(value)
        }
    }

    /// A text of the metadata of the endpoint that the request went to last.
    pub fn endpoint_metadata(&self, namespace: &str, key: &str) -> Option<&[u8]> {
        /// `metadata_source`: the endpoint's.
        const HOST: u32 = 3;
        let mut value = Buffer::EMPTY;
        // SAFETY: the filter is alive, names are lent for the call; Envoy writes a buffer that it keeps until a setter is
        // called, which needs `&mut self`.
        unsafe {
            raw::envoy_dynamic_module_callback_http_get_metadata_string(
                self.filter,
                HOST,
                Buffer::lend(namespace.as_bytes()),
                Buffer::lend(key.as_bytes()),
                &raw mut value,
            )
            .then(|| value.bytes())
        }
    }
}

impl LocalReply {
    fn send(&self, filter: FilterPtr) {
        let headers: Vec<HeaderPair> = self
            .headers
            .iter()
            .map(|(name, value)| HeaderPair {
                key: Buffer::lend(name.as_bytes()),
                value: Buffer::lend(value.as_bytes()),
            })
            .collect();
        // SAFETY: only called by `carry_out`, in a hook of a live stream; all buffers are lent for the call and Envoy copies
        // them.
        unsafe {
            raw::envoy_dynamic_module_callback_http_send_response(
                filter,
                u32::from(self.status),
                headers.as_ptr(),
                headers.len(),
                Buffer::lend(self.body.as_bytes()),
                Buffer::lend(self.details.as_bytes()),
            );
        }
    }
}

fn reset(filter: FilterPtr, details: &str) {
    /// `filter_stream_reset_reason`: local reset.
    const LOCAL_RESET: u32 = 0;
    // SAFETY: as in `LocalReply::send`.
    unsafe {
        raw::envoy_dynamic_module_callback_http_filter_reset_stream(
            filter,
            LOCAL_RESET,
            Buffer::lend(details.as_bytes()),
        );
    }
}
