//! One Envoy's conversation in both variants of xDS, with a client that says anything: no panic, nothing is told that was not
//! served or not asked for, and with a client that takes everything from then on it ends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| portcullis_xds::exercise::exercise(data));
