//! The cluster to which requests of a route go, if there is one.

use portcullis_attach::{BoundRoute, ServedBackend};

use crate::backend::JudgedClusters;

/// The one cluster of a route. A decision for one cluster is none for another: shares of several are not served.
pub fn only_cluster(route: &BoundRoute) -> Option<&str> {
    let mut clusters = route.backends.iter().filter(|one| one.weight > 0).map(|one| match &one.backend {
        ServedBackend::Cluster(name) => Some(name.as_str()),
        ServedBackend::Service { .. } => None,
    });
    let first = clusters.next()??;
    (route.refused_weight == 0 && clusters.all(|other| other == Some(first))).then_some(first)
}

/// Whether no backend of an accepted route can be used. Of one with shares only some of which can be used, connections are closed.
pub(crate) fn is_unresolved(route: &BoundRoute, clusters: &JudgedClusters) -> bool {
    match only_cluster(route) {
        Some(cluster) => clusters.get(cluster).and_then(|judged| judged.open()).is_none(),
        None => !route.leads_on(),
    }
}
