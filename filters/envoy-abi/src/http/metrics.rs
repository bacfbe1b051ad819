//! Counters, gauges and histograms on Envoy's statistics pages.
//!
//! A call with labels looks the series up by their texts, for thousands of instructions: on the way of every request only
//! a histogram without labels is cheap.

use std::ffi::{CStr, c_void};
use std::sync::LazyLock;

use super::{ConfigHandle, FilterHandle, MainThread};
use crate::exported::exported;
use crate::raw::{self, Buffer, ConfigPtr};

/// A counter.
#[derive(Clone, Copy, Debug)]
pub struct Counter(usize);

/// A gauge.
#[derive(Clone, Copy, Debug)]
pub struct Gauge(usize);

/// A histogram without labels.
#[derive(Clone, Copy, Debug)]
pub struct Histogram(usize);

/// `metrics_result`: success.
const SUCCESS: u32 = 0;

type Define = unsafe extern "C" fn(ConfigPtr, Buffer, *const Buffer, usize, *mut usize) -> u32;
type Change = unsafe extern "C" fn(*mut c_void, usize, *const Buffer, usize, u64) -> u32;

/// A handle by which counters and gauges can be changed. False if Envoy does not take the change, for instance because it is
/// too old to take any from there.
pub trait MetricSink {
    /// Adds to a counter; `labels` as many as it was defined with.
    #[must_use]
    fn add(&mut self, counter: Counter, labels: &[&str], by: u64) -> bool;

    /// Sets a gauge; `labels` as many as it was defined with.
    #[must_use]
    fn set(&mut self, gauge: Gauge, labels: &[&str], value: u64) -> bool;
}

impl ConfigHandle {
    /// Defines a counter. `None` if Envoy refuses.
    pub fn counter(&mut self, name: &str, labels: &[&str]) -> Option<Counter> {
        self.define(raw::envoy_dynamic_module_callback_http_filter_config_define_counter, name, labels).map(Counter)
    }

    /// Defines a gauge. `None` if Envoy refuses.
    pub fn gauge(&mut self, name: &str, labels: &[&str]) -> Option<Gauge> {
        self.define(raw::envoy_dynamic_module_callback_http_filter_config_define_gauge, name, labels).map(Gauge)
    }

    /// Defines a histogram. `None` if Envoy refuses.
    pub fn histogram(&mut self, name: &str) -> Option<Histogram> {
        self.define(raw::envoy_dynamic_module_callback_http_filter_config_define_histogram, name, &[]).map(Histogram)
    }

    fn define(&mut self, define: Define, name: &str, labels: &[&str]) -> Option<usize> {
        let labels = lend(labels);
        let mut id = 0;
        // SAFETY: the pointer is valid for this call (see `ConfigHandle::new`), all buffers are lent for it and Envoy
        // copies them; `define` is one of Envoy's three functions of this shape.
        let result =
            unsafe { define(self.config, Buffer::lend(name.as_bytes()), labels.as_ptr(), labels.len(), &raw mut id) };
        (result == SUCCESS).then_some(id)
    }
}

impl FilterHandle {
    /// Adds a value to a histogram.
    pub fn record(&mut self, histogram: Histogram, value: u64) {
        // SAFETY: the filter is alive; no labels are read where their number is 0.
        unsafe {
            raw::envoy_dynamic_module_callback_http_filter_record_histogram_value(
                self.filter,
                histogram.0,
                std::ptr::null(),
                0,
                value,
            );
        }
    }
}

impl MetricSink for FilterHandle {
    fn add(&mut self, counter: Counter, labels: &[&str], by: u64) -> bool {
        // SAFETY: the filter is alive for the handle's life, and the function is of this shape.
        unsafe {
            change(raw::envoy_dynamic_module_callback_http_filter_increment_counter, self.filter, counter.0, labels, by)
        }
    }

    fn set(&mut self, gauge: Gauge, labels: &[&str], value: u64) -> bool {
        // SAFETY: as above.
        unsafe { change(raw::envoy_dynamic_module_callback_http_filter_set_gauge, self.filter, gauge.0, labels, value) }
    }
}

/// Envoy up to 1.38 does not take metrics from the main thread.
impl MetricSink for MainThread {
    fn add(&mut self, counter: Counter, labels: &[&str], by: u64) -> bool {
        // SAFETY: the configuration is alive for the handle's life, and the function is of this shape.
        LATER.add.is_some_and(|add| unsafe { change(add, self.config, counter.0, labels, by) })
    }

    fn set(&mut self, gauge: Gauge, labels: &[&str], value: u64) -> bool {
        // SAFETY: as above.
        LATER.set.is_some_and(|set| unsafe { change(set, self.config, gauge.0, labels, value) })
    }
}

impl MainThread {
    /// Whether this Envoy takes metrics from the main thread.
    pub fn takes_metrics(&self) -> bool {
        LATER.add.is_some() && LATER.set.is_some()
    }
}

/// # Safety
/// `subject` is alive and what `function` expects, which is one of Envoy's functions of this shape.
unsafe fn change(function: Change, subject: *mut c_void, id: usize, labels: &[&str], value: u64) -> bool {
    let labels = lend(labels);
    // SAFETY: as the caller says; the labels are lent for the call and Envoy copies them.
    unsafe { function(subject, id, labels.as_ptr(), labels.len(), value) == SUCCESS }
}

fn lend(labels: &[&str]) -> Vec<Buffer> {
    labels.iter().map(|label| Buffer::lend(label.as_bytes())).collect()
}

/// Functions that Envoy exports from 1.39 on.
struct Later {
    add: Option<Change>,
    set: Option<Change>,
}

static LATER: LazyLock<Later> = LazyLock::new(|| Later {
    add: find(c"envoy_dynamic_module_callback_http_filter_config_increment_counter"),
    set: find(c"envoy_dynamic_module_callback_http_filter_config_set_gauge"),
});

fn find(symbol: &CStr) -> Option<Change> {
    // SAFETY: both functions that are looked for have this shape in every Envoy that exports them, and a null pointer is
    // `None`.
    unsafe { std::mem::transmute::<*mut c_void, Option<Change>>(exported(symbol)) }
}
