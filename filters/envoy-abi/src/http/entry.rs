//! The HTTP filter's entry points, generic over the filter. [`crate::module!`] exports them.

use std::ffi::c_void;

use super::worker_streams::WorkerPlace;
use super::{CalloutId, CalloutResponse, ConfigHandle, FilterConfig, FilterHandle, HeadersStatus, MainThread};
use crate::guard::{Panicked, guard};
use crate::log;
use crate::raw::{Buffer, CALLOUT_RESET, CALLOUT_SUCCESS, ConfigPtr, FilterPtr, HeaderPair, ModulePtr};

/// One stream on the module's side.
struct Stream<C: FilterConfig> {
    config: &'static C,
    kept: C::Stream,
    is_poisoned: bool,
    /// Among the streams of the worker, for those that joined a group.
    place: Option<WorkerPlace>,
}

/// # Safety
/// Called by Envoy: `config` is alive for the call, the buffers are readable.
pub unsafe fn config_new<C: FilterConfig>(config: ConfigPtr, name: Buffer, body: Buffer) -> ModulePtr {
    let made = guard("http_filter_config_new", || {
        // SAFETY: Envoy vouches for its arguments during the call.
        let (name, body, mut handle) = unsafe { (name.bytes(), body.bytes(), ConfigHandle::new(config)) };
        C::new(name, body, &mut handle)
    });
    match made {
        Ok(Some(config)) => Box::into_raw(Box::new(config)).cast::<c_void>(),
        Ok(None) | Err(Panicked) => std::ptr::null(),
    }
}

/// # Safety
/// Called by Envoy once, with what [`config_new`] returned, after the last stream of it is gone.
pub unsafe fn config_destroy<C: FilterConfig>(config: ModulePtr) {
    let _ = guard("http_filter_config_destroy", || {
        // SAFETY: made by `Box::into_raw` of the same type, and not used again.
        drop(unsafe { Box::from_raw(config.cast::<C>().cast_mut()) });
    });
}

/// # Safety
/// As [`config_new`].
pub unsafe fn route_config_new<C: FilterConfig>(name: Buffer, body: Buffer) -> ModulePtr {
    let made = guard("http_filter_per_route_config_new", || {
        // SAFETY: Envoy vouches for its arguments during the call.
        let (name, body) = unsafe { (name.bytes(), body.bytes()) };
        C::new_route(name, body)
    });
    match made {
        Ok(Some(route)) => Box::into_raw(Box::new(route)).cast::<c_void>(),
        Ok(None) | Err(Panicked) => std::ptr::null(),
    }
}

/// # Safety
/// Called by Envoy once, with what [`route_config_new`] returned.
pub unsafe fn route_config_destroy<C: FilterConfig>(route: ModulePtr) {
    let _ = guard("http_filter_per_route_config_destroy", || {
        // SAFETY: made by `Box::into_raw` of the same type, and not used again.
        drop(unsafe { Box::from_raw(route.cast::<C::Route>().cast_mut()) });
    });
}

/// # Safety
/// Called by Envoy with what [`config_new`] returned; Envoy keeps the configuration for as long as the stream.
pub unsafe fn filter_new<C: FilterConfig>(config: ModulePtr) -> ModulePtr {
    // SAFETY: alive until after `filter_destroy`; the lifetime never leaves this module.
    let config: &'static C = unsafe { &*config.cast::<C>() };
    Box::into_raw(Box::new(Stream { config, kept: C::Stream::default(), is_poisoned: false, place: None }))
        .cast::<c_void>()
}

/// # Safety
/// Called by Envoy once, with what [`filter_new`] returned.
pub unsafe fn filter_destroy<C: FilterConfig>(stream: ModulePtr) {
    let _ = guard("http_filter_destroy", || {
        // SAFETY: made by `Box::into_raw` of the same type, and not used again.
        drop(unsafe { Box::from_raw(stream.cast::<Stream<C>>().cast_mut()) });
    });
}

/// Runs a hook of a stream; `stopped` is the answer for a stream that a panic has ended, then or now. The effects that the hook
/// asks for follow when nothing refers to the stream's state any more, because Envoy may call other hooks meanwhile.
///
/// # Safety
/// Called by Envoy on the stream's worker: both pointers are alive and in no other use until the hook has returned.
unsafe fn run<C: FilterConfig, R: Copy>(
    name: &'static str,
    (filter, stream): (FilterPtr, ModulePtr),
    stopped: R,
    hook: impl FnOnce(&C, &mut C::Stream, &mut FilterHandle) -> R,
) -> R {
    // SAFETY: exclusive until `carry_out`.
    let (stream, mut handle) = unsafe { (&mut *stream.cast::<Stream<C>>().cast_mut(), FilterHandle::new(filter)) };
    if stream.is_poisoned {
        return stopped;
    }
    let done = guard(name, || hook(stream.config, &mut stream.kept, &mut handle));
    let answer = done.unwrap_or_else(|Panicked| {
        stream.is_poisoned = true;
        fail_closed(stream, &mut handle);
        stopped
    });
    if let Some(group) = handle.take_group() {
        // SAFETY: on the stream's worker; the place goes with the stream, before its filter.
        stream.place = unsafe { WorkerPlace::take(filter, group) };
    }
    handle.carry_out();
    answer
}

/// # Safety
/// As [`run`].
pub unsafe fn request_headers<C: FilterConfig>(filter: FilterPtr, stream: ModulePtr) -> u32 {
    let hook = |config: &C, kept: &mut C::Stream, handle: &mut FilterHandle| {
        // SAFETY: called from a hook of a live stream.
        let route = unsafe { route_of::<C>(filter) };
        config.request_headers(route, kept, handle)
    };
    // SAFETY: as the caller says.
    unsafe { run("http_filter_request_headers", (filter, stream), HeadersStatus::StopIteration, hook) }.code()
}

/// # Safety
/// As [`run`].
pub unsafe fn response_headers<C: FilterConfig>(filter: FilterPtr, stream: ModulePtr, is_end: bool) -> u32 {
    // SAFETY: alive, and not used elsewhere now.
    if unsafe { &*stream.cast::<Stream<C>>() }.is_poisoned {
        // The answer that `fail_closed` gave.
        return HeadersStatus::Continue.code();
    }
    let hook = |config: &C, kept: &mut C::Stream, handle: &mut FilterHandle| {
        let status = config.response_headers(kept, handle);
        if is_end {
            config.response_ended(kept, handle);
        }
        status
    };
    // SAFETY: as the caller says.
    unsafe { run("http_filter_response_headers", (filter, stream), HeadersStatus::StopIteration, hook) }.code()
}

/// Takes a piece of the response's body, or its trailers: only the end matters.
///
/// # Safety
/// As [`run`].
pub unsafe fn response_body<C: FilterConfig>(filter: FilterPtr, stream: ModulePtr, is_end: bool) -> u32 {
    /// `response_body_status` and `response_trailers_status`: on to the next filter, for a stream that a panic has ended too.
    const CONTINUE: u32 = 0;
    if !is_end {
        return CONTINUE;
    }
    let hook = |config: &C, kept: &mut C::Stream, handle: &mut FilterHandle| {
        config.response_ended(kept, handle);
        CONTINUE
    };
    // SAFETY: as the caller says.
    unsafe { run("http_filter_response_body", (filter, stream), CONTINUE, hook) }
}

/// # Safety
/// As [`run`].
pub unsafe fn stream_complete<C: FilterConfig>(filter: FilterPtr, stream: ModulePtr) {
    // SAFETY: exclusive during the call; nothing is carried out here, the stream has ended.
    let (stream, mut handle) = unsafe { (&mut *stream.cast::<Stream<C>>().cast_mut(), FilterHandle::new(filter)) };
    let _ = guard("http_filter_stream_complete", || stream.config.stream_complete(&mut stream.kept, &mut handle));
}

/// # Safety
/// As [`run`].
pub unsafe fn scheduled<C: FilterConfig>(filter: FilterPtr, stream: ModulePtr) {
    let hook = |config: &C, kept: &mut C::Stream, handle: &mut FilterHandle| {
        // SAFETY: as in `request_headers`.
        let route = unsafe { route_of::<C>(filter) };
        config.resumed(route, kept, handle);
    };
    // SAFETY: as the caller says.
    unsafe { run("http_filter_scheduled", (filter, stream), (), hook) }
}

/// # Safety
/// Called by Envoy on the main thread; both pointers are alive.
pub unsafe fn config_scheduled<C: FilterConfig>(envoy: ConfigPtr, config: ModulePtr) {
    let _ = guard("http_filter_config_scheduled", || {
        // SAFETY: alive during the call.
        let (config, mut main) = unsafe { (&*config.cast::<C>(), MainThread::new(envoy)) };
        config.on_main_thread(&mut main);
    });
}

/// # Safety
/// Called by Envoy on the main thread; the configuration is alive, the arrays are readable during the call.
pub unsafe fn config_callout_done<C: FilterConfig>(
    config: ModulePtr,
    id: CalloutId,
    result: u32,
    headers: (*const HeaderPair, usize),
    chunks: (*const Buffer, usize),
) {
    // SAFETY: alive during the call.
    let config = unsafe { &*config.cast::<C>() };
    let done = guard("http_filter_config_http_callout_done", || {
        if result != CALLOUT_SUCCESS {
            let is_given_up = result == CALLOUT_RESET;
            return config.callout_done(id, &CalloutResponse { is_given_up, ..CalloutResponse::NONE });
        }
        // SAFETY: Envoy vouches for its arrays and buffers during the call.
        let response = unsafe { callout_response(headers, chunks) };
        config.callout_done(id, &response);
    });
    if let Err(Panicked) = done {
        // The streams that wait for the answer must not wait for ever.
        let _ = guard("callout_done", || config.callout_done(id, &CalloutResponse::NONE));
    }
}

/// # Safety
/// Null, or arrays of that many readable elements during `'a`.
unsafe fn callout_response<'a>(
    (headers, headers_len): (*const HeaderPair, usize),
    (chunks, chunks_len): (*const Buffer, usize),
) -> CalloutResponse<'a> {
    let (headers, chunks): (&[HeaderPair], &[Buffer]) = (
        if headers.is_null() {
            &[]
        } else {
            // SAFETY: as the caller says.
            unsafe { std::slice::from_raw_parts(headers, headers_len) }
        },
        if chunks.is_null() {
            &[]
        } else {
            // SAFETY: as the caller says.
            unsafe { std::slice::from_raw_parts(chunks, chunks_len) }
        },
    );
    // SAFETY: as the caller says.
    let field = |buffer: &Buffer| unsafe { buffer.bytes() };
    let number = |name: &[u8]| -> Option<u16> {
        let value = headers.iter().find(|pair| field(&pair.key) == name).map(|pair| field(&pair.value))?;
        std::str::from_utf8(value).ok()?.parse().ok()
    };
    CalloutResponse {
        status: number(b":status").unwrap_or_default(),
        grpc_status: number(b"grpc-status"),
        chunks: chunks.iter().map(field).collect(),
        is_given_up: false,
    }
}

/// # Safety
/// As [`run`].
pub unsafe fn request_trailers<C: FilterConfig>(filter: FilterPtr, stream: ModulePtr) -> u32 {
    let hook = |config: &C, kept: &mut C::Stream, handle: &mut FilterHandle| {
        // SAFETY: as the caller says; the route cache stays as it is.
        let route = unsafe { route_of::<C>(filter) };
        if config.request_trailers(route, kept, handle) {
            HeadersStatus::Continue
        } else {
            HeadersStatus::StopIteration
        }
    };
    // SAFETY: as the caller says.
    unsafe { run("http_filter_request_trailers", (filter, stream), HeadersStatus::StopIteration, hook) }.code()
}

/// The configuration of the stream's route, if it carries one.
///
/// # Safety
/// `filter` is what Envoy passed to the hook that is running; the reference must not outlive the hook, nor the next
/// clearing of the route cache.
unsafe fn route_of<'a, C: FilterConfig>(filter: FilterPtr) -> Option<&'a C::Route> {
    // SAFETY: null, or what `route_config_new` made, kept by the route that the stream holds.
    unsafe {
        crate::raw::envoy_dynamic_module_callback_get_most_specific_route_config(filter).cast::<C::Route>().as_ref()
    }
}

/// # Safety
/// As [`run`].
pub unsafe fn request_body<C: FilterConfig>(filter: FilterPtr, stream: ModulePtr) -> u32 {
    /// `request_body_status`: stop and drop what comes.
    const STOP_NO_BUFFER: u32 = 3;
    let hook = |config: &C, kept: &mut C::Stream, handle: &mut FilterHandle| config.request_body(kept, handle).code();
    // SAFETY: as the caller says.
    unsafe { run("http_filter_request_body", (filter, stream), STOP_NO_BUFFER, hook) }
}

/// A filter that panics even while it refuses leaves the stream without an answer and without a route: it stays stopped.
fn fail_closed<C: FilterConfig>(stream: &mut Stream<C>, handle: &mut FilterHandle) {
    if guard("fail_closed", || stream.config.fail_closed(&mut stream.kept, handle)).is_err() {
        log::error("portcullis: a stream could not be refused; it stays stopped");
    }
}
