use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{ConfigScheduler, HeaderMap, StreamScheduler};
use crate::raw::{self, Buffer, ConfigPtr, FilterPtr, HeaderPair};

/// Room for the headers of an honest request, on the stack.
const INLINE_HEADERS: usize = 48;

/// A counter without labels, or with one whose values come from a closed set.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    id: usize,
}

/// A filter's configuration while it is being made.
#[derive(Debug)]
pub struct ConfigHandle {
    config: ConfigPtr,
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

    /// Defines a counter. `None` if Envoy refuses, for instance because the name is taken.
    pub fn counter(&mut self, name: &str, labels: &[&str]) -> Option<Counter> {
        let labels: Vec<Buffer> = labels.iter().map(|label| Buffer::lend(label.as_bytes())).collect();
        let mut id = 0;
        // SAFETY: the pointer is valid for this call (see `new`), all buffers are lent for it and Envoy copies them.
        let result = unsafe {
            raw::envoy_dynamic_module_callback_http_filter_config_define_counter(
                self.config,
                Buffer::lend(name.as_bytes()),
                labels.as_ptr(),
                labels.len(),
                &raw mut id,
            )
        };
        (result == 0).then_some(Counter { id })
    }
}

/// One stream. Lives for the length of one hook.
#[derive(Debug)]
pub struct FilterHandle {
    filter: FilterPtr,
    answered: bool,
    continues: bool,
}

impl FilterHandle {
    /// # Safety
    /// `filter` is what Envoy passed to the hook that is running, and the handle does not outlive it.
    pub(crate) unsafe fn new(filter: FilterPtr) -> Self {
        FilterHandle { filter, answered: false, continues: false }
    }

    /// All headers of a map, in order.
    pub fn headers(&self, map: HeaderMap) -> Headers<'_> {
        let mut headers =
            Headers { inline: [MaybeUninit::uninit(); INLINE_HEADERS], spill: Vec::new(), len: 0, borrow: PhantomData };
        // SAFETY: the filter is alive for the hook (see `new`).
        let size = unsafe { raw::envoy_dynamic_module_callback_http_get_headers_size(self.filter, map.code()) };
        let target = if size <= INLINE_HEADERS {
            headers.inline.as_mut_ptr().cast::<HeaderPair>()
        } else {
            headers.spill.reserve_exact(size);
            headers.spill.as_mut_ptr()
        };
        // SAFETY: `target` has room for `size` pairs, which is what Envoy writes: nothing changed the map in between.
        if unsafe { raw::envoy_dynamic_module_callback_http_get_headers(self.filter, map.code(), target) } {
            headers.len = size;
            if size > INLINE_HEADERS {
                // SAFETY: Envoy has just written that many.
                unsafe { headers.spill.set_len(size) };
            }
        }
        headers
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

    /// Takes out every header of the name.
    pub fn remove_header(&mut self, map: HeaderMap, name: &[u8]) {
        // SAFETY: buffers are lent for the call; a null value means removal.
        unsafe {
            raw::envoy_dynamic_module_callback_http_set_header(
                self.filter,
                map.code(),
                Buffer::lend(name),
                Buffer::EMPTY,
            );
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

    /// Answers the stream. The first answer stands, later ones are dropped.
    pub fn send_response(&mut self, status: u16, headers: &[(&[u8], &[u8])], body: &[u8], details: &[u8]) {
        if std::mem::replace(&mut self.answered, true) {
            return;
        }
        let headers: Vec<HeaderPair> = headers
            .iter()
            .map(|(name, value)| HeaderPair { key: Buffer::lend(name), value: Buffer::lend(value) })
            .collect();
        // SAFETY: all buffers are lent for the call and Envoy copies them.
        unsafe {
            raw::envoy_dynamic_module_callback_http_send_response(
                self.filter,
                u32::from(status),
                headers.as_ptr(),
                headers.len(),
                Buffer::lend(body),
                Buffer::lend(details),
            );
        }
    }

    /// Ends the stream without an answer.
    pub fn reset(&mut self, details: &[u8]) {
        /// `filter_stream_reset_reason`: local reset.
        const LOCAL_RESET: u32 = 0;
        self.answered = true;
        // SAFETY: the filter is alive, the details are lent for the call and Envoy copies them.
        unsafe {
            raw::envoy_dynamic_module_callback_http_filter_reset_stream(
                self.filter,
                LOCAL_RESET,
                Buffer::lend(details),
            );
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

    /// Lets what a hook of the stream kept back go on to the next filter, as soon as the running hook has returned.
    pub const fn continue_decoding(&mut self) {
        self.continues = true;
    }

    /// Does what [`FilterHandle::continue_decoding`] asked for. The next filters may answer and even end the stream: Envoy then
    /// calls other hooks of it, and destroys it, before this returns. So nobody may hold a reference to it.
    pub(super) fn continue_if_asked(&mut self) {
        if std::mem::take(&mut self.continues) {
            // SAFETY: the filter is alive.
            unsafe { raw::envoy_dynamic_module_callback_http_filter_continue_decoding(self.filter) }
        }
    }

    /// Makes Envoy choose the route again.
    pub fn clear_route_cache(&mut self) {
        // SAFETY: the filter is alive.
        unsafe { raw::envoy_dynamic_module_callback_http_clear_route_cache(self.filter) }
    }

    /// Counts one; `labels` as many as the counter was defined with, of a closed set.
    pub fn increment(&mut self, counter: Counter, labels: &[&str]) {
        let labels: Vec<Buffer> = labels.iter().map(|label| Buffer::lend(label.as_bytes())).collect();
        // SAFETY: the filter is alive, the labels are lent for the call.
        unsafe {
            raw::envoy_dynamic_module_callback_http_filter_increment_counter(
                self.filter,
                counter.id,
                labels.as_ptr(),
                labels.len(),
                1,
            );
        }
    }
}

/// A stream's headers, as Envoy holds them.
pub struct Headers<'a> {
    inline: [MaybeUninit<HeaderPair>; INLINE_HEADERS],
    spill: Vec<HeaderPair>,
    len: usize,
    borrow: PhantomData<&'a FilterHandle>,
}

impl<'a> Headers<'a> {
    /// Names, lower-case, and values. The bytes live as long as the handle is only shared, also beyond this list.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let pairs = if self.len <= INLINE_HEADERS {
            let inline = self.inline.get(..self.len).unwrap_or_default();
            // SAFETY: the first `len` pairs were written by Envoy, and a MaybeUninit has the layout of what it holds.
            unsafe { std::slice::from_raw_parts(inline.as_ptr().cast::<HeaderPair>(), inline.len()) }
        } else {
            &self.spill
        };
        // SAFETY: Envoy's buffers stay until a setter is called, which needs the handle that `'a` borrows.
        pairs.iter().map(|pair| unsafe { (pair.key.bytes(), pair.value.bytes()) })
    }
}

impl std::fmt::Debug for Headers<'_> {
    /// Values may be secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Headers").field("len", &self.len).finish_non_exhaustive()
    }
}
