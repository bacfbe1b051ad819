//! The views of Envoys that belong to an `Instance`: each has the `UpstreamClusters` of its instance, and nothing else.
//!
//! - [`claim`]: which instance an Envoy belongs to, by its bootstrap and its certificate.
//! - [`owners`]: which instance an `UpstreamCluster` belongs to, over time.
//! - [`last_owners`]: which one it belonged to before there was an instance, or before this program started.
//! - [`gateway_owners`]: which one a Gateway belonged to before this program started.
//! - [`members`]: the labels by which it is selected.
//! - [`own_settings`]: by which `GatewaySettings` its Envoys are served.
//! - [`gateway_division`]: to which clusters Gateways lead, and by which settings.
//! - [`states`]: what the status says of it.
//! - [`snapshots`]: what the Envoys of an instance are served.
//! - [`diagnoses`]: what the objects say.

mod claim;
mod diagnoses;
mod gateway_division;
mod gateway_owners;
mod last_owners;
mod members;
mod own_settings;
mod owners;
mod snapshots;
mod states;

use portcullis_translate::FilterBuild;
use portcullis_xds::View;

pub(super) use claim::claimed_instance;
pub(crate) use claim::instance_name;
pub(super) use gateway_division::GatewayDivision;
pub(super) use gateway_owners::GatewayOwners;
pub(super) use members::GatewayMember;
pub(super) use owners::{InstanceInput, InstanceOwners};
pub(super) use snapshots::{InstanceParts, InstanceSnapshots};
pub(super) use states::{InstanceState, InstanceStates};

/// The beginning of these views' names.
const VIEW: &str = "instance/";

/// The view of Envoys of no instance, for a build of the filter.
pub(super) fn view_for(filter: FilterBuild) -> View {
    View((filter != FilterBuild::default()).then(|| filter.to_string()))
}

/// The view of Envoys of an instance with a build of the filter.
pub(super) fn instance_view(instance: &str, filter: FilterBuild) -> View {
    View(Some(view_name(instance, filter)))
}

fn view_name(instance: &str, filter: FilterBuild) -> String {
    if filter == FilterBuild::default() { format!("{VIEW}{instance}") } else { format!("{VIEW}{instance}/{filter}") }
}

/// The instance of a view, if it is one of an instance.
pub(super) fn instance_of_view(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(VIEW)?;
    Some(rest.split_once('/').map_or(rest, |(instance, _)| instance))
}

/// Whether a view is that of an instance, whichever Envoys are connected.
pub(super) fn is_lasting_view(name: &str) -> bool {
    name.strip_prefix(VIEW).is_some_and(|rest| !rest.contains('/'))
}
