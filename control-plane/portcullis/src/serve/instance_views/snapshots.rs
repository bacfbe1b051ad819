use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use portcullis_api::Settings;
use portcullis_translate::{FilterBuild, Resource, ResourceGroup};
use portcullis_xds::Snapshot;

use super::super::group_change::KnownGroups;
use super::super::retention::RetiredGroups;
use super::super::xds_resources::{Retained, XdsResources};
use super::{instance_of_view, view_name};

/// The snapshots of instances' Envoys, by the names of their views.
#[derive(Default)]
pub(in super::super) struct InstanceSnapshots {
    views: BTreeMap<String, InstanceSnapshot>,
}

/// The snapshot of one instance's Envoys with one build of the filter.
#[derive(Default)]
struct InstanceSnapshot {
    groups: KnownGroups,
    resources: XdsResources,
    retired: RetiredGroups,
    /// The objects that are served, or were and are gone.
    owners: BTreeSet<String>,
}

/// A translation for the Envoys of all instances with one build of the filter.
pub(in super::super) struct InstanceParts<'a> {
    pub(in super::super) filter: FilterBuild,
    /// The groups of each instance, by its name, and its settings; no groups of one that is served nothing new.
    pub(in super::super) groups: BTreeMap<String, (Option<Vec<ResourceGroup>>, &'a Settings)>,
    /// Routes without destinations in place of removed objects.
    pub(in super::super) tombstones: Vec<Arc<Resource>>,
    /// The objects that are other ones than before under their names.
    pub(in super::super) replaced: &'a BTreeSet<String>,
}

impl InstanceSnapshots {
    /// Goes on from views that were served before this program started.
    pub(in super::super) fn resume<'a>(views: impl Iterator<Item = (&'a str, &'a Snapshot)>) -> Self {
        let of_instances = views.filter(|(name, _)| instance_of_view(name).is_some());
        let one = |(name, view): (&str, &Snapshot)| {
            let resources = XdsResources::resume(view.clone());
            (name.to_owned(), InstanceSnapshot { resources, ..InstanceSnapshot::default() })
        };
        Self { views: of_instances.map(one).collect() }
    }

    /// Forgets the views of instances that have none any more, and with them keys and expiries.
    pub(in super::super) fn keep(&mut self, served: &BTreeSet<String>) {
        self.views.retain(|name, _| instance_of_view(name).is_some_and(|instance| served.contains(instance)));
    }

    /// Forgets a view that no Envoy has any more.
    pub(in super::super) fn forget(&mut self, name: &str) {
        self.views.remove(name);
    }

    /// The views of a newer translation.
    pub(in super::super) fn follow(&mut self, parts: InstanceParts<'_>, now: Instant) -> Vec<(String, Snapshot)> {
        let mut views = Vec::new();
        for (instance, (groups, settings)) in &parts.groups {
            let name = view_name(instance, parts.filter);
            let Some(groups) = groups else {
                // The view of before this program started stays; without one its Envoys get nothing.
                views.extend(self.views.get(&name).map(|view| (name.clone(), view.resources.snapshot().clone())));
                continue;
            };
            let view = self.views.entry(name.clone()).or_default();
            let change = view.groups.follow(groups);
            view.retired.record(&change, parts.replaced, settings, now);
            let retired = view.retired.retained();
            let tombstones = view.tombstones(groups, &parts.tombstones);
            view.resources.follow(groups, &change, Retained { tombstones: &tombstones, retired: &retired });
            views.push((name, view.resources.snapshot().clone()));
        }
        views
    }

    /// The next time at which something is retained no longer.
    pub(in super::super) fn next_expiry(&self) -> Option<Instant> {
        self.views.values().filter_map(|view| view.retired.next_expiry()).min()
    }
}

impl InstanceSnapshot {
    /// The tombstones of objects that were served here: those of others have their policies.
    fn tombstones(&mut self, groups: &[ResourceGroup], all: &[Arc<Resource>]) -> Vec<Arc<Resource>> {
        let is_own = |one: &&Arc<Resource>| one.owner.as_ref().is_some_and(|owner| self.owners.contains(&**owner));
        let own: Vec<Arc<Resource>> = all.iter().filter(is_own).cloned().collect();
        let served = groups.iter().filter_map(|group| group.first()?.owner.as_ref());
        let owners = served.chain(own.iter().filter_map(|one| one.owner.as_ref()));
        self.owners = owners.map(ToString::to_string).collect();
        own
    }
}
