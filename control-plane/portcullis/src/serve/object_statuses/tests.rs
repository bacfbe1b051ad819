use portcullis_api::status::{ClusterStatus, ConditionType, State, Timestamp};
use portcullis_translate::{Reason, Version};

use super::*;

fn diagnosis((name, message): (&str, &str)) -> Arc<Diagnosis> {
    Arc::new(Diagnosis {
        kind: CLUSTER_KIND.to_owned(),
        name: name.to_owned(),
        at: None,
        accepted: message != "refused",
        reason: Reason::Invalid,
        message: message.to_owned(),
        warnings: Vec::new(),
        problems: Vec::new(),
        cautions: Vec::new(),
        names: Vec::new(),
        shadow: None,
        version: Version::default(),
    })
}

fn condition(reason: &str) -> Condition {
    Condition {
        kind: ConditionType::Accepted,
        status: State::False,
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: Timestamp::from_seconds(0),
        observed_generation: None,
    }
}

/// The statuses with their diagnoses, and for each of a newer list the reason that it was known by, if it was made anew.
struct Followed {
    diagnoses: Arc<Vec<Arc<Diagnosis>>>,
    statuses: Arc<ObjectStatuses>,
}

impl Followed {
    fn new() -> Self {
        Self { diagnoses: Arc::default(), statuses: Arc::default() }
    }

    fn follow(&mut self, list: Vec<Arc<Diagnosis>>, names: &ChangedNames, written: &[(&str, &str)]) -> Vec<String> {
        let after = Arc::new(list);
        let key = |name: &str| (CLUSTER_KIND.to_owned(), name.to_owned(), String::new());
        let written = written.iter().map(|(name, reason)| (key(name), vec![condition(reason)])).collect();
        let changed = ChangedInputs { before: &self.diagnoses, after: &after, names, written: &written };
        let mut made = Vec::new();
        let next = self.statuses.follow(&changed, |diagnosis, before| {
            let reason = before.first().map_or("", |one| one.reason.as_str());
            made.push(format!("{}: {reason}", diagnosis.name));
            let conditions = vec![condition(&diagnosis.message)];
            ObjectStatus::new(Arc::clone(diagnosis), ClusterStatus { conditions, ..ClusterStatus::default() })
        });
        (self.diagnoses, self.statuses) = (after, next);
        made
    }
}

fn named(names: &[&str]) -> ChangedNames {
    let mut changed = ChangedNames::default();
    names.iter().for_each(|name| changed.add(*name));
    changed
}

#[test]
fn statuses_are_made_for_what_has_changed() {
    let (none, mut followed) = (ChangedNames::default(), Followed::new());
    let [a, b, c] = ["a", "b", "c"].map(|name| diagnosis((name, "1")));
    assert_eq!(followed.follow(vec![a.clone(), b.clone(), c.clone()], &none, &[]), ["a: ", "b: ", "c: "]);
    let first = Arc::clone(&followed.statuses);
    assert_eq!(followed.follow(vec![a.clone(), b.clone(), c.clone()], &none, &[]), [""; 0]);
    assert!(Arc::ptr_eq(&first, &followed.statuses));
    assert_eq!(followed.follow(vec![a.clone(), b.clone(), c.clone()], &named(&["b", "x"]), &[]), ["b: 1"]);
    assert!(Arc::ptr_eq(&first, &followed.statuses), "it is as it was");
    let other = diagnosis(("b", "2"));
    assert_eq!(followed.follow(vec![a.clone(), other.clone(), c.clone()], &none, &[]), ["b: 1"]);
    assert_eq!(followed.statuses.changed_names(&first), BTreeSet::from(["b"]));
    let before = Arc::clone(&followed.statuses);
    let new = diagnosis(("0", "1"));
    assert_eq!(followed.follow(vec![new, a, c], &none, &[]), ["0: "]);
    assert_eq!(followed.statuses.changed_names(&before), BTreeSet::from(["0", "b"]));
    assert_eq!(followed.follow(followed.diagnoses.to_vec(), &ChangedNames::All, &[]), ["0: 1", "a: 1", "c: 1"]);
}

#[test]
fn conditions_that_another_replica_wrote_come_first() {
    let (none, mut followed) = (ChangedNames::default(), Followed::new());
    let list: Vec<_> = ["a", "a", "b"].map(|name| diagnosis((name, "1"))).into();
    followed.follow(list.clone(), &none, &[]);
    let made = followed.follow(list, &none, &[("a", "other"), ("b", "new"), ("x", "gone")]);
    assert_eq!(made, ["a: other", "b: new"], "of twins the first alone");
}

#[test]
fn twins_follow_in_their_order() {
    let (none, mut followed) = (ChangedNames::default(), Followed::new());
    followed.follow(["1", "2"].map(|message| diagnosis(("a", message))).into(), &none, &[]);
    let list = ["3", "4", "5"].map(|message| diagnosis(("a", message))).into();
    assert_eq!(followed.follow(list, &none, &[]), ["a: 1", "a: 2", "a: "]);
}

#[test]
fn cluster_of_a_name_is_the_one_that_is_served() {
    let (none, mut followed) = (ChangedNames::default(), Followed::new());
    let list = [("b", "refused"), ("a", "refused"), ("b", "1"), ("b", "refused"), ("c", "refused"), ("c", "refused")];
    followed.follow(list.map(diagnosis).into(), &none, &[]);
    let message = |name: &str| followed.statuses.cluster(name).map(|one| one.diagnosis.message.as_str());
    assert_eq!([message("a"), message("b"), message("d")], [Some("refused"), Some("1"), None]);
    let twins: Vec<_> = followed.statuses.iter().skip(4).collect();
    assert!(std::ptr::eq(followed.statuses.cluster("c").unwrap(), twins[0].as_ref()));
}
