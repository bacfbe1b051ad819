use portcullis_api::Problem;
use portcullis_api::status::{Acceptance, InstanceCounts, InstanceFacts};

use crate::conflict::Conflicts;
use crate::judge::JudgedInstance;
use crate::member::MemberKind;
use crate::settle::Settlement;

/// The status of an instance, without its Envoys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceVerdict {
    /// Whether its newest version is accepted.
    pub is_accepted: bool,
    /// The reason of `Accepted`.
    pub reason: &'static str,
    /// The message of `Accepted`.
    pub message: String,
    /// Accepted fields that may not do what their author expects.
    pub warnings: Vec<String>,
    /// The message of `Conflicted`; empty without conflicts.
    pub conflicts: String,
    /// The numbers of its members; no Envoys are known here.
    pub counts: InstanceCounts,
}

impl InstanceVerdict {
    /// That of an instance among all.
    pub fn of(judged: &JudgedInstance, settled: &Settlement) -> Self {
        let count = |is_meant: fn(MemberKind) -> bool| settled.count(&judged.name, is_meant);
        let conflicts = settled.conflicts.get(&judged.name).filter(|_| judged.outcome.is_ok());
        Self {
            is_accepted: judged.is_accepted(),
            reason: match (&judged.outcome, &judged.settings_problem) {
                (Err(_), _) => "Invalid",
                (Ok(_), Some(_)) => "SettingsNotAccepted",
                (Ok(_), None) => "Accepted",
            },
            message: texts(&judged.own_problems(settled)).join("; "),
            warnings: texts(&judged.warnings),
            conflicts: conflicts.map(Conflicts::to_string).unwrap_or_default(),
            counts: InstanceCounts {
                gateways: count(|kind| kind == MemberKind::Gateway),
                clusters: count(|kind| kind == MemberKind::UpstreamCluster),
                ..InstanceCounts::default()
            },
        }
    }

    /// The facts of its status, without Envoys.
    pub fn facts(&self) -> InstanceFacts<'_> {
        let acceptance = Acceptance {
            accepted: self.is_accepted,
            reason: self.reason,
            message: &self.message,
            warnings: &self.warnings,
            ..Acceptance::default()
        };
        InstanceFacts { acceptance, conflicts: &self.conflicts, counts: self.counts, ..InstanceFacts::default() }
    }
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use portcullis_api::{INSTANCE_API_VERSION, INSTANCE_KIND};
    use serde_json::{Value, json};

    use super::*;
    use crate::claim::MAX_INSTANCES;
    use crate::judge::judge_instances;
    use crate::member::{Entitlement, Member, MemberName};
    use crate::settle::{InstanceObjects, settle};

    fn document(name: &str, created: usize, spec: &Value) -> Value {
        json!({
            "apiVersion": INSTANCE_API_VERSION, "kind": INSTANCE_KIND,
            "metadata": {"name": name, "creationTimestamp": format!("{created:04}")}, "spec": spec,
        })
    }

    /// The verdicts of instances that all may select one cluster.
    fn verdicts(documents: &[Value], settings_problem: Option<&Problem>) -> Vec<InstanceVerdict> {
        let mut judged = judge_instances(documents, "portcullis");
        judged.iter_mut().for_each(|one| one.settings_problem = settings_problem.cloned());
        let member = Member {
            name: MemberName::cluster("a.test"),
            labels: [("team".to_owned(), "a".to_owned())].into(),
            entitlement: Entitlement::Any,
            recorded: None,
        };
        let instances = judged.iter().filter_map(JudgedInstance::claim).collect();
        let objects = InstanceObjects { instances, members: vec![member], follows_statuses: false };
        let settled = settle(&Settlement::default(), &objects, |_, _| true);
        judged.iter().map(|one| InstanceVerdict::of(one, &settled)).collect()
    }

    #[test]
    fn verdict_says_what_belongs_to_it_and_what_does_not() {
        let all = json!({"clustersSelector": {}, "gatewaysSelector": {}});
        let wrong = json!({"clustersSelector": {"matchFields": []}});
        let found = verdicts(&[document("a", 1, &all), document("b", 2, &all), document("c", 3, &wrong)], None);
        let told: Vec<_> = found.iter().map(|one| (one.is_accepted, one.reason, one.counts.clusters)).collect();
        assert_eq!(told, [(true, "Accepted", 1), (true, "Accepted", 0), (false, "Invalid", 0)]);
        let conflicts: Vec<&str> = found.iter().map(|one| one.conflicts.as_str()).collect();
        assert_eq!(conflicts, ["", "UpstreamCluster a.test belongs to Instance a", ""]);
        assert_eq!(found[1].message, "", "conflicts have a condition of their own");
        assert!(found[2].message.contains("unknown field"), "{}", found[2].message);
    }

    #[test]
    fn settings_that_are_not_used_refuse_no_selector() {
        let problem = Problem::new("spec.settings", "there are none");
        let found = verdicts(&[document("a", 1, &json!({"clustersSelector": {}}))], Some(&problem));
        assert_eq!((found[0].is_accepted, found[0].reason), (false, "SettingsNotAccepted"));
        assert_eq!((found[0].message.as_str(), found[0].counts.clusters), ("spec.settings: there are none", 1));
        assert_eq!(found[0].facts().acceptance.reason, "SettingsNotAccepted");
    }

    #[test]
    fn instance_beyond_the_bound_is_accepted_and_told() {
        let spec = json!({"clustersSelector": {"matchLabels": {"team": "none"}}});
        let documents: Vec<Value> = (0..=MAX_INSTANCES).map(|n| document(&format!("i{n:03}"), n, &spec)).collect();
        let found = verdicts(&documents, None);
        let last = &found[MAX_INSTANCES];
        assert!(last.is_accepted && last.message.contains("older instances"), "{}", last.message);
    }
}
