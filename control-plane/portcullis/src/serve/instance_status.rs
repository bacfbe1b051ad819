//! The status of instances: what belongs to each, and what its Envoys have acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::status::{
    ClusterStatus, Condition, GatewayProgress, InstanceCounts, InstanceFacts, InstanceStatus, Timestamp, sanitize,
};
use portcullis_api::{CLUSTER_KIND, INSTANCE_KIND};
use portcullis_instances::MemberName;
use portcullis_translate::Diagnosis;
use portcullis_xds::{AckState, AckStates, HealthReport, NodeStatus, Registry, Snapshot, View};

use super::gateway_states::refused_elsewhere;
use super::gateway_views::gateway_of_view;
use super::instance_views::{InstanceState, InstanceStates, instance_of_view};
use super::object_status::ClusterHolder;

/// The Envoys of each instance.
pub(super) type EnvoyProgress = BTreeMap<String, InstanceProgress>;

/// The Envoys of an instance, each with what it has of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InstanceProgress {
    /// Its own that are connected, here or as their agents say to another replica.
    own: BTreeMap<String, GatewayProgress>,
    /// Those of its Gateways that are connected here, by view: at the socket two may have one name.
    at_gateways: BTreeMap<(View, String), GatewayProgress>,
}

impl InstanceProgress {
    /// Adds an Envoy of a view. One that is known keeps its progress.
    fn add(&mut self, view: &View, node: String, progress: GatewayProgress) {
        let is_own = view.0.as_deref().is_some_and(|name| instance_of_view(name).is_some());
        match is_own {
            true => self.own.entry(node).or_insert(progress),
            false => self.at_gateways.entry((view.clone(), node)).or_insert(progress),
        };
    }
}

/// The Envoys of all instances that are connected here, of these `nodes`.
pub(super) fn envoys_here(
    states: &InstanceStates,
    (registry, nodes): (&Registry, &[NodeStatus]),
    snapshot: Option<&Snapshot>,
) -> EnvoyProgress {
    let mut envoys: EnvoyProgress =
        states.by_name.keys().map(|name| (name.clone(), InstanceProgress::default())).collect();
    let instance = |view: &View| instance_of(states, view.0.as_deref()?).map(str::to_owned);
    let is_of_instance = |view: &View| instance(view).is_some_and(|name| states.by_name.contains_key(&name));
    let views = snapshot.map(|snapshot| registry.progress_of_views(snapshot, is_of_instance)).unwrap_or_default();
    for (view, progresses) in views {
        if let Some(known) = instance(&view).and_then(|name| envoys.get_mut(&name)) {
            progresses.into_iter().for_each(|(node, progress)| known.add(&view, node, progress));
        }
    }
    for node in nodes.iter().filter(|node| node.connected) {
        if let Some(known) = instance(&node.view).and_then(|name| envoys.get_mut(&name)) {
            // Those without a view of their instance wait for one.
            known.add(&node.view, node.id.clone(), GatewayProgress::Pending);
        }
    }
    envoys
}

/// The instance of a view: its own, or that of its Gateway, which is the next one while the Gateway passes over.
fn instance_of<'a>(states: &'a InstanceStates, view: &'a str) -> Option<&'a str> {
    instance_of_view(view).or_else(|| {
        let gateway = MemberName::gateway(gateway_of_view(view)?.to_string());
        states.settled.owners.get(&gateway)?.settled().instance()
    })
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
        known.own.entry(node.clone()).or_insert_with(|| progress_elsewhere(served, &report.answers));
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
        let none = InstanceProgress::default();
        let (facts, refusal) = facts(state, self.envoys.get(&diagnosis.name).unwrap_or(&none));
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

/// The facts of an instance's status, and the first refusal of an Envoy that decides.
fn facts<'a>(state: &'a InstanceState, envoys: &InstanceProgress) -> (InstanceFacts<'a>, String) {
    let facts = state.verdict.facts();
    let counts = InstanceCounts { envoys: envoys.own.len(), gateway_envoys: envoys.at_gateways.len(), ..facts.counts };
    let acknowledged = state.is_served.then(|| acknowledged_of(envoys.own.values()));
    let acknowledged_at_gateways = acknowledged_of(envoys.at_gateways.values());
    let facts = InstanceFacts { counts, acknowledged, acknowledged_at_gateways, ..facts };
    let refusal = match facts.is_of_gateways_alone() {
        true => refusal(envoys.at_gateways.iter().map(|((_, node), progress)| (node, progress))),
        false => refusal(envoys.own.iter()),
    };
    (facts, refusal.unwrap_or_default())
}

fn acknowledged_of<'p>(progresses: impl Iterator<Item = &'p GatewayProgress>) -> usize {
    progresses.filter(|progress| **progress == GatewayProgress::Acknowledged).count()
}

fn refusal<'p>(mut envoys: impl Iterator<Item = (&'p String, &'p GatewayProgress)>) -> Option<String> {
    envoys.find_map(|(node, progress)| match progress {
        GatewayProgress::Refused { message } => Some(format!("{}: {}", sanitize(node), sanitize(message))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use portcullis_api::status::State;
    use portcullis_instances::{InstanceVerdict, MemberHolder, Ownership};
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
            let progress = InstanceProgress { own: named.collect(), ..InstanceProgress::default() };
            let envoys = EnvoyProgress::from([("a".to_owned(), progress)]);
            let now = Timestamp::from_seconds(1);
            let instances = InstanceEnvoys { states: &states, envoys: &envoys };
            let (found, counts) = instances.status(&diagnosis(INSTANCE_KIND, "a"), &[], &now).unwrap();
            let ready = &found.conditions[2];
            assert_eq!((ready.reason.as_str(), ready.status), (reason, status), "{ready:?}");
            assert_eq!((found.observed_generation, counts.clusters), (Some(7), 2));
            assert_eq!(counts.envoys, envoys["a"].own.len());
            assert_eq!(ready.message.contains("e1: listener: taken"), reason == "Refused");
        }
    }

    #[test]
    fn envoys_of_gateways_count_for_their_owner() {
        let registry = Registry::default();
        let mut states = states(true, "");
        states.by_name.insert("b".to_owned(), InstanceState::default());
        let held = |holder: &str, next: Option<&str>| Ownership {
            holder: MemberHolder::Instance(holder.to_owned()),
            next: next.map(|next| MemberHolder::Instance(next.to_owned())),
        };
        for (gateway, owner) in [("infra/edge", held("a", None)), ("infra/passing", held("b", Some("a")))] {
            states.settled.owners.insert(MemberName::gateway(gateway), owner);
        }
        let node = |view: &str, connected| NodeStatus {
            id: "e".to_owned(),
            connected,
            types: BTreeMap::new(),
            snapshot: String::new(),
            in_sync: false,
            refused: Vec::new(),
            view: View(Some(view.to_owned())),
        };
        let nodes = [
            node("gateway/infra/edge", true),
            node("gateway/infra/passing", true),
            node("gateway/infra/free", true),
            node("instance/a", true),
            node("gateway/infra/edge", false),
        ];
        let found = envoys_here(&states, (&registry, &nodes), None);
        let numbers = |name: &str| (found[name].own.len(), found[name].at_gateways.len());
        assert_eq!((numbers("a"), numbers("b")), ((1, 2), (0, 0)));
    }

    #[test]
    fn status_of_gateways_alone_is_what_their_envoys_have() {
        let mut states = states(true, "");
        if let Some(state) = states.by_name.get_mut("a") {
            state.verdict.counts = InstanceCounts { gateways: 2, ..InstanceCounts::default() };
        }
        let (done, own) = (GatewayProgress::Acknowledged, [("e".to_owned(), GatewayProgress::Acknowledged)]);
        let refused = GatewayProgress::Refused { message: "port: taken".to_owned() };
        for (own, progresses, reason) in [
            (None, vec![&done, &done], "Ready"),
            (None, vec![&done, &refused], "Refused"),
            (None, vec![], "NoEnvoys"),
            (Some(own), vec![&refused], "Ready"),
        ] {
            let views = progresses.iter().enumerate().map(|(index, one)| {
                let view = View(Some(format!("gateway/infra/g{index}")));
                ((view, "e".to_owned()), (*one).clone())
            });
            let progress = InstanceProgress { own: own.into_iter().flatten().collect(), at_gateways: views.collect() };
            let envoys = EnvoyProgress::from([("a".to_owned(), progress)]);
            let instances = InstanceEnvoys { states: &states, envoys: &envoys };
            let now = Timestamp::from_seconds(1);
            let (found, counts) = instances.status(&diagnosis(INSTANCE_KIND, "a"), &[], &now).unwrap();
            let ready = &found.conditions[2];
            assert_eq!((ready.reason.as_str(), counts.gateway_envoys), (reason, progresses.len()), "{ready:?}");
            assert_eq!(ready.message.contains("e: port: taken"), reason == "Refused", "{ready:?}");
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
        let found: Vec<_> = envoys["a"].own.iter().map(|(node, progress)| (node.as_str(), progress)).collect();
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
