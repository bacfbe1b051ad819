use std::collections::{BTreeMap, VecDeque};

use portcullis_api::status::{Condition, ConditionType, State};

use super::fleet_time::FleetTime;
use super::view::Transition;

/// Changes of one object that are remembered.
const MAX_OF_OBJECT: usize = 20;
/// Changes of all objects. Beyond them an object's own newest change displaces its oldest.
const MAX_OF_ALL: usize = 20_000;
/// Most characters of a message.
const MAX_MESSAGE: usize = 256;

/// The changes of conditions that were seen, by object.
#[derive(Debug, Default)]
pub(super) struct Transitions {
    objects: BTreeMap<String, ObjectTransitions>,
    count: usize,
}

#[derive(Debug, Default)]
struct ObjectTransitions {
    /// By condition: its status and its reason.
    newest: BTreeMap<ConditionType, (State, String)>,
    /// Oldest first.
    changes: VecDeque<Transition>,
}

impl Transitions {
    /// Looks for changes in the conditions of an object. Returns whether there is one. A condition that is seen for the first time has
    /// not changed.
    pub(super) fn look(&mut self, name: &str, conditions: &[Condition], now: FleetTime) -> bool {
        let mut is_changed = false;
        let object = self.objects.entry(name.to_owned()).or_default();
        for condition in conditions {
            let newest = (condition.status, condition.reason.clone());
            match object.newest.insert(condition.kind, newest.clone()) {
                Some(before) if before != newest => {
                    is_changed = true;
                    self.count += object.push(transition(condition, now), self.count < MAX_OF_ALL);
                    self.count -= object.shrink();
                }
                _ => {}
            }
        }
        is_changed
    }

    /// Forgets the changes of an object.
    pub(super) fn forget(&mut self, name: &str) {
        self.count -= self.objects.remove(name).map_or(0, |object| object.changes.len());
    }

    /// The changes of an object, newest first.
    pub(super) fn of(&self, name: &str) -> Vec<Transition> {
        self.objects.get(name).into_iter().flat_map(|object| object.changes.iter().rev().cloned()).collect()
    }
}

impl ObjectTransitions {
    /// Returns by how many changes it has grown.
    fn push(&mut self, change: Transition, has_room: bool) -> usize {
        if !has_room && self.changes.pop_front().is_none() {
            return 0;
        }
        self.changes.push_back(change);
        usize::from(has_room)
    }

    /// Returns by how many changes it has shrunk.
    fn shrink(&mut self) -> usize {
        let excess = self.changes.len().saturating_sub(MAX_OF_OBJECT);
        self.changes.drain(..excess).count()
    }
}

fn transition(condition: &Condition, now: FleetTime) -> Transition {
    Transition {
        time: now.seconds,
        condition: condition.kind.to_string(),
        status: condition.status.to_string(),
        reason: condition.reason.clone(),
        message: condition.message.chars().take(MAX_MESSAGE).collect(),
    }
}
