//! A TLS certificate validator as a safe trait, and its entry points. [`crate::module!`] exports them.

use std::ffi::c_void;

use crate::exported::is_1_39_or_later;
use crate::guard::{Panicked, guard};
use crate::raw::{self, Buffer, ConfigPtr, ModulePtr, ValidationResult};

/// A connection whose handshake is under way.
#[derive(Debug)]
pub struct HandshakeHandle {
    validator: ConfigPtr,
}

impl HandshakeHandle {
    /// Writes the connection's filter state. False if Envoy refuses, or if it could be another connection's
    /// ([`keeps_handshakes_apart`]).
    #[must_use]
    pub fn set_filter_state(&mut self, key: &str, value: &[u8]) -> bool {
        if !keeps_handshakes_apart() {
            return false;
        }
        // SAFETY: the handle lives for the length of the hook; buffers are lent for the call and Envoy copies them.
        unsafe {
            raw::envoy_dynamic_module_callback_cert_validator_set_filter_state(
                self.validator,
                Buffer::lend(key.as_bytes()),
                Buffer::lend(value),
            )
        }
    }
}

/// Whether this Envoy keeps the connections apart whose handshakes run at the same time.
///
/// Before 1.39 it keeps the present one in the validator's configuration, which all workers share: a write to a handshake's
/// filter state may end up in another's, even while that one is being freed (envoyproxy/envoy#45597). The version alone
/// decides.
pub fn keeps_handshakes_apart() -> bool {
    is_1_39_or_later()
}

/// A validator's configuration, shared by all workers.
pub trait CertValidator: Sized + Send + Sync + 'static {
    /// Reads the configuration. `None` refuses it.
    fn new(name: &[u8], config: &[u8]) -> Option<Self>;

    /// Judges the chain that the peer presented, leaf first, DER. Whether the handshake goes on.
    fn verify(&self, chain: &[&[u8]], handshake: &mut HandshakeHandle) -> bool;

    /// Bytes that distinguish this configuration from others.
    fn digest(&self) -> &[u8];
}

/// # Safety
/// Called by Envoy: the buffers are readable during the call.
pub unsafe fn config_new<V: CertValidator>(name: Buffer, body: Buffer) -> ModulePtr {
    let made = guard("cert_validator_config_new", || {
        // SAFETY: Envoy vouches for its arguments during the call.
        let (name, body) = unsafe { (name.bytes(), body.bytes()) };
        V::new(name, body)
    });
    match made {
        Ok(Some(validator)) => Box::into_raw(Box::new(validator)).cast::<c_void>(),
        Ok(None) | Err(Panicked) => std::ptr::null(),
    }
}

/// # Safety
/// Called by Envoy once, with what [`config_new`] returned.
pub unsafe fn config_destroy<V: CertValidator>(validator: ModulePtr) {
    let _ = guard("cert_validator_config_destroy", || {
        // SAFETY: made by `Box::into_raw` of the same type, and not used again.
        drop(unsafe { Box::from_raw(validator.cast::<V>().cast_mut()) });
    });
}

/// # Safety
/// Called by Envoy during a handshake: `certs` points to `len` readable buffers, `validator` is what [`config_new`] made.
pub unsafe fn verify<V: CertValidator>(
    envoy: ConfigPtr,
    validator: ModulePtr,
    certs: *const Buffer,
    len: usize,
) -> ValidationResult {
    let goes_on = guard("cert_validator_do_verify_cert_chain", || {
        if certs.is_null() {
            return false;
        }
        // SAFETY: Envoy vouches for pointer and length during the call.
        let certs = unsafe { std::slice::from_raw_parts(certs, len) };
        // SAFETY: each buffer is readable during the call.
        let chain: Vec<&[u8]> = certs.iter().map(|buffer| unsafe { buffer.bytes() }).collect();
        // SAFETY: made by `config_new`, destroyed after the last handshake.
        let validator = unsafe { &*validator.cast::<V>() };
        validator.verify(&chain, &mut HandshakeHandle { validator: envoy })
    });
    if matches!(goes_on, Ok(true)) {
        ValidationResult { status: 0, detailed_status: 2, tls_alert: 0, has_tls_alert: false }
    } else {
        /// `bad_certificate` (RFC 8446, 6.2)
        const BAD_CERTIFICATE: u8 = 42;
        ValidationResult { status: 1, detailed_status: 3, tls_alert: BAD_CERTIFICATE, has_tls_alert: true }
    }
}

/// # Safety
/// Called by Envoy with what [`config_new`] made and a place for one buffer.
pub unsafe fn update_digest<V: CertValidator>(validator: ModulePtr, out: *mut Buffer) {
    let digest = guard("cert_validator_update_digest", || {
        // SAFETY: made by `config_new`, not yet destroyed.
        unsafe { &*validator.cast::<V>() }.digest()
    });
    // SAFETY: Envoy gave a place to write to, and hashes the bytes before it uses the validator again.
    unsafe { out.write(Buffer::lend(digest.unwrap_or(b"panicked"))) }
}
