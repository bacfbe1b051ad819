//! The HTTP filter's entry points, generic over the filter. [`crate::module!`] exports them.

use std::ffi::c_void;

use super::{ConfigHandle, FilterConfig, FilterHandle, HeadersStatus};
use crate::guard::{Panicked, guard};
use crate::log;
use crate::raw::{Buffer, ConfigPtr, FilterPtr, ModulePtr};

/// One stream on the module's side.
struct Stream<C: FilterConfig> {
    config: &'static C,
    kept: C::Stream,
    is_poisoned: bool,
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
    Box::into_raw(Box::new(Stream { config, kept: C::Stream::default(), is_poisoned: false })).cast::<c_void>()
}

/// # Safety
/// Called by Envoy once, with what [`filter_new`] returned.
pub unsafe fn filter_destroy<C: FilterConfig>(stream: ModulePtr) {
    let _ = guard("http_filter_destroy", || {
        // SAFETY: made by `Box::into_raw` of the same type, and not used again.
        drop(unsafe { Box::from_raw(stream.cast::<Stream<C>>().cast_mut()) });
    });
}

/// # Safety
/// Called by Envoy on the stream's worker: both pointers are alive and used by nobody else during the call.
pub unsafe fn request_headers<C: FilterConfig>(filter: FilterPtr, stream: ModulePtr) -> u32 {
    // SAFETY: exclusive during the call.
    let (stream, mut handle) = unsafe { (&mut *stream.cast::<Stream<C>>().cast_mut(), FilterHandle::new(filter)) };
    let status = guard("http_filter_request_headers", || {
        // SAFETY: null, or what `route_config_new` made, kept by the route that the stream holds.
        let route = unsafe {
            crate::raw::envoy_dynamic_module_callback_get_most_specific_route_config(filter).cast::<C::Route>().as_ref()
        };
        stream.config.request_headers(route, &mut stream.kept, &mut handle)
    });
    match status {
        Ok(status) => status.code(),
        Err(Panicked) => {
            stream.is_poisoned = true;
            fail_closed(stream.config, &mut handle);
            HeadersStatus::StopIteration.code()
        }
    }
}

/// # Safety
/// As [`request_headers`].
pub unsafe fn response_headers<C: FilterConfig>(filter: FilterPtr, stream: ModulePtr) -> u32 {
    // SAFETY: exclusive during the call.
    let (stream, mut handle) = unsafe { (&mut *stream.cast::<Stream<C>>().cast_mut(), FilterHandle::new(filter)) };
    if stream.is_poisoned {
        // The answer that `fail_closed` gave.
        return HeadersStatus::Continue.code();
    }
    match guard("http_filter_response_headers", || stream.config.response_headers(&mut stream.kept, &mut handle)) {
        Ok(status) => status.code(),
        Err(Panicked) => {
            stream.is_poisoned = true;
            fail_closed(stream.config, &mut handle);
            HeadersStatus::StopIteration.code()
        }
    }
}

/// # Safety
/// As [`request_headers`].
pub unsafe fn request_trailers<C: FilterConfig>(filter: FilterPtr, stream: ModulePtr) -> u32 {
    // SAFETY: exclusive during the call.
    let (stream, mut handle) = unsafe { (&mut *stream.cast::<Stream<C>>().cast_mut(), FilterHandle::new(filter)) };
    if stream.is_poisoned {
        return HeadersStatus::StopIteration.code();
    }
    match guard("http_filter_request_trailers", || stream.config.request_trailers(&mut handle)) {
        Ok(()) => HeadersStatus::Continue.code(),
        Err(Panicked) => {
            stream.is_poisoned = true;
            fail_closed(stream.config, &mut handle);
            HeadersStatus::StopIteration.code()
        }
    }
}

/// Whether the body of a poisoned stream must stop here.
///
/// # Safety
/// As [`request_headers`].
pub unsafe fn request_body<C: FilterConfig>(stream: ModulePtr) -> u32 {
    // SAFETY: alive, and Envoy calls the hooks of a stream one after the other.
    let is_poisoned = unsafe { &*stream.cast::<Stream<C>>() }.is_poisoned;
    /// `request_body_status`: stop and drop what comes.
    const STOP_NO_BUFFER: u32 = 3;
    if is_poisoned { STOP_NO_BUFFER } else { 0 }
}

/// A filter that panics even while it refuses leaves the stream without an answer and without a route: it stays stopped.
fn fail_closed<C: FilterConfig>(config: &C, handle: &mut FilterHandle) {
    if guard("fail_closed", || config.fail_closed(handle)).is_err() {
        log::error("portcullis: a stream could not be refused; it stays stopped");
    }
}
