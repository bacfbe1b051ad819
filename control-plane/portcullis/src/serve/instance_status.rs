//! The status of instances: what belongs to each, and what its Envoys have acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::status::{
    ClusterStatus, Condition, GatewayProgress, InstanceCounts, InstanceFacts, InstanceStatus, Timestamp, sanitize,
};
use portcullis_api::{CLUSTER_KIND, INSTANCE_KIND};
use portcullis_translate::Diagnosis;
use portcullis_xds::{AckState, AckStates, HealthReport, NodeStatus, Registry, Snapshot, View};

use super::gateway_states::refused_elsewhere;
use super::instance_views::{InstanceState, InstanceStates, instance_of_view};
use super::object_status::ClusterHolder;

/// The Envoys of each instance that are connected, here or as their agents say to another replica, each with what it has of everything.
pub(super) type EnvoyProgress = BTreeMap<String, BTreeMap<String, GatewayProgress>>;

/// The Envoys of all instances that are connected here, of these `nodes`.
pub(super) fn envoys_here(
    states: &InstanceStates,
    (registry, nodes): (&Registry, &[NodeStatus]),
    snapshot: Option<&Snapshot>,
) -> EnvoyProgress {
    let mut envoys: EnvoyProgress = states.by_name.keys().map(|name| (name.clone(), BTreeMap::new())).collect();
    let instance = |view: &View| view.0.as_deref().and_then(instance_of_view).map(str::to_owned);
    let is_of_instance = |view: &View| instance(view).is_some_and(|name| states.by_name.contains_key(&name));
    let views = snapshot.map(|snapshot| registry.progress_of_views(snapshot, is_of_instance)).unwrap_or_default();
    for (view, progresses) in views {
        if let Some(known) = instance(&view).and_then(|name| envoys.get_mut(&name)) {
            known.extend(progresses);
        }
    }
    for node in nodes.iter().filter(|node| node.connected) {
        if let Some(known) = instance(&node.view).and_then(|name| envoys.get_mut(&name)) {
            // Those without a view of their instance wait for one.
            known.entry(node.id.clone()).or_insert(GatewayProgress::Pending);
        }
    }
    envoys
}

/// Adds the Envoys that follow another replica, by what their agents repeat of its answers. `version` is the hash of what is served of a
/// cluster. Of a certificate that names several instances it is not known to which its Envoy belongs.
pub(super) fn add_envoys_elsewhere<'v>(
    envoys: &mut EnvoyProgress,
    states: &InstanceStates,
    reports: &BTreeMap<String, Arc<HealthReport>>,
    version: impl Fn(&str) -> Option<&'v str>,
) {
    let answering = || reports.iter().filter(|(_, report)| !report.answers.is_empty());
    let mut served: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    for (cluster, instances) in states.of_clusters.iter().filter(|_| answering().next().is_some()) {
        let Some(version) = version(cluster) else { continue };
        for instance in instances {
            served.entry(instance).or_default().push((cluster.clone(), version.to_owned()));
        }
    }
    for (node, report) in answering() {
        let Some([View(Some(view))]) = report.views.as_deref() else { continue };
        let known = instance_of_view(view).and_then(|instance| Some((instance, envoys.get_mut(instance)?)));
        let Some((instance, known)) = known else { continue };
        let served = served.get(instance).map(Vec::as_slice).unwrap_or_default();
        known.entry(node.clone()).or_insert_with(|| progress_elsewhere(served, &report.answers));
    }
}

/// The instances, and their Envoys at one time.
pub(super) struct InstanceEnvoys<'a> {
    pub(super) states: &'a InstanceStates,
    pub(super) envoys: &'a EnvoyProgress,
}

impl InstanceEnvoys<'_> {
    /// The status of the instance that a diagnosis is about, if it is about one that is judged.
    pub(super) fn status(
        &self,
        diagnosis: &Diagnosis,
        before: &[Condition],
        now: &Timestamp,
    ) -> Option<(ClusterStatus, InstanceCounts)> {
        let state = self.states.by_name.get(&diagnosis.name).filter(|_| diagnosis.kind == INSTANCE_KIND)?;
        let none = BTreeMap::new();
        let progresses = self.envoys.get(&diagnosis.name).unwrap_or(&none);
        let (facts, refusal) = facts(state, progresses);
        let facts = InstanceFacts { refusal: &refusal, ..facts };
        let InstanceStatus { observed_generation, conditions, counts } =
            InstanceStatus::of(&facts, diagnosis.version.generation, before, now);
        Some((ClusterStatus { observed_generation, conditions, ..ClusterStatus::default() }, counts))
    }

    /// The instances that an `UpstreamCluster` belongs to.
    pub(super) fn of_object(&self, diagnosis: &Diagnosis) -> Vec<String> {
        let is_cluster = diagnosis.kind == CLUSTER_KIND;
        self.states.of_clusters.get(&diagnosis.name).filter(|_| is_cluster).cloned().unwrap_or_default()
    }

    /// The one of these instances of an `UpstreamCluster` that holds it.
    pub(super) fn holder(&self, diagnosis: &Diagnosis, instances: &[String]) -> ClusterHolder {
        let is_cluster = diagnosis.kind == CLUSTER_KIND;
        match self.states.passing.get(&diagnosis.name).filter(|_| is_cluster) {
            Some(holder) => ClusterHolder { instance: holder.clone(), is_passing: true },
            None => ClusterHolder { instance: instances.first().cloned(), is_passing: false },
        }
    }
}

/// The progress of an Envoy that follows another replica, with the versions of all clusters of its instance.
fn progress_elsewhere(served: &[(String, String)], answers: &AckStates) -> GatewayProgress {
    let mut all = served.iter().map(|version| answers.get(version));
    match all.clone().find(|answer| *answer == Some(&AckState::Refused)) {
        Some(_) => refused_elsewhere(),
        None if all.all(|answer| answer.is_some()) => GatewayProgress::Acknowledged,
        None => GatewayProgress::Pending,
    }
}

/// The facts of an instance's status, and the first refusal of an Envoy.
fn facts<'a>(state: &'a InstanceState, progresses: &BTreeMap<String, GatewayProgress>) -> (InstanceFacts<'a>, String) {
    let has_all = |progress: &&GatewayProgress| **progress == GatewayProgress::Acknowledged;
    let acknowledged = progresses.values().filter(has_all).count();
    let refusal = progresses.iter().find_map(|(node, progress)| match progress {
        GatewayProgress::Refused { message } => Some(format!("{}: {}", sanitize(node), sanitize(message))),
        _ => None,
    });
    let facts = state.verdict.facts();
    let counts = InstanceCounts { envoys: progresses.len(), ..facts.counts };
    let acknowledged = state.is_served.then_some(acknowledged);
    (InstanceFacts { counts, acknowledged, ..facts }, refusal.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use portcullis_api::status::State;
    use portcullis_instances::InstanceVerdict;
    use portcullis_translate::{Reason, Version};
    use portcullis_xds::HealthRegistry;

    use super::*;

    fn diagnosis(kind: &str, name: &str) -> Diagnosis {
        Diagnosis {
            kind: kind.to_owned(),
            name: name.to_owned(),
            at: None,
            accepted: true,
            reason: Reason::Accepted,
            message: String::new(),
            warnings: Vec::new(),
            problems: Vec::new(),
            cautions: Vec::new(),
            shadow: None,
            names: Vec::new(),
            version: Version { generation: Some(7), ..Version::default() },
        }
    }

    fn states(is_served: bool, conflicts: &str) -> InstanceStates {
        let counts = InstanceCounts { clusters: 2, ..InstanceCounts::default() };
        let verdict = InstanceVerdict {
            is_accepted: true,
            reason: "Accepted",
            conflicts: conflicts.to_owned(),
            counts,
            ..InstanceVerdict::default()
        };
        InstanceStates {
            by_name: [("a".to_owned(), InstanceState { verdict, is_served })].into(),
            of_clusters: [("one.test".to_owned(), vec!["a".to_owned()])].into(),
            ..InstanceStates::default()
        }
    }

    #[test]
    fn status_says_what_envoys_have_acknowledged() {
        let refused = || GatewayProgress::Refused { message: "listener: taken".to_owned() };
        let (done, pending) = (|| GatewayProgress::Acknowledged, || GatewayProgress::Pending);
        for (is_served, progresses, reason, status) in [
            (true, vec![], "NoEnvoys", State::False),
            (true, vec![done(), done()], "Ready", State::True),
            (true, vec![done(), pending()], "Pending", State::False),
            (true, vec![done(), refused()], "Refused", State::False),
            (false, vec![pending()], "NotServed", State::Unknown),
        ] {
            let states = states(is_served, "");
            let named = progresses.into_iter().enumerate().map(|(index, one)| (format!("e{index}"), one));
            let envoys = EnvoyProgress::from([("a".to_owned(), named.collect())]);
            let now = Timestamp::from_seconds(1);
            let instances = InstanceEnvoys { states: &states, envoys: &envoys };
            let (found, counts) = instances.status(&diagnosis(INSTANCE_KIND, "a"), &[], &now).unwrap();
            let ready = &found.conditions[2];
            assert_eq!((ready.reason.as_str(), ready.status), (reason, status), "{ready:?}");
            assert_eq!((found.observed_generation, counts.clusters), (Some(7), 2));
            assert_eq!(counts.envoys, envoys["a"].len());
            assert_eq!(ready.message.contains("e1: listener: taken"), reason == "Refused");
        }
    }

    #[test]
    fn envoys_of_another_replica_count_by_their_agents_words() {
        let (mut states, registry, health) = (states(true, ""), Registry::default(), HealthRegistry::default());
        states.of_clusters.insert("two.test".to_owned(), vec!["b".to_owned(), "a".to_owned()]);
        let view = |name: &str| View(Some(format!("instance/{name}")));
        let answers = |all: &[(&str, AckState)]| -> AckStates {
            all.iter().map(|(cluster, answer)| (((*cluster).to_owned(), "v1".to_owned()), *answer)).collect()
        };
        let (taken, refused) = (AckState::Acknowledged, AckState::Refused);
        for (node, views, all) in [
            ("a/whole", vec![view("a")], &[("one.test", taken), ("two.test", taken)][..]),
            ("a/half", vec![view("a")], &[("one.test", taken)]),
            ("a/refusing", vec![view("a")], &[("two.test", refused)]),
            ("a/silent", vec![view("a")], &[]),
            ("a+b/either", vec![view("a"), view("b")], &[("one.test", taken)]),
            ("b/other", vec![view("b")], &[("two.test", taken)]),
            ("free", vec![View(None)], &[("one.test", taken)]),
        ] {
            health.record_within(node, BTreeMap::new(), Some(views), Instant::now());
            health.answered(node, answers(all));
        }
        let versions = BTreeMap::from([("one.test", "v1"), ("two.test", "v1")]);
        let mut envoys = envoys_here(&states, (&registry, registry.nodes().as_slice()), None);
        let reports = health.reports(Instant::now());
        add_envoys_elsewhere(&mut envoys, &states, &reports, |cluster| versions.get(cluster).copied());
        let found: Vec<_> = envoys["a"].iter().map(|(node, progress)| (node.as_str(), progress)).collect();
        let expected = [
            ("a/half", &GatewayProgress::Pending),
            ("a/refusing", &refused_elsewhere()),
            ("a/whole", &GatewayProgress::Acknowledged),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn objects_of_other_kinds_have_no_status_of_an_instance() {
        let (states, registry) = (states(true, "UpstreamCluster b.test belongs to Instance b"), Registry::default());
        let here = envoys_here(&states, (&registry, registry.nodes().as_slice()), Some(&Snapshot::default()));
        let envoys = InstanceEnvoys { states: &states, envoys: &here };
        let now = Timestamp::from_seconds(1);
        for (kind, name, is_one) in
            [(INSTANCE_KIND, "a", true), (INSTANCE_KIND, "gone", false), ("GatewaySettings", "a", false)]
        {
            let found = envoys.status(&diagnosis(kind, name), &[], &now);
            assert_eq!(found.is_some(), is_one, "{kind} {name}");
            let conflicted = found.map(|(status, _)| status.conditions[1].status);
            assert_eq!(conflicted, is_one.then_some(State::True));
        }
        assert_eq!(envoys.of_object(&diagnosis(CLUSTER_KIND, "one.test")), ["a"]);
        assert_eq!(envoys.of_object(&diagnosis(CLUSTER_KIND, "two.test")), [""; 0]);
        assert_eq!(envoys.of_object(&diagnosis(INSTANCE_KIND, "one.test")), [""; 0]);
    }
}
