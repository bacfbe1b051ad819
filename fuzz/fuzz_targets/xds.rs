//! One Envoy's delta xDS stream with arbitrary requests: no panic, only served and requested resources are sent, and a client
//! that acknowledges everything from then on reaches the end.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| portcullis_xds::testing::exercise(data));
