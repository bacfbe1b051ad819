//! The stand-in's functions for the module.
#![allow(unsafe_code, reason = "the other side of the ABI")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one comment is for all callbacks")]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use envoy_abi::http::entry;
use envoy_abi::raw::{Buffer, ConfigPtr, FilterPtr, HeaderPair, ModulePtr, SchedulerPtr, SpanPtr};

use crate::envoy::{ALIVE, Events, Kept, Posted, Stream, lock, of, text};
use crate::module::Module;

/// The target of a stream's scheduler.
type StreamScheduler = (Weak<Stream>, Events);

fn lend(value: &[u8], out: *mut Buffer) -> bool {
    // SAFETY: the module gave a place to write to.
    unsafe { out.write(Buffer::lend(value)) };
    true
}

macro_rules! callbacks {
    ($(fn $name:ident($($argument:ident: $of:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(#[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $of),*) $(-> $result)? {
            $(let _ = &$argument;)*
            $body
        })*
    };
}

// SAFETY of all of them: called by the module in a hook, with what the hook was given and buffers that it lends.
callbacks! {
    fn envoy_dynamic_module_callback_http_get_headers_size(filter: FilterPtr, kind: u32) -> usize {
        lock(&unsafe { of(filter) }.maps)[kind as usize].as_ref().map_or(0, Vec::len)
    }
    fn envoy_dynamic_module_callback_http_get_headers(filter: FilterPtr, kind: u32, out: *mut HeaderPair) -> bool {
        let maps = lock(&unsafe { of(filter) }.maps);
        let Some(lines) = &maps[kind as usize] else { return false };
        for (at, (name, value)) in lines.iter().enumerate() {
            unsafe { out.add(at).write(HeaderPair { key: Buffer::lend(name), value: Buffer::lend(value) }) };
        }
        true
    }
    fn envoy_dynamic_module_callback_http_get_header(
        filter: FilterPtr, kind: u32, key: Buffer, out: *mut Buffer, index: usize, count: *mut usize
    ) -> bool {
        let (key, maps) = (text(key), lock(&unsafe { of(filter) }.maps));
        let found = maps[kind as usize].iter().flatten().find(|(name, _)| *name == key);
        found.is_some_and(|(_, value)| lend(value, out))
    }
    fn envoy_dynamic_module_callback_http_set_header(filter: FilterPtr, kind: u32, key: Buffer, value: Buffer) -> bool {
        let (key, is_removal) = (text(key), value.ptr.is_null());
        unsafe { of(filter) }.change(kind, |lines| {
            lines.retain(|(name, _)| *name != key);
            if !is_removal {
                lines.push((key, text(value)));
            }
        })
    }
    fn envoy_dynamic_module_callback_http_add_header(filter: FilterPtr, kind: u32, key: Buffer, value: Buffer) -> bool {
        unsafe { of(filter) }.change(kind, |lines| lines.push((text(key), text(value))))
    }
    fn envoy_dynamic_module_callback_http_send_response(
        filter: FilterPtr, status: u32, headers: *const HeaderPair, headers_len: usize, body: Buffer, details: Buffer
    ) {
        let headers = unsafe { std::slice::from_raw_parts(headers, headers_len) };
        let bytes: usize = headers.iter().map(|pair| text(pair.key).len() + text(pair.value).len()).sum();
        let stream = unsafe { of(filter) };
        stream.note(format!("{status} with {bytes} bytes of headers, {} of body", text(body).len()));
        Stream::end_of(filter);
    }
    fn envoy_dynamic_module_callback_http_send_response_data(filter: FilterPtr, data: Buffer, end_stream: bool) {
        let stream = unsafe { of(filter) };
        stream.note("finished");
        Stream::end_of(filter);
    }
    fn envoy_dynamic_module_callback_http_filter_get_attribute_bool(
        filter: FilterPtr, attribute: u32, out: *mut bool
    ) -> bool {
        unsafe { out.write(of(filter).is_certified) };
        true
    }
    fn envoy_dynamic_module_callback_http_filter_get_attribute_int(
        filter: FilterPtr, attribute: u32, out: *mut u64
    ) -> bool {
        unsafe { out.write(u64::from(attribute)) };
        !filter.is_null()
    }
    fn envoy_dynamic_module_callback_http_get_filter_state_bytes(
        filter: FilterPtr, key: Buffer, out: *mut Buffer
    ) -> bool {
        let (key, state) = (text(key), lock(&unsafe { of(filter) }.state));
        state.iter().find(|(name, _)| *name == key).is_some_and(|(_, value)| lend(value, out))
    }
    fn envoy_dynamic_module_callback_http_set_filter_state_bytes(filter: FilterPtr, key: Buffer, value: Buffer) -> bool {
        let mut state = lock(&unsafe { of(filter) }.state);
        let mut copy = state.clone();
        copy.push((text(key), text(value)));
        *state = copy;
        true
    }
    fn envoy_dynamic_module_callback_http_clear_route_cache(filter: FilterPtr) {
        unsafe { of(filter) }.note("route cache cleared");
    }
    fn envoy_dynamic_module_callback_http_filter_send_go_away_and_close(filter: FilterPtr, graceful: bool) {
        unsafe { of(filter) }.note("drained");
    }
    fn envoy_dynamic_module_callback_get_most_specific_route_config(filter: FilterPtr) -> ModulePtr {
        unsafe { of(filter) }.route
    }
    fn envoy_dynamic_module_callback_http_filter_config_define_counter(
        config: ConfigPtr, name: Buffer, labels: *const Buffer, labels_len: usize, id: *mut usize
    ) -> u32 {
        let labels = unsafe { std::slice::from_raw_parts(labels, labels_len) };
        unsafe { id.write(labels.iter().map(|label| text(*label).len()).sum::<usize>() + text(name).len()) };
        0
    }
    fn envoy_dynamic_module_callback_http_filter_config_define_gauge(
        config: ConfigPtr, name: Buffer, labels: *const Buffer, labels_len: usize, id: *mut usize
    ) -> u32 {
        unsafe { id.write(2) };
        0
    }
    fn envoy_dynamic_module_callback_http_filter_config_define_histogram(
        config: ConfigPtr, name: Buffer, labels: *const Buffer, labels_len: usize, id: *mut usize
    ) -> u32 {
        unsafe { id.write(3) };
        0
    }
    fn envoy_dynamic_module_callback_http_filter_increment_counter(
        filter: FilterPtr, id: usize, labels: *const Buffer, labels_len: usize, by: u64
    ) -> u32 {
        let labels = unsafe { std::slice::from_raw_parts(labels, labels_len) };
        let words: Vec<String> = labels.iter().map(|label| String::from_utf8_lossy(&text(*label)).into()).collect();
        unsafe { of(filter) }.note(format!("counted {by} of {}", words.join("/")));
        0
    }
    fn envoy_dynamic_module_callback_http_filter_set_gauge(
        filter: FilterPtr, id: usize, labels: *const Buffer, labels_len: usize, value: u64
    ) -> u32 {
        0
    }
    fn envoy_dynamic_module_callback_http_filter_record_histogram_value(
        filter: FilterPtr, id: usize, labels: *const Buffer, labels_len: usize, value: u64
    ) -> u32 {
        0
    }
    fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
        filter: FilterPtr, attribute: u32, out: *mut Buffer
    ) -> bool {
        lend(b"via_upstream", out)
    }
    fn envoy_dynamic_module_callback_http_get_metadata_string(
        filter: FilterPtr, source: u32, namespace: Buffer, key: Buffer, out: *mut Buffer
    ) -> bool {
        false
    }
    fn envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
        filter: FilterPtr, namespace: Buffer, key: Buffer, value: Buffer
    ) {
        unsafe { of(filter) }.note(format!("metadata of {} bytes", text(value).len()));
    }
    fn envoy_dynamic_module_callback_cert_validator_set_filter_state(
        validator: ConfigPtr, key: Buffer, value: Buffer
    ) -> bool {
        true
    }
    fn envoy_dynamic_module_callback_http_filter_reset_stream(filter: FilterPtr, reason: u32, details: Buffer) {
        let stream = unsafe { of(filter) };
        stream.note(format!("reset: {}", String::from_utf8_lossy(&text(details))));
        Stream::end_of(filter);
    }
    fn envoy_dynamic_module_callback_http_filter_continue_decoding(filter: FilterPtr) {
        let stream = unsafe { of(filter) };
        stream.note("continued");
        // The answer comes, and the stream ends, before the call returns.
        let module = *lock(&stream.module);
        if let Some(Kept(module)) = module {
            unsafe { entry::response_headers::<Module>(filter, module, false) };
            Stream::end_of(filter);
        }
    }
    fn envoy_dynamic_module_callback_http_filter_scheduler_new(filter: FilterPtr) -> SchedulerPtr {
        ALIVE.fetch_add(1, Ordering::AcqRel);
        let stream = filter.cast::<Stream>().cast_const();
        let arc = unsafe { Arc::increment_strong_count(stream); Arc::from_raw(stream) };
        let scheduler = (Arc::downgrade(&arc), Arc::clone(&arc.events));
        Box::into_raw(Box::new(scheduler)).cast()
    }
    fn envoy_dynamic_module_callback_http_filter_scheduler_commit(scheduler: SchedulerPtr, event: u64) {
        let (stream, events) = unsafe { &*scheduler.cast::<StreamScheduler>() };
        lock(events).push(Weak::clone(stream));
    }
    fn envoy_dynamic_module_callback_http_filter_scheduler_delete(scheduler: SchedulerPtr) {
        ALIVE.fetch_sub(1, Ordering::AcqRel);
        drop(unsafe { Box::from_raw(scheduler.cast::<StreamScheduler>()) });
    }
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(config: ConfigPtr) -> SchedulerPtr {
        ALIVE.fetch_add(1, Ordering::AcqRel);
        Box::into_raw(Box::new(config)).cast()
    }
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(scheduler: SchedulerPtr, event: u64) {
        let posted = unsafe { &*(*scheduler.cast::<ConfigPtr>()).cast::<Posted>() };
        posted.wakes.fetch_add(1, Ordering::AcqRel);
    }
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(scheduler: SchedulerPtr) {
        ALIVE.fetch_sub(1, Ordering::AcqRel);
        drop(unsafe { Box::from_raw(scheduler.cast::<ConfigPtr>()) });
    }
    fn envoy_dynamic_module_callback_http_filter_config_http_callout(
        config: ConfigPtr, id: *mut u64, cluster: Buffer, headers: *const HeaderPair, headers_len: usize,
        body: Buffer, timeout_ms: u64
    ) -> u32 {
        let posted = unsafe { &*config.cast::<Posted>() };
        let headers = unsafe { std::slice::from_raw_parts(headers, headers_len) };
        let mut bytes = text(cluster).into_vec();
        headers.iter().for_each(|pair| bytes.extend(text(pair.key).iter().chain(&text(pair.value))));
        bytes.extend(text(body));
        let mut callouts = lock(&posted.callouts);
        let number = callouts.len() as u64;
        callouts.push((number, bytes));
        unsafe { id.write(number) };
        0
    }
    fn envoy_dynamic_module_callback_http_get_active_span(filter: FilterPtr) -> SpanPtr {
        let traced = lock(&unsafe { of(filter) }.maps)[0].iter().flatten().any(|(name, _)| **name == *b"traced");
        if traced { filter } else { std::ptr::null_mut() }
    }
    fn envoy_dynamic_module_callback_http_span_set_operation(span: SpanPtr, operation: Buffer) {
        unsafe { of(span) }.note(format!("span {}", String::from_utf8_lossy(&text(operation))));
    }
    fn envoy_dynamic_module_callback_http_span_set_tag(span: SpanPtr, key: Buffer, value: Buffer) {
        let [key, value] = [key, value].map(|one| String::from_utf8_lossy(&text(one)).into_owned());
        unsafe { of(span) }.note(format!("tag {key}={value}"));
    }
    fn envoy_dynamic_module_callback_http_span_get_trace_id(span: SpanPtr, out: *mut Buffer) -> bool {
        lend(b"0123456789abcdef0123456789abcdef", out)
    }
    fn envoy_dynamic_module_callback_http_span_get_span_id(span: SpanPtr, out: *mut Buffer) -> bool {
        lend(b"0123456789abcdef", out)
    }
    fn envoy_dynamic_module_callback_http_span_spawn_child(
        filter: FilterPtr, span: SpanPtr, operation: Buffer
    ) -> SpanPtr {
        ALIVE.fetch_add(1, Ordering::AcqRel);
        unsafe { of(span) }.note(format!("child {}", String::from_utf8_lossy(&text(operation))));
        // The stream in its place: a span must not outlive it, and Miri sees if one does.
        let stream = filter.cast::<Stream>().cast_const();
        unsafe { Arc::increment_strong_count(stream) };
        filter
    }
    fn envoy_dynamic_module_callback_http_child_span_finish(span: SpanPtr) {
        ALIVE.fetch_sub(1, Ordering::AcqRel);
        unsafe { of(span) }.note("child ended");
        unsafe { Arc::decrement_strong_count(span.cast::<Stream>().cast_const()) };
    }
    fn envoy_dynamic_module_callback_log(level: u32, message: Buffer) {
        assert!(!text(message).is_empty());
    }
}
