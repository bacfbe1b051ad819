//! The status of instances: what belongs to each, and what its Envoys have acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use portcullis_api::status::{
    ClusterStatus, Condition, GatewayProgress, InstanceCounts, InstanceFacts, InstanceStatus, Timestamp, sanitize,
};
use portcullis_api::{CLUSTER_KIND, INSTANCE_KIND};
use portcullis_translate::{Diagnosis, FilterBuild};
use portcullis_xds::{AckState, AckStates, HealthRegistry, Registry, Snapshot, View};

use super::gateway_states::refused_elsewhere;
use super::instance_views::{InstanceState, InstanceStates, instance_of_view, instance_view};

/// The Envoys of all instances at one time.
pub(super) struct InstanceEnvoys<'a> {
    states: &'a InstanceStates,
    /// By instance: its Envoys that are connected, here or as their agents say to another replica, each with what it has of everything.
    progresses: BTreeMap<&'a str, BTreeMap<String, GatewayProgress>>,
}

impl<'a> InstanceEnvoys<'a> {
    pub(super) fn new(states: &'a InstanceStates, registry: &Registry, snapshot: Option<&Snapshot>) -> Self {
        let connected = if states.by_name.is_empty() { BTreeMap::new() } else { connected(registry) };
        let progress = |instance: &'a String| {
            let Some(nodes) = connected.get(instance) else { return (instance.as_str(), BTreeMap::new()) };
            let of_view = |view: &View| snapshot.map(|snapshot| registry.view_progress(snapshot, view));
            let builds = [FilterBuild::Module, FilterBuild::Wasm].map(|filter| instance_view(instance, filter));
            let mut known: BTreeMap<String, GatewayProgress> = builds.iter().filter_map(of_view).flatten().collect();
            // Those without a view of their instance wait for one.
            for node in nodes {
                known.entry(node.clone()).or_insert(GatewayProgress::Pending);
            }
            (instance.as_str(), known)
        };
        Self { states, progresses: states.by_name.keys().map(progress).collect() }
    }

    /// The same with Envoys that follow another replica, by what their agents repeat of its answers. `versions` are the hashes of what is
    /// served of each cluster. Of a certificate that names several instances it is not known to which its Envoy belongs.
    pub(super) fn with_answers(mut self, health: &HealthRegistry, versions: &BTreeMap<&str, &str>) -> Self {
        let now = Instant::now();
        let (answers, views) = (health.answers(now), health.views(now));
        let mut served: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
        for (cluster, instances) in self.states.of_clusters.iter().filter(|_| !answers.is_empty()) {
            let Some(version) = versions.get(cluster.as_str()) else { continue };
            for instance in instances {
                served.entry(instance).or_default().push((cluster.clone(), (*version).to_owned()));
            }
        }
        for (node, answers) in &answers {
            let Some(Some([View(Some(view))])) = views.get(node).map(Option::as_deref) else { continue };
            let known =
                instance_of_view(view).and_then(|instance| Some((instance, self.progresses.get_mut(instance)?)));
            let Some((instance, known)) = known else { continue };
            let served = served.get(instance).map(Vec::as_slice).unwrap_or_default();
            known.entry(node.clone()).or_insert_with(|| progress_elsewhere(served, answers));
        }
        self
    }

    /// The status of the instance that a diagnosis is about, if it is about one that is judged.
    pub(super) fn status(
        &self,
        diagnosis: &Diagnosis,
        before: &[Condition],
        now: &Timestamp,
    ) -> Option<(ClusterStatus, InstanceCounts)> {
        let state = self.states.by_name.get(&diagnosis.name).filter(|_| diagnosis.kind == INSTANCE_KIND)?;
        let none = BTreeMap::new();
        let progresses = self.progresses.get(diagnosis.name.as_str()).unwrap_or(&none);
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

/// The nodes of each instance.
fn connected(registry: &Registry) -> BTreeMap<String, BTreeSet<String>> {
    let mut connected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in registry.nodes().into_iter().filter(|node| node.connected) {
        if let Some(instance) = node.view.0.as_deref().and_then(instance_of_view) {
            connected.entry(instance.to_owned()).or_default().insert(node.id);
        }
    }
    connected
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
    use portcullis_api::status::State;
    use portcullis_instances::InstanceVerdict;
    use portcullis_translate::{Reason, Version};

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
            let envoys = InstanceEnvoys { states: &states, progresses: [("a", named.collect())].into() };
            let now = Timestamp::from_seconds(1);
            let (found, counts) = envoys.status(&diagnosis(INSTANCE_KIND, "a"), &[], &now).unwrap();
            let ready = &found.conditions[2];
            assert_eq!((ready.reason.as_str(), ready.status), (reason, status), "{ready:?}");
            assert_eq!((found.observed_generation, counts.clusters), (Some(7), 2));
            assert_eq!(counts.envoys, envoys.progresses["a"].len());
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
        let envoys = InstanceEnvoys::new(&states, &registry, None).with_answers(&health, &versions);
        let found: Vec<_> = envoys.progresses["a"].iter().map(|(node, progress)| (node.as_str(), progress)).collect();
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
        let envoys = InstanceEnvoys::new(&states, &registry, Some(&Snapshot::default()));
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
