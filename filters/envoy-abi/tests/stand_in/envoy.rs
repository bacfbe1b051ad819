//! A stand-in for Envoy, as hard on a module as the ABI allows: whatever it lends it frees at the next setter, it destroys a stream
//! within the call that ends it, and it delivers events of threads that know nothing of the stream.
#![allow(unsafe_code, reason = "the other side of the ABI")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use envoy_abi::http::entry;
use envoy_abi::raw::{Buffer, ConfigPtr, FilterPtr, HeaderPair, ModulePtr};

use crate::module::Module;

type Text = Box<[u8]>;
pub(crate) type Lines = Vec<(Text, Text)>;

/// A stream that the module's filter is in.
pub(crate) struct Stream {
    /// By `http_header_type`; `None` is a map that Envoy does not give.
    pub(crate) maps: Mutex<[Option<Lines>; 3]>,
    pub(crate) state: Mutex<Lines>,
    pub(crate) module: Mutex<Option<Kept>>,
    pub(crate) events: Events,
    pub(crate) route: ModulePtr,
    /// Whether the connection's client presented a certificate.
    pub(crate) is_certified: bool,
    pub(crate) seen: Mutex<Vec<String>>,
}

/// Streams of one worker that were woken.
pub(crate) type Events = Arc<Mutex<Vec<Weak<Stream>>>>;

/// A pointer of the module's that Envoy keeps.
#[derive(Clone, Copy)]
pub(crate) struct Kept(pub(crate) ModulePtr);

// SAFETY: as Envoy's own objects: used by one thread at a time, and the schedulers' threads only post.
unsafe impl Send for Stream {}
// SAFETY: as above; what changes is behind locks.
unsafe impl Sync for Stream {}
// SAFETY: as above.
unsafe impl Send for Kept {}

/// A configuration of the filter, with what it has posted.
pub(crate) struct Config {
    pub(crate) module: ModulePtr,
    route: ModulePtr,
    posted: *mut Posted,
}

// SAFETY: as a configuration of Envoy's, which all workers use; what changes is behind locks.
unsafe impl Sync for Config {}

/// One worker: its streams are used by its thread alone.
pub(crate) struct Worker<'a> {
    config: &'a Config,
    events: Events,
    is_certified: bool,
}

/// The target of `ConfigPtr`.
#[derive(Default)]
pub(crate) struct Posted {
    pub(crate) wakes: AtomicUsize,
    pub(crate) callouts: Mutex<Vec<(u64, Vec<u8>)>>,
}

/// Schedulers and spans that are alive.
pub(crate) static ALIVE: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

pub(crate) fn text(buffer: Buffer) -> Text {
    // SAFETY: lent by the module for the call.
    unsafe { buffer.bytes() }.into()
}

impl Config {
    pub(crate) fn new(name: &[u8], body: &[u8], route: &[u8]) -> Option<Config> {
        let posted = Box::into_raw(Box::<Posted>::default());
        let envoy = posted.cast::<c_void>();
        // SAFETY: as Envoy calls it.
        let (module, route) = unsafe {
            let module = entry::config_new::<Module>(envoy, Buffer::lend(name), Buffer::lend(body));
            (module, entry::route_config_new::<Module>(Buffer::lend(name), Buffer::lend(route)))
        };
        if module.is_null() {
            // SAFETY: once.
            unsafe {
                entry::route_config_destroy::<Module>(route);
                drop(Box::from_raw(posted));
            }
            return None;
        }
        Some(Config { module, route, posted })
    }

    pub(crate) fn posted(&self) -> &Posted {
        // SAFETY: freed on drop only.
        unsafe { &*self.posted }
    }

    fn envoy(&self) -> ConfigPtr {
        self.posted.cast()
    }

    /// A worker on whose connections clients have presented certificates, or have not.
    pub(crate) fn worker(&self, is_certified: bool) -> Worker<'_> {
        Worker { config: self, events: Arc::default(), is_certified }
    }

    /// Runs what was posted to the main thread.
    pub(crate) fn run_main(&self) {
        while self.posted().wakes.swap(0, Ordering::AcqRel) > 0 {
            // SAFETY: as Envoy calls it.
            unsafe { entry::config_scheduled::<Module>(self.envoy(), self.module) };
        }
    }

    /// Answers a callout; without a body it has none, not even headers.
    pub(crate) fn answer(&self, id: u64, body: Option<&[u8]>) {
        let status = HeaderPair { key: Buffer::lend(b":status"), value: Buffer::lend(b"201") };
        let chunks: Vec<Buffer> = body.map(|body| body.chunks(3).map(Buffer::lend).collect()).unwrap_or_default();
        let (headers, chunks, result) = match body {
            Some(_) => ((&raw const status, 1), (chunks.as_ptr(), chunks.len()), 0),
            None => ((std::ptr::null(), 0), (std::ptr::null(), 0), 1),
        };
        // SAFETY: as Envoy calls it.
        unsafe { entry::config_callout_done::<Module>(self.module, id, result, headers, chunks) };
    }
}

impl Worker<'_> {
    /// A stream with these request headers, before its first hook.
    pub(crate) fn stream(&self, lines: &[(&str, &str)]) -> Arc<Stream> {
        let line = |(name, value): &(&str, &str)| (name.as_bytes().into(), value.as_bytes().into());
        let lines: Lines = lines.iter().map(line).collect();
        // SAFETY: as Envoy calls it.
        let module = unsafe { entry::filter_new::<Module>(self.config.module) };
        Arc::new(Stream {
            maps: Mutex::new([Some(lines.clone()), Some(lines), Some(Lines::new())]),
            state: Mutex::default(),
            module: Mutex::new(Some(Kept(module))),
            events: Arc::clone(&self.events),
            route: self.config.route,
            is_certified: self.is_certified,
            seen: Mutex::default(),
        })
    }

    /// Delivers the events of streams that are alive.
    pub(crate) fn run(&self) {
        let events = std::mem::take(&mut *lock(&self.events));
        for stream in events.iter().filter_map(Weak::upgrade) {
            // SAFETY: as Envoy calls it, if the filter is there.
            stream.hook(|filter, module| unsafe { entry::scheduled::<Module>(filter, module) });
        }
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: once, after the last stream.
        unsafe {
            entry::route_config_destroy::<Module>(self.route);
            entry::config_destroy::<Module>(self.module);
            drop(Box::from_raw(self.posted));
        }
    }
}

impl Stream {
    fn hook<R>(self: &Arc<Self>, hook: impl FnOnce(FilterPtr, ModulePtr) -> R) -> Option<R> {
        let module = *lock(&self.module);
        module.map(|Kept(module)| hook(Arc::as_ptr(self).cast_mut().cast(), module))
    }

    pub(crate) fn request_headers(self: &Arc<Self>) -> Option<u32> {
        // SAFETY: as Envoy calls it.
        self.hook(|filter, module| unsafe { entry::request_headers::<Module>(filter, module) })
    }

    pub(crate) fn request_body(self: &Arc<Self>) -> Option<u32> {
        // SAFETY: as Envoy calls it.
        self.hook(|filter, module| unsafe { entry::request_body::<Module>(filter, module) })
    }

    pub(crate) fn request_trailers(self: &Arc<Self>) -> Option<u32> {
        // SAFETY: as Envoy calls it.
        self.hook(|filter, module| unsafe { entry::request_trailers::<Module>(filter, module) })
    }

    pub(crate) fn response_headers(self: &Arc<Self>) -> Option<u32> {
        // SAFETY: as Envoy calls it.
        self.hook(|filter, module| unsafe { entry::response_headers::<Module>(filter, module, false) })
    }

    /// The stream ends: the module's part is destroyed. Once; later calls find nothing.
    pub(crate) fn end(self: &Arc<Self>) {
        Stream::end_of(Arc::as_ptr(self).cast_mut().cast());
    }

    pub(crate) fn end_of(filter: FilterPtr) {
        // SAFETY: a stream's, which is alive.
        let stream = unsafe { of(filter) };
        let Some(Kept(module)) = *lock(&stream.module) else { return };
        // SAFETY: as Envoy calls it.
        unsafe { entry::stream_complete::<Module>(filter, module) };
        *lock(&stream.module) = None;
        // SAFETY: once.
        unsafe { entry::filter_destroy::<Module>(module) };
    }

    /// Whether the module has a part in it.
    pub(crate) fn is_alive(&self) -> bool {
        lock(&self.module).is_some()
    }

    /// Takes a header map away.
    pub(crate) fn lose(&self, kind: usize) {
        lock(&self.maps)[kind] = None;
    }

    pub(crate) fn lines(&self, kind: usize) -> Lines {
        lock(&self.maps)[kind].clone().unwrap_or_default()
    }

    pub(crate) fn saw(&self, what: &str) -> bool {
        lock(&self.seen).iter().any(|seen| seen == what)
    }

    pub(crate) fn note(&self, what: impl Into<String>) {
        lock(&self.seen).push(what.into());
    }

    /// Replaces a map by a copy, so that nothing lent before is there any more.
    pub(crate) fn change(&self, kind: u32, change: impl FnOnce(&mut Lines)) -> bool {
        let mut maps = lock(&self.maps);
        let Some(lines) = &mut maps[kind as usize] else { return false };
        let mut copy = lines.clone();
        change(&mut copy);
        *lines = copy;
        true
    }
}

/// # Safety
/// `filter` is a [`Stream`]'s.
pub(crate) unsafe fn of<'a>(filter: FilterPtr) -> &'a Stream {
    // SAFETY: as the caller says; the stream lives for the hook.
    unsafe { &*filter.cast::<Stream>() }
}
