use super::FilterHandle;
use crate::raw::{self, Buffer, SpanPtr};

/// A span of the filter's own below the one of its stream. Ends when it is dropped, at the latest with the stream.
#[derive(Debug)]
pub struct ChildSpan(SpanPtr);

/// The span of a stream that Envoy traces.
#[derive(Debug)]
pub struct StreamSpan<'s> {
    span: SpanPtr,
    stream: &'s mut FilterHandle,
}

impl FilterHandle {
    /// The span of the stream; `None` if Envoy has no tracer for it.
    pub fn span(&mut self) -> Option<StreamSpan<'_>> {
        // SAFETY: the filter is alive.
        let span = unsafe { raw::envoy_dynamic_module_callback_http_get_active_span(self.filter) };
        (!span.is_null()).then_some(StreamSpan { span, stream: self })
    }
}

impl StreamSpan<'_> {
    /// Its stream.
    pub fn stream(&mut self) -> &mut FilterHandle {
        self.stream
    }

    /// Names it.
    pub fn set_name(&mut self, name: &str) {
        // SAFETY: the span is the stream's, which is alive while it is borrowed; the name is lent for the call.
        unsafe { raw::envoy_dynamic_module_callback_http_span_set_operation(self.span, Buffer::lend(name.as_bytes())) }
    }

    /// Writes an attribute.
    pub fn set_tag(&mut self, name: &str, value: &str) {
        // SAFETY: the span is the stream's, which is alive while it is borrowed.
        unsafe { set_tag(self.span, name, value) }
    }

    /// Begins a span below it.
    pub fn start_child(&mut self, name: &str) -> Option<ChildSpan> {
        let name = Buffer::lend(name.as_bytes());
        // SAFETY: filter and span are the stream's, which is alive while it is borrowed; the name is lent for the call.
        let child =
            unsafe { raw::envoy_dynamic_module_callback_http_span_spawn_child(self.stream.filter, self.span, name) };
        (!child.is_null()).then_some(ChildSpan(child))
    }
}

impl ChildSpan {
    /// Writes an attribute.
    pub fn set_tag(&mut self, name: &str, value: &str) {
        // SAFETY: alive until it is dropped.
        unsafe { set_tag(self.0, name, value) }
    }

    /// The ids of the trace and of this span, in lower-case hexadecimal digits. `None` for a tracer without ids.
    pub fn ids(&self) -> Option<(String, String)> {
        let read = |get: unsafe extern "C" fn(SpanPtr, *mut Buffer) -> bool| {
            let mut id = Buffer::EMPTY;
            // SAFETY: the span is alive; Envoy writes a buffer that it keeps until it is asked for another id on this thread.
            let bytes = unsafe { get(self.0, &raw mut id).then(|| id.bytes()) }?;
            std::str::from_utf8(bytes).ok().map(str::to_owned)
        };
        let trace = read(raw::envoy_dynamic_module_callback_http_span_get_trace_id)?;
        Some((trace, read(raw::envoy_dynamic_module_callback_http_span_get_span_id)?))
    }
}

impl Drop for ChildSpan {
    fn drop(&mut self) {
        // SAFETY: made by `span_spawn_child` and not used again. Dropped on the worker of its stream, because it is not `Send`, and
        // before the stream, whose tracer Envoy keeps for as long.
        unsafe { raw::envoy_dynamic_module_callback_http_child_span_finish(self.0) }
    }
}

/// # Safety
/// The span is alive.
unsafe fn set_tag(span: SpanPtr, name: &str, value: &str) {
    let (name, value) = (Buffer::lend(name.as_bytes()), Buffer::lend(value.as_bytes()));
    // SAFETY: as the caller says; buffers are lent for the call and Envoy copies them.
    unsafe { raw::envoy_dynamic_module_callback_http_span_set_tag(span, name, value) }
}
