//! The configuration that a request's virtual host most likely has: Envoy is asked whether it still has that one, which copies nothing
//! into the VM. Each answer that does costs as much as ten headers.

use std::collections::HashMap;

use portcullis_core::SeededHash;
use portcullis_filter_config::names;

use crate::abi::Hostcalls;

/// Most host names that are remembered, and most bytes of one: clients choose them.
const MAX_NAMES: usize = 1_024;
const MAX_NAME: usize = 260;

/// Configurations that were found last, by host name.
#[derive(Default)]
pub(crate) struct RouteMarks(HashMap<Vec<u8>, Found, SeededHash>);

struct Found {
    digest: Vec<u8>,
    /// The attribute that is there as long as the virtual host has this configuration, if it writes one.
    mark: Option<String>,
}

impl RouteMarks {
    /// The digest of the configuration of the current virtual host, as [`names::wasm::DIGEST`]. `authority` is the request's: it says
    /// only what to ask for first.
    pub(crate) fn digest(&mut self, authority: &[u8], hostcalls: &impl Hostcalls) -> Option<Vec<u8>> {
        let is_there = |mark: &String| hostcalls.property(mark).is_some_and(|text| text.is_empty());
        let found = self.0.get(authority);
        if let Some(found) = found.filter(|found| found.mark.as_ref().is_some_and(is_there)) {
            return Some(found.digest.clone());
        }
        let digest = hostcalls.property(names::wasm::DIGEST)?;
        if authority.len() <= MAX_NAME && found.is_none_or(|found| found.digest != digest) {
            let text = std::str::from_utf8(&digest).ok().filter(|text| !text.is_empty());
            let mark = text.map(|text| format!("{}\0{text}", names::wasm::OF_METADATA)).filter(is_there);
            if self.0.len() >= MAX_NAMES {
                self.0.clear();
            }
            self.0.insert(authority.to_vec(), Found { digest: digest.clone(), mark });
        }
        Some(digest)
    }
}
