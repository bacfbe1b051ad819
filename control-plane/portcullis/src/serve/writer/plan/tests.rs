use portcullis_api::status::{ClusterStatus, Condition, State, Timestamp};
use portcullis_api::{CLUSTER_KIND, INSTANCE_KIND};
use portcullis_sources::StoredStatus;
use portcullis_translate::{Diagnosis, Reason, Version};
use proptest::prelude::*;
use serde_json::json;

use super::super::write_queue::WriteOutcome;
use super::*;
use crate::serve::source::SettingsOrigin;

/// An object of a test: its kind, whether it has a UID, and an edition of its status.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    kind: usize,
    has_uid: bool,
    edition: u8,
}

const NAMES: [&str; 4] = ["a", "b", "c", "used"];
const KIND_NAMES: [&str; 3] = [CLUSTER_KIND, INSTANCE_KIND, "GatewaySettings"];

/// One that waits for gateways has the edition 0.
fn object(name: &str, known: Known) -> Arc<ObjectStatus> {
    let condition = |kind: ConditionType| Condition {
        kind,
        status: State::False,
        reason: if known.edition == 0 { "NoReport".to_owned() } else { format!("Edition{}", known.edition) },
        message: String::new(),
        last_transition_time: Timestamp::from_seconds(0),
        observed_generation: None,
    };
    let diagnosis = Diagnosis {
        kind: KIND_NAMES[known.kind].to_owned(),
        name: name.to_owned(),
        at: None,
        accepted: true,
        reason: Reason::Accepted,
        message: String::new(),
        warnings: Vec::new(),
        problems: Vec::new(),
        cautions: Vec::new(),
        names: Vec::new(),
        shadow: None,
        version: Version { uid: known.has_uid.then(|| "u".to_owned()), ..Version::default() },
    };
    let conditions = vec![condition(ConditionType::Accepted), condition(ConditionType::Ready)];
    let status = ClusterStatus { conditions, ..ClusterStatus::default() };
    let counts = (known.kind == 1).then(Default::default);
    Arc::new(ObjectStatus { counts, ..ObjectStatus::new(Arc::new(diagnosis), status) })
}

#[derive(Clone, Debug)]
enum Step {
    /// The objects of each name.
    Objects([Option<Known>; 4]),
    /// The server shows what was written.
    Shown,
    /// Another client writes over a status.
    Overwritten(usize, usize),
    Wait(u64),
    Write(WriteOutcome),
}

fn step() -> impl Strategy<Value = Step> {
    let known = (0..3_usize, proptest::bool::weighted(0.9), 0..3_u8);
    let known = known.prop_map(|(kind, has_uid, edition)| Known { kind, has_uid, edition });
    let outcome = prop_oneof![
        4 => Just(WriteOutcome::Written),
        1 => Just(WriteOutcome::Gone),
        1 => Just(WriteOutcome::Refused),
    ];
    prop_oneof![
        3 => proptest::array::uniform4(proptest::option::of(known)).prop_map(Step::Objects),
        2 => Just(Step::Shown),
        1 => (0..4_usize, 0..3_usize).prop_map(|(name, kind)| Step::Overwritten(name, kind)),
        3 => (1..9_000_u64).prop_map(Step::Wait),
        4 => outcome.prop_map(Step::Write),
    ]
}

proptest! {
    /// The one queue has what has changed planned, the other one everything, each time.
    #[test]
    fn plan_of_what_has_changed_is_the_plan_of_everything(steps in prop::collection::vec(step(), 1..60)) {
        let settings = SettingsUse::new(SettingsOrigin::Object("used".to_owned()), "plane".to_owned());
        let (mut queue, mut other, mut last) = (Writes::default(), Writes::default(), None);
        let mut known: [Option<(Known, Arc<ObjectStatus>)>; 4] = Default::default();
        let (mut objects, mut statuses) = (Arc::<ObjectStatuses>::default(), Arc::<StoredStatuses>::default());
        let mut server: std::collections::BTreeMap<ObjectKey, StoredStatus> = Default::default();
        let mut now = Duration::ZERO;
        for step in steps {
            match step {
                Step::Objects(newer) => {
                    for ((place, name), newer) in known.iter_mut().zip(NAMES).zip(newer) {
                        // Of settings that nothing uses the status has the time of now.
                        let newer = newer.filter(|one| one.kind != 2 || name == "used");
                        if place.as_ref().map(|(known, _)| *known) != newer {
                            *place = newer.map(|newer| (newer, object(name, newer)));
                        }
                    }
                    objects = Arc::new(ObjectStatuses::new(known.iter().flatten().map(|(_, one)| Arc::clone(one)).collect()));
                }
                Step::Shown => statuses = Arc::new(server.clone().into_iter().collect()),
                Step::Overwritten(name, kind) => {
                    let kind = if name == 3 { KINDS[kind] } else { WatchedKind::UpstreamCluster };
                    let status = StoredStatus { uid: Some("u".to_owned()), status: json!({"names": ["x"]}), ..StoredStatus::default() };
                    server.insert(ObjectKey::cluster_scoped(kind, NAMES[name]), status);
                    statuses = Arc::new(server.clone().into_iter().collect());
                }
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Write(outcome) => {
                    let (mut writes, mut others) = (Vec::new(), Vec::new());
                    while let Some(write) = queue.take(now) {
                        writes.push(write);
                    }
                    while let Some(write) = other.take(now) {
                        others.push(write);
                    }
                    prop_assert_eq!(&writes, &others);
                    for (key, value) in writes {
                        queue.done(&key, outcome, now);
                        other.done(&key, outcome, now);
                        if let StatusWrite::Apply(object) = value && outcome == WriteOutcome::Written {
                            let status = StoredStatus { uid: Some("u".to_owned()), status: object["status"].clone(), ..StoredStatus::default() };
                            server.insert(key, status);
                        }
                    }
                }
            }
            let plan = |queue: &mut Writes, last: &mut Option<ObjectPlan>| {
                let repeated = queue.take_repeats(now);
                Plan { queue, statuses: &statuses, settings: &settings, now, repeated }.follow_objects(last, &objects);
            };
            plan(&mut queue, &mut last);
            plan(&mut other, &mut None);
            prop_assert!(queue.keys().eq(other.keys()));
            prop_assert_eq!(queue.next(), other.next());
        }
    }
}

#[test]
fn statuses_of_gateways_that_come_back_are_left_out() {
    let rows = [
        (ConditionType::Programmed, "NoGateways", true),
        (ConditionType::Programmed, "OtherReplicas", true),
        (ConditionType::Programmed, "Pending", true),
        (ConditionType::Programmed, "Refused", false),
        (ConditionType::Accepted, "Pending", false),
        (ConditionType::Ready, "NoReport", true),
        (ConditionType::Ready, "NoEndpoints", false),
    ];
    for (kind, reason, waits) in rows {
        let mut object = object("a", Known { kind: 0, has_uid: true, edition: 1 });
        for condition in &mut Arc::get_mut(&mut object).unwrap().status.conditions {
            (condition.kind, condition.reason) = (kind, reason.to_owned());
        }
        assert_eq!(waits_for_gateways(&object), waits, "{reason}");
    }
}
