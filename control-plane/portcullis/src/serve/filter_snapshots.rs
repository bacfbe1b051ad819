use std::collections::{BTreeMap, BTreeSet};

use portcullis_translate::{FilterBuild, Input, ResourceGroup};
use portcullis_xds::Snapshot;

use super::divided_translator::{DividedTranslator, Division, first_part};
use super::group_change::KnownGroups;
use super::instance_views::view_for;
use super::xds_resources::{Retained, XdsResources};

/// The snapshots for Envoys with other builds of the filter than the module, as long as there are some.
#[derive(Default)]
pub(super) struct FilterSnapshots {
    builds: BTreeMap<FilterBuild, BuildSnapshots>,
    /// Views that were served before this program started, until they are translated again.
    resumed: BTreeMap<String, Snapshot>,
}

/// Those of one build.
#[derive(Default)]
struct BuildSnapshots {
    translator: DividedTranslator,
    /// Objects that these Envoys are not served.
    refused: BTreeSet<String>,
    /// That of Envoys of no instance, if there are some.
    free: Option<FreeSnapshot>,
}

/// The snapshot of Envoys of no instance.
#[derive(Default)]
struct FreeSnapshot {
    groups: KnownGroups,
    resources: XdsResources,
}

impl FilterSnapshots {
    /// Goes on from views that were served before this program started.
    pub(super) fn resume(views: impl Iterator<Item = (String, Snapshot)>) -> Self {
        Self { resumed: views.collect(), ..Self::default() }
    }

    /// Forgets all builds but these, and what is of other parts.
    pub(super) fn keep(&mut self, parts: &BTreeMap<FilterBuild, BTreeSet<usize>>) {
        self.builds.retain(|filter, _| parts.contains_key(filter));
        for (filter, build) in &mut self.builds {
            if !parts.get(filter).is_some_and(|parts| parts.contains(&0)) {
                build.free = None;
            }
        }
    }

    /// Translates for Envoys with a build of the filter that belong to these parts. Returns the view of those of no instance, if they are
    /// among these, and the groups of the other parts in their order.
    pub(super) fn follow(
        &mut self,
        (input, division): (&Input<'_>, &Division),
        parts: &BTreeSet<usize>,
        retained: Retained<'_>,
    ) -> (Option<(String, Snapshot)>, Vec<Vec<ResourceGroup>>) {
        let build = self.builds.entry(input.filter).or_default();
        let translated = build.translator.translate_for(input, division, |part| parts.contains(&part));
        let (translation, groups) = first_part(translated);
        let refused = translation.diagnoses.iter().filter(|one| !one.accepted).map(|one| one.name.clone()).collect();
        for name in BTreeSet::difference(&refused, &build.refused) {
            tracing::warn!(filter = %input.filter, name, "not served to the gateways with this build of the filter");
        }
        build.refused = refused;
        let Some(name) = view_for(input.filter).0.filter(|_| parts.contains(&0)) else { return (None, groups) };
        let resumed = self.resumed.remove(&name);
        let free = build.free.get_or_insert_with(|| FreeSnapshot::resume(resumed));
        let change = free.groups.follow(&translation.groups);
        free.resources.follow(&translation.groups, &change, retained);
        (Some((name, free.resources.snapshot().clone())), groups)
    }

    /// Has the next snapshots made of all resources.
    #[cfg(test)]
    pub(super) fn forget_resources(&mut self) {
        self.builds
            .values_mut()
            .filter_map(|build| build.free.as_mut())
            .for_each(|free| free.resources = XdsResources::default());
    }
}

impl FreeSnapshot {
    fn resume(last_good: Option<Snapshot>) -> Self {
        Self { resources: XdsResources::resume(last_good.unwrap_or_default()), ..Self::default() }
    }
}
