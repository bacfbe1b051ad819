use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use portcullis_attach::ConditionVerdict;
use portcullis_sources::WatchedKind;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{OneLabel, TwoLabels, add, catalog, number};

/// Numbers of objects of the Gateway API by kind, and of those with a condition that is False.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GatewayApiCounts {
    objects: BTreeMap<&'static str, usize>,
    /// By kind and condition.
    with_false: BTreeMap<(&'static str, &'static str), usize>,
}

impl GatewayApiCounts {
    /// Adds an object with all its conditions, those at listeners, parents or targets among them. It counts once for each type of
    /// which one is False.
    pub(crate) fn add(&mut self, kind: WatchedKind, conditions: impl IntoIterator<Item: Borrow<ConditionVerdict>>) {
        let kind = kind.kind();
        let types = conditions.into_iter().filter(|one| !one.borrow().status).map(|one| one.borrow().kind);
        let types: BTreeSet<&'static str> = types.collect();
        *self.objects.entry(kind).or_default() += 1;
        types.into_iter().for_each(|condition| *self.with_false.entry((kind, condition)).or_default() += 1);
    }

    /// The numbers in words, in the order of kinds and conditions.
    #[cfg(test)]
    pub(crate) fn listed(&self) -> Vec<String> {
        let objects = self.objects.iter().map(|(kind, count)| format!("{kind} {count}"));
        let with_false = self.with_false.iter().map(|((kind, condition), count)| format!("{kind} {condition} {count}"));
        let mut all: Vec<String> = objects.chain(with_false).collect();
        all.sort();
        all
    }
}

/// Metrics of these objects. They have no series before they are counted, and none ever without the Gateway API.
#[derive(Debug, Default)]
pub(super) struct GatewayApiMetrics {
    objects: Family<OneLabel, Gauge>,
    with_false: Family<TwoLabels, Gauge>,
}

impl GatewayApiMetrics {
    pub(super) fn register(&self, page: &mut Registry) {
        add(page, &catalog::GATEWAY_API_OBJECTS, self.objects.clone());
        add(page, &catalog::GATEWAY_API_FALSE_CONDITIONS, self.with_false.clone());
    }

    /// Takes the counts of all objects, in parts.
    pub(super) fn count(&self, parts: &[&GatewayApiCounts]) {
        let sum =
            |of: &dyn Fn(&GatewayApiCounts) -> Option<usize>| number(parts.iter().filter_map(|one| of(one)).sum());
        for kind in catalog::GATEWAY_API_KINDS {
            let objects = sum(&|part| part.objects.get(kind).copied());
            self.objects.get_or_create(&[("kind", kind)]).set(objects);
            for condition in catalog::CONDITIONS {
                let with_false = sum(&|part| part.with_false.get(&(kind, condition)).copied());
                self.with_false.get_or_create(&[("kind", kind), ("condition", condition)]).set(with_false);
            }
        }
    }
}
