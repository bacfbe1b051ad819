use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::status::GatewayHealth;
use portcullis_attach::ObjectName;
use portcullis_filter_config::without_generation;
use portcullis_translate::type_urls;
use portcullis_xds::{Endpoints, Snapshot};

use super::super::changed_keys::changed_keys;
use super::super::endpoint_reports::health_of;
use super::super::gateway_views::group_of;
use super::HealthAtGateways;

/// The group of all servers of an object.
const ALL_SERVERS: &str = "all";

/// The endpoints of each pool in one report.
type ReportedPools = Arc<BTreeMap<String, Endpoints>>;

/// The view of a Gateway, and what is reported about it.
pub(super) struct SeenView<'a> {
    pub(super) served: &'a Snapshot,
    pub(super) reports: Vec<&'a ReportedPools>,
}

/// The health of objects at one Gateway. It stays as long as the pools of its view and the reports are the same.
#[derive(Default)]
pub(super) struct ViewHealth {
    /// `NAMESPACE/NAME`.
    gateway: String,
    /// The version of the view's pools.
    version: String,
    reports: Vec<ReportedPools>,
    /// The objects of which the view has a pool, reported or not.
    objects: Arc<BTreeSet<String>>,
    /// Those that are reported.
    reported: BTreeMap<String, GatewayHealth>,
}

impl ViewHealth {
    /// That of a view. `before` is that of the same Gateway.
    pub(super) fn of(gateway: &ObjectName, seen: &SeenView<'_>, before: Option<&Self>) -> Self {
        let (gateway, version) = (gateway.to_string(), version_of_pools(seen.served));
        let known = before.filter(|before| before.version == version);
        let objects = known.map_or_else(|| Arc::new(objects_of(seen.served)), |known| Arc::clone(&known.objects));
        let mut reported: BTreeMap<String, GatewayHealth> = BTreeMap::new();
        for (pool, found) in seen.reports.iter().flat_map(|pools| pools.iter()) {
            // A route or a grant may have ended since it was reported.
            let Some((object, group)) = group_of(pool).filter(|_| has_pool(seen.served, pool)) else { continue };
            let at = reported.entry(object).or_insert_with(|| GatewayHealth::new(gateway.clone()));
            at.add(&health_of(found), group == ALL_SERVERS);
        }
        let reports = seen.reports.iter().copied().cloned().collect();
        Self { gateway, version: version.to_owned(), reports, objects, reported }
    }

    /// Whether it is that of this view.
    pub(super) fn is_of(&self, seen: &SeenView<'_>) -> bool {
        self.version == version_of_pools(seen.served)
            && self.reports.len() == seen.reports.len()
            && self.reports.iter().zip(&seen.reports).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The objects that are reported at one of two alone or in another health, and those of `known` that one of them has alone. Of an
    /// object that no Gateway reports it does not matter which ones have it.
    pub(super) fn differences<'a>(
        &'a self,
        other: &'a Self,
        known: &'a HealthAtGateways,
    ) -> impl Iterator<Item = &'a String> {
        let are_others = !Arc::ptr_eq(&self.objects, &other.objects);
        let objects = are_others.then(|| self.objects.symmetric_difference(&other.objects));
        let objects = objects.into_iter().flatten().filter(move |object| known.contains_key(*object));
        changed_keys(&self.reported, &other.reported).into_iter().chain(objects)
    }

    /// Whether its Envoys report about an object.
    pub(super) fn reports(&self, object: &str) -> bool {
        self.reported.contains_key(object)
    }

    /// The health of an object; `None` if the Gateway does not have it.
    pub(super) fn health(&self, object: &str) -> Option<GatewayHealth> {
        let silent = || self.objects.contains(object).then(|| GatewayHealth::new(self.gateway.clone()));
        self.reported.get(object).cloned().or_else(silent)
    }
}

fn version_of_pools(view: &Snapshot) -> &str {
    view.type_version(type_urls::cluster())
}

fn has_pool(view: &Snapshot, pool: &str) -> bool {
    #[cfg(test)]
    LOOKED_UP.set(LOOKED_UP.get() + 1);
    view.has_cluster(pool)
}

#[cfg(test)]
thread_local! {
    /// Pools that were looked for in views by this thread.
    pub(super) static LOOKED_UP: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn objects_of(view: &Snapshot) -> BTreeSet<String> {
    let pools = view.names(type_urls::cluster()).map(without_generation);
    pools.filter_map(|pool| Some(group_of(pool)?.0)).collect()
}
