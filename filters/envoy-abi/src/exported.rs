//! Functions that this Envoy exports beyond those of every supported Envoy.

use std::ffi::{CStr, c_char, c_void};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

/// The address of a function of Envoy's; null if it exports none of this name.
pub(crate) fn exported(symbol: &CStr) -> *mut c_void {
    // SAFETY: the name ends in NUL; a null handle is RTLD_DEFAULT, which looks in the program itself.
    unsafe { dlsym(std::ptr::null_mut(), symbol.as_ptr()) }
}
