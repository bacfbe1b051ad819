//! Functions that this Envoy exports beyond those of every supported Envoy.

use std::ffi::{CStr, c_char, c_void};
use std::sync::LazyLock;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

/// The address of a function of Envoy's; null if it exports none of this name.
pub(crate) fn exported(symbol: &CStr) -> *mut c_void {
    // SAFETY: the name ends in NUL; a null handle is RTLD_DEFAULT, which looks in the program itself.
    unsafe { dlsym(std::ptr::null_mut(), symbol.as_ptr()) }
}

/// Whether this Envoy is 1.39 or later: a function that came with 1.39 shows it.
pub(crate) fn is_1_39_or_later() -> bool {
    static CAME_WITH_1_39: LazyLock<bool> =
        LazyLock::new(|| !exported(c"envoy_dynamic_module_callback_cluster_get_name").is_null());
    *CAME_WITH_1_39
}
