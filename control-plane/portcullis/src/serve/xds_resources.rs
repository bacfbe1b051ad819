use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use portcullis_translate::{self as translated, Resource as Translated, type_urls};
use portcullis_xds::{Part, Resource};

/// Translated resources as xDS resources, each hashed once: a translator returns the same allocation for what did not change.
#[derive(Default)]
pub(super) struct XdsResources {
    /// By address. The first member keeps the allocation, so that no other resource gets its address.
    by_address: HashMap<usize, (Arc<Translated>, Resource)>,
}

impl XdsResources {
    /// All resources of a snapshot, with type and name. `retired` are kept by Envoy without any route that leads to them.
    pub(super) fn follow<'t>(
        &mut self,
        translated: &'t [Arc<Translated>],
        retired: &'t [Arc<Translated>],
    ) -> Vec<(&'t str, &'t str, Resource)> {
        let mut before = std::mem::take(&mut self.by_address);
        self.by_address.reserve(translated.len());
        let mut all = Vec::with_capacity(translated.len() + retired.len());
        for one in translated {
            let address = Arc::as_ptr(one).addr();
            let (kept, resource) = before.remove(&address).unwrap_or_else(|| (Arc::clone(one), xds_resource(one)));
            all.push((one.type_url.as_str(), one.name.as_str(), resource.clone()));
            self.by_address.insert(address, (kept, resource));
        }
        let retired =
            retired.iter().map(|one| (one.type_url.as_str(), one.name.as_str(), xds_resource(one).lingering()));
        all.extend(retired);
        all
    }
}

fn xds_resource(one: &Arc<Translated>) -> Resource {
    let part = |part: &translated::Part| Part {
        owner: part.owner.clone(),
        range: part.start..part.end,
        fallback: Some(part.fallback.clone().into()),
    };
    let mut resource = Resource::new(Bytes::from_owner(SharedBody(Arc::clone(one))));
    if one.type_url == type_urls::listener() {
        resource = resource.with_parts(one.parts.iter().map(part));
    }
    if one.on_demand {
        resource = resource.on_demand();
    }
    if one.is_optional() {
        resource = resource.optional();
    }
    if let Some(assignment) = &one.assignment {
        resource = resource.with_companion(type_urls::assignment(), assignment);
    }
    match &one.owner {
        Some(owner) => resource.owned_by(owner),
        None => resource,
    }
}

/// The bytes of a translated resource, which are not copied.
struct SharedBody(Arc<Translated>);

impl AsRef<[u8]> for SharedBody {
    fn as_ref(&self) -> &[u8] {
        &self.0.value
    }
}
