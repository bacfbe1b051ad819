//! Rules of the conversation as tables, and one property: whatever happens on the way, in the end the client has what the
//! last snapshot holds, and on no step does anything it has refer to something it has not.

mod client;
mod property;
mod rules;

use std::sync::Arc;

pub(super) use crate::served::{CDS, EDS, LDS, RDS};
use crate::{Resource, Snapshot};

pub(super) const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// A snapshot of `(type, name, content)`. A cluster's companion is the assignment of its name.
pub(super) fn snapshot(resources: &[(&str, &str, &str)]) -> Arc<Snapshot> {
    Arc::new(Snapshot::new(resources.iter().map(|(url, name, body)| {
        let mut resource = Resource::new(body.as_bytes().to_vec());
        if *url == CDS {
            resource = resource.with_companion(EDS, *name);
        }
        ((*url).to_owned(), (*name).to_owned(), resource)
    })))
}
