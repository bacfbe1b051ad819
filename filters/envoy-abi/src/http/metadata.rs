use std::sync::LazyLock;

use super::FilterHandle;
use crate::exported::exported;
use crate::raw::{self, Buffer, FilterPtr, HeaderPair};

/// `envoy_dynamic_module_callback_http_set_dynamic_metadata_string_batch`, of Envoy 1.39 and later; a key and a value have the layout
/// of a header.
type SetBatch = unsafe extern "C" fn(FilterPtr, Buffer, *const HeaderPair, usize);

/// Most entries of one call.
const ROOM: usize = 16;

fn set_batch() -> Option<SetBatch> {
    static FOUND: LazyLock<Option<SetBatch>> = LazyLock::new(|| {
        let function = exported(c"envoy_dynamic_module_callback_http_set_dynamic_metadata_string_batch");
        // SAFETY: Envoy's function of this name has this signature in every release that exports it; null is `None`.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, Option<SetBatch>>(function) }
    });
    *FOUND
}

impl FilterHandle {
    /// Writes keys and values of one namespace of the stream's dynamic metadata, as few at a time as Envoy lets it.
    pub fn set_metadata<'v>(&mut self, namespace: &str, mut entries: impl Iterator<Item = (&'v str, &'v str)>) {
        let namespace = Buffer::lend(namespace.as_bytes());
        let lend = |text: &str| Buffer::lend(text.as_bytes());
        let Some(set_batch) = set_batch() else {
            for (key, value) in entries {
                // SAFETY: the filter is alive; buffers are lent for the call and Envoy copies them.
                unsafe {
                    raw::envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
                        self.filter,
                        namespace,
                        lend(key),
                        lend(value),
                    );
                }
            }
            return;
        };
        loop {
            let (mut pairs, mut len) = ([HeaderPair { key: Buffer::EMPTY, value: Buffer::EMPTY }; ROOM], 0_usize);
            for (place, (key, value)) in pairs.iter_mut().zip(entries.by_ref()) {
                *place = HeaderPair { key: lend(key), value: lend(value) };
                len = len.saturating_add(1);
            }
            if len == 0 {
                return;
            }
            // SAFETY: the filter is alive; the first `len` pairs and what they lend are there for the call, and Envoy copies it.
            unsafe { set_batch(self.filter, namespace, pairs.as_ptr(), len) };
        }
    }
}
