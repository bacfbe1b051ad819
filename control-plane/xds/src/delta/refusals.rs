use super::DeltaStream;
use super::subscription::RefusedOwners;
use crate::kind::ResourceKind;
use crate::node::{NodeRefusals, Refused};
use crate::resource::Resource;
use crate::snapshot::Snapshot;

impl DeltaStream {
    /// The resources that the node refuses, and whether it has all others of a snapshot.
    pub(crate) fn refusals(&self, snapshot: &Snapshot) -> NodeRefusals {
        let refused: Vec<Refused> = self.refused().into_iter().filter(|one| !one.is_optional).collect();
        let has_rest = || self.has_everything() || self.has_all_but_refused(&refused);
        NodeRefusals { is_pending: !(self.snapshot.has_resources_of(snapshot) && has_rest()), refused }
    }

    fn has_all_but_refused(&self, refused: &[Refused]) -> bool {
        let owners = RefusedOwners::of(refused);
        let asked = |kind| self.subscriptions.keys().any(|(other, _)| *other == kind);
        let unasked =
            |type_url: &str| !self.subscriptions.contains_key(&(ResourceKind::of(type_url), type_url.to_owned()));
        let need_not_have = |(_, resource): (_, &Resource)| resource.is_on_demand() || owners.has(resource.owner());
        self.turn.is_some()
            && asked(ResourceKind::Cluster)
            && asked(ResourceKind::Listener)
            && self.subscriptions.iter().all(|((_, url), one)| one.has_all_but_refused(&self.snapshot, url, &owners))
            && self.snapshot.types().filter(|url| unasked(url)).all(|url| self.snapshot.of_type(url).all(need_not_have))
    }
}
