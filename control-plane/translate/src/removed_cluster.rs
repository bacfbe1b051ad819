use portcullis_api::{Cluster, Settings, Transport, parse_cluster, unchecked_cluster};
use portcullis_filter_config::Servers;
use serde_json::Value;

use crate::filter_build::FilterBuild;
use crate::names::ResourceNames;
use crate::policy::cluster_config;
use crate::resource::Resource;
use crate::route;

/// The routes of an object that is gone, from the document of it that was served last; `None` if it can no longer be read.
///
/// Envoy lets what runs on a removed filter chain go on for its own drain time, and hears no more of it; but the routes
/// that the chain uses it goes on taking. These have no server, so that the filter ends streams after the drain period, and
/// no destination, so that nothing new goes upstream.
pub fn tombstone_routes(document: &Value, settings: &Settings, filter: FilterBuild) -> Option<Resource> {
    let raw = parse_cluster(document).ok()?;
    // As written, because whatever is wrong with it by now does not matter.
    let cluster: Cluster = unchecked_cluster(&raw)?;
    if cluster.transport == Transport::Passthrough {
        // No stream of it is the filter's.
        return None;
    }
    let names = ResourceNames::of(&cluster, settings);
    let mut config = cluster_config(&cluster, &names, settings);
    if let Some(Servers { names, .. }) = &mut config.servers {
        names.clear();
    }
    let mut resource = route::without_destinations(&cluster.name, &names, &config, filter);
    resource.owner = Some(cluster.name.into());
    Some(resource)
}
