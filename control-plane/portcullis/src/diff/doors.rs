//! Clusters behind Gateways, listeners and `HTTPRoutes` with policies of their own: other rules than under their own names.

use portcullis_attach::Door;

use super::DiffError;
use super::cluster::compare;
use super::cluster_diff::ClusterDiff;
use crate::explain::{Environment, ServedCluster};

/// The differences at doors with policies on either side.
#[derive(Default)]
pub(super) struct DoorDiffs {
    pub(super) clusters: Vec<ClusterDiff>,
    /// Routes that one side alone has.
    pub(super) removed: Vec<String>,
    pub(super) added: Vec<String>,
}

/// Compares the clusters behind doors by which both sides lead to them. `now` is in seconds since 1970.
pub(super) fn compare_doors(
    [old, new]: &[Environment; 2],
    is_wanted: impl Fn(&String) -> bool,
    now: u64,
) -> Result<DoorDiffs, DiffError> {
    let mut diffs = DoorDiffs::default();
    for then in old.routed.iter().filter(|one| is_wanted(&one.name)) {
        let Some(other) = twin(new, then) else {
            diffs.removed.extend(old.is_tightened(then).then(|| title(then)));
            continue;
        };
        if !(old.is_tightened(then) || new.is_tightened(other)) || then.is_passed_on || other.is_passed_on {
            continue;
        }
        let findings = compare(&new.gateway, &then.config, &other.config, now)
            .map_err(|error| DiffError::Compile(then.name.clone(), error))?;
        diffs.clusters.push(ClusterDiff::at_door(title(then), host(then), findings));
    }
    let is_new = |one: &&ServedCluster| is_wanted(&one.name) && new.is_tightened(one) && twin(old, one).is_none();
    diffs.added.extend(new.routed.iter().filter(is_new).map(title));
    Ok(diffs)
}

fn twin<'e>(side: &'e Environment, served: &ServedCluster) -> Option<&'e ServedCluster> {
    side.routed.iter().find(|one| one.name == served.name && one.doors == served.doors)
}

/// The cluster, and the way by which requests reach it. The narrowest door is the last one.
fn title(served: &ServedCluster) -> String {
    let listener = served.doors.iter().find(|door| matches!(door, Door::Listener(..)));
    let route = served.doors.iter().find(|door| matches!(door, Door::Route(_)));
    match (listener, route) {
        (Some(listener), Some(route)) => format!("{} by {route} at {listener}", served.name),
        _ => served.name.clone(),
    }
}

/// A host name by which its requests come.
fn host(served: &ServedCluster) -> String {
    served.config.authorities.first().cloned().unwrap_or_default()
}
