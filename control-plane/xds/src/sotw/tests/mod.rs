//! The rules of the conversation, and the same property as that of the incremental variant.

mod client;
mod property;
mod rules;

use std::sync::Arc;

pub(super) use crate::served::{CDS, EDS, LDS, RDS};
use crate::{Part, Resource, Snapshot};

/// A snapshot of `(type, name, content)`; a resource's bytes are `name=content`. A cluster's companion is the assignment
/// of its name.
pub(super) fn snapshot(resources: &[(&str, &str, &str)]) -> Arc<Snapshot> {
    Arc::new(Snapshot::new(entries_of(resources)))
}

fn entries_of(resources: &[(&str, &str, &str)]) -> Vec<(String, String, Resource)> {
    let one = |(url, name, content): &(&str, &str, &str)| {
        let mut resource = Resource::new(format!("{name}={content}").into_bytes());
        if *url == CDS {
            resource = resource.with_companion(EDS, *name);
        }
        ((*url).to_owned(), (*name).to_owned(), resource)
    };
    resources.iter().map(one).collect()
}

/// The listener `l` of parts.
pub(super) fn listener(parts: &[(&str, &str)]) -> Arc<Snapshot> {
    let mut body = b"l=".to_vec();
    let mut ranges = Vec::new();
    for (owner, content) in parts {
        let start = body.len();
        body.extend(content.as_bytes());
        ranges.push(Part { owner: (*owner).to_owned(), range: start..body.len(), instead: Some("-".into()) });
    }
    Arc::new(Snapshot::new([(LDS.to_owned(), "l".to_owned(), Resource::new(body).with_parts(ranges))]))
}
