use std::collections::BTreeMap;

use portcullis_api::INSTANCE_KIND;

use super::inputs::Inputs;
use super::process::NO_CLUSTER;
use super::rates::Rates;
use super::severity::{assess, of_error_ratio, of_health};
use super::view::{ClusterSummary, FleetView, GatewaySummary, InstanceSummary, Severity};
use crate::serve::endpoint_reports::HealthByNode;
use crate::serve::object_status::ObjectStatus;

/// The activity of a cluster at all gateways.
#[derive(Debug, Default)]
pub(super) struct SummedActivity<'a> {
    pub(super) rates: Rates,
    /// By node, in its order.
    severities: Vec<(&'a str, Severity)>,
}

impl<'a> SummedActivity<'a> {
    /// Adds the activity at the next node.
    pub(super) fn add(&mut self, node: &'a str, rates: &Rates) {
        self.rates.add(rates);
        self.severities.push((node, of_error_ratio(rates)));
    }

    fn severity(&self, node: &str) -> Option<Severity> {
        let position = self.severities.binary_search_by(|(known, _)| (*known).cmp(node)).ok()?;
        self.severities.get(position).map(|(_, severity)| *severity)
    }
}

/// All clusters, worst first, and all gateways.
pub(super) fn fleet_view(inputs: Inputs<'_>) -> FleetView {
    let mut gateways = inputs.gateways();
    let (mut clusters, by_node) = summed(&inputs);
    for gateway in &mut gateways {
        gateway.numbers = by_node.get(gateway.node.as_str()).map(Rates::numbers).unwrap_or_default();
    }
    let health = inputs.health();
    let refusing = refusing(&inputs);
    let mut summaries: Vec<ClusterSummary> = Vec::new();
    for (name, object) in inputs.objects() {
        let activity = clusters.remove(name).unwrap_or_default();
        let health = health.get(name).copied();
        let parts = Parts { name, object, health, activity: &activity, refusing: &refusing };
        summaries.push(summary(&inputs, &parts, &gateways));
    }
    if let Some(activity) = clusters.remove(NO_CLUSTER).filter(|one| one.rates != Rates::default()) {
        summaries.push(without_object(&activity.rates, gateways.len()));
    }
    summaries.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.name.cmp(&b.name)));
    let instance = inputs.served.instance.clone();
    FleetView {
        time: inputs.now.seconds,
        instance,
        clusters: summaries,
        gateways,
        instances: instances(&inputs),
        at_gateways: Vec::new(),
    }
}

/// The instances by name; of several with one name the one that is accepted.
fn instances(inputs: &Inputs<'_>) -> Vec<InstanceSummary> {
    let mut instances: BTreeMap<&str, &ObjectStatus> = BTreeMap::new();
    for object in inputs.status.objects.iter().map(AsRef::as_ref).filter(|one| one.diagnosis.kind == INSTANCE_KIND) {
        let known = instances.entry(&object.diagnosis.name).or_insert(object);
        if object.diagnosis.accepted && !known.diagnosis.accepted {
            *known = object;
        }
    }
    let summary = |(name, object): (&str, &ObjectStatus)| InstanceSummary {
        name: name.to_owned(),
        conditions: object.status.conditions.clone(),
        counts: object.counts.unwrap_or_default(),
    };
    instances.into_iter().map(summary).collect()
}

/// Rates by cluster, and by node.
fn summed<'a>(inputs: &Inputs<'a>) -> (BTreeMap<&'a str, SummedActivity<'a>>, BTreeMap<&'a str, Rates>) {
    let mut clusters: BTreeMap<&str, SummedActivity<'_>> = BTreeMap::new();
    let mut nodes: BTreeMap<&str, Rates> = BTreeMap::new();
    for (node, gateway, _) in inputs.activity.reporting(inputs.now) {
        let of_node = nodes.entry(node).or_default();
        for (name, rates) in gateway.rates() {
            of_node.add(&rates);
            clusters.entry(name).or_default().add(node, &rates);
        }
    }
    (clusters, nodes)
}

/// Rates by cluster, over all gateways.
pub(super) fn rates_by_cluster<'a>(inputs: &Inputs<'a>) -> BTreeMap<&'a str, Rates> {
    let mut clusters: BTreeMap<&str, Rates> = BTreeMap::new();
    for (_, gateway, _) in inputs.activity.reporting(inputs.now) {
        for (name, rates) in gateway.rates() {
            clusters.entry(name).or_default().add(&rates);
        }
    }
    clusters
}

/// The nodes that refuse a part of an object, by the object.
type Refusing<'a> = BTreeMap<&'a str, Vec<&'a str>>;

fn refusing<'a>(inputs: &Inputs<'a>) -> Refusing<'a> {
    let mut refusing = Refusing::new();
    for node in inputs.status.nodes.iter() {
        for owner in node.refused.iter().filter_map(|one| one.owner.as_deref()) {
            refusing.entry(owner).or_default().push(&node.id);
        }
    }
    refusing
}

/// Everything about one cluster that its line needs.
struct Parts<'a> {
    name: &'a str,
    object: &'a ObjectStatus,
    health: Option<&'a HealthByNode>,
    activity: &'a SummedActivity<'a>,
    refusing: &'a Refusing<'a>,
}

/// The line of one cluster.
pub(super) fn cluster_summary(
    inputs: &Inputs<'_>,
    name: &str,
    object: &ObjectStatus,
    activity: &SummedActivity<'_>,
    gateways: &[GatewaySummary],
) -> ClusterSummary {
    let (health, refusing) = (inputs.health().remove(name), refusing(inputs));
    summary(inputs, &Parts { name, object, health, activity, refusing: &refusing }, gateways)
}

fn summary(inputs: &Inputs<'_>, parts: &Parts<'_>, gateways: &[GatewaySummary]) -> ClusterSummary {
    let &Parts { name, object, health, activity, refusing } = parts;
    let served = inputs.served(name);
    let assessment = assess(object, served, &activity.rates, inputs.now);
    let reported = || health.into_iter().flat_map(BTreeMap::values);
    let listed = served.map_or(0, |served| u32::try_from(served.servers.len()).unwrap_or(u32::MAX));
    let refuses = |node: &str| refusing.get(name).is_some_and(|nodes| nodes.contains(&node));
    let at_gateway = |gateway: &GatewaySummary| {
        let node = gateway.node.as_str();
        let of_health = health.and_then(|health| health.get(node)).map(of_health);
        let of_errors = activity.severity(node);
        let of_refusal = refuses(node).then_some(Severity::Warning);
        [of_health, of_errors, of_refusal].into_iter().flatten().max()
    };
    ClusterSummary {
        name: name.to_owned(),
        severity: assessment.severity,
        message: assessment.message,
        healthy_servers: reported().map(|health| health.healthy).min().unwrap_or_default(),
        servers: reported().map(|health| health.total).max().unwrap_or(listed),
        numbers: activity.rates.numbers(),
        by_gateway: gateways.iter().map(at_gateway).collect(),
    }
}

/// The line of requests that reached no object.
pub(super) fn without_object(rates: &Rates, gateways: usize) -> ClusterSummary {
    ClusterSummary {
        name: NO_CLUSTER.to_owned(),
        message: "requests that reached no UpstreamCluster".to_owned(),
        numbers: rates.numbers(),
        by_gateway: vec![None; gateways],
        ..ClusterSummary::default()
    }
}
