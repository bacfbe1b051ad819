//! Objects and their conditions that are False, counted for metrics: by the verdicts that are written as statuses, by every replica.

use std::sync::Arc;

use portcullis_sources::WatchedKind;

use super::super::metrics::{ControlPlaneMetrics, GatewayApiCounts};
use super::super::policies::PolicyVerdicts;
use super::GatewayApiVerdicts;
use super::statuses::{Judged, watched_kind};

/// The verdicts that are counted in the metrics. Policies change with other things than the rest, so each part is counted apart.
pub(super) struct CountedVerdicts {
    metrics: Arc<ControlPlaneMetrics>,
    judged: CountedPart<GatewayApiVerdicts>,
    policies: CountedPart<PolicyVerdicts>,
}

/// Verdicts with their counts; none of either before the first.
struct CountedPart<T> {
    of: Option<Arc<T>>,
    counts: GatewayApiCounts,
}

impl<T> Default for CountedPart<T> {
    fn default() -> Self {
        Self { of: None, counts: GatewayApiCounts::default() }
    }
}

impl<T> CountedPart<T> {
    /// Counts verdicts, unless they are those before. Whether they are others.
    fn follow(&mut self, newest: Arc<T>, count: impl FnOnce(&T) -> GatewayApiCounts) -> bool {
        let is_new = self.of.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &newest));
        if is_new {
            *self = Self { counts: count(&newest), of: Some(newest) };
        }
        is_new
    }
}

impl CountedVerdicts {
    pub(super) fn new(metrics: Arc<ControlPlaneMetrics>) -> Self {
        Self { metrics, judged: CountedPart::default(), policies: CountedPart::default() }
    }

    /// Takes the newest verdicts; those about policies, if these are attached.
    pub(super) fn follow(&mut self, judged: Arc<GatewayApiVerdicts>, policies: Option<Arc<PolicyVerdicts>>) {
        let is_new = self.judged.follow(judged, |verdicts| counts(verdicts.judged()));
        let has_new = policies.is_some_and(|newest| self.policies.follow(newest, PolicyVerdicts::counts));
        if is_new || has_new {
            self.metrics.judged(&[&self.judged.counts, &self.policies.counts]);
        }
    }
}

/// The counts of all objects of this controller. The conditions that statuses have beside these are of no type that is counted.
pub(super) fn counts(judged: Judged<'_>) -> GatewayApiCounts {
    let (attached, served) = (judged.attached, judged.served());
    let (mut counts, closed) = (GatewayApiCounts::default(), judged.closed());
    attached.classes.iter().for_each(|class| counts.add(WatchedKind::GatewayClass, &class.conditions));
    for gateway in &attached.gateways {
        let programmed = judged.programmed(&gateway.name, &served);
        // Addresses that a status has from before are kept while no Envoy has the Gateway: it is not programmed with them either.
        let own = programmed.gateway(&gateway.conditions, !programmed.addresses(&[]).is_empty());
        let of_listeners = gateway.listeners.iter().flat_map(|listener| programmed.listener(listener));
        counts.add(WatchedKind::Gateway, own.into_iter().chain(of_listeners));
    }
    for route in attached.routes.iter().filter(|route| !route.parents.is_empty()) {
        let verdict = closed.route(route);
        counts.add(watched_kind(route.kind), verdict.parents.iter().flat_map(|parent| &parent.conditions));
    }
    attached.upstreams.iter().for_each(|one| counts.add(WatchedKind::KubernetesUpstream, &one.conditions));
    counts
}

#[cfg(test)]
mod tests;
