use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{FilterHandle, HeaderMap};
use crate::raw::{self, HeaderPair};

/// Room for the headers of an honest request, on the stack.
const INLINE_HEADERS: usize = 48;

impl FilterHandle {
    /// All headers of a map, in order. `None` if Envoy does not give them: a message that cannot be read must not go on.
    pub fn headers(&self, map: HeaderMap) -> Option<Headers<'_>> {
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
        if !unsafe { raw::envoy_dynamic_module_callback_http_get_headers(self.filter, map.code(), target) } {
            return None;
        }
        headers.len = size;
        if size > INLINE_HEADERS {
            // SAFETY: Envoy has just written that many.
            unsafe { headers.spill.set_len(size) };
        }
        Some(headers)
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
