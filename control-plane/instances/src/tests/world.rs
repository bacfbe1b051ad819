//! Objects of the tests.

use std::collections::BTreeMap;

use portcullis_api::{check_instance, parse_instance};
use serde_json::{Value, json};

use crate::{Entitlement, InstanceClaim, InstanceObjects, Member, MemberHolder, MemberName, Settlement, settle};

/// An instance that selects the same labels of gateways and clusters.
pub(super) fn instance(name: &str, second: u32, selector: &Value) -> InstanceClaim {
    let document = json!({
        "apiVersion": portcullis_api::INSTANCE_API_VERSION, "kind": portcullis_api::INSTANCE_KIND,
        "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")},
        "spec": {"gatewaysSelector": selector, "clustersSelector": selector},
    });
    InstanceClaim::accepted(check_instance(&parse_instance(&document).unwrap()).outcome.unwrap())
}

/// A selector of one label.
pub(super) fn team(value: &str) -> Value {
    json!({"matchLabels": {"team": value}})
}

/// A member of any owner with one label.
pub(super) fn member(name: MemberName, team: &str) -> Member {
    let labels = BTreeMap::from([("team".to_owned(), team.to_owned())]);
    Member { name, labels, entitlement: Entitlement::Any, recorded: None }
}

pub(super) fn cluster(team: &str) -> Member {
    member(MemberName::cluster("prod.test"), team)
}

pub(super) fn objects(instances: &[InstanceClaim], members: &[Member]) -> InstanceObjects {
    InstanceObjects { instances: instances.to_vec(), members: members.to_vec(), follows_statuses: false }
}

/// The settlement after the last one where everything is ready at once.
pub(super) fn settle_ready(before: &Settlement, instances: &[InstanceClaim], members: &[Member]) -> Settlement {
    settle(before, &objects(instances, members), |_, _| true)
}

/// The same where nothing is ready.
pub(super) fn settle_waiting(before: &Settlement, instances: &[InstanceClaim], members: &[Member]) -> Settlement {
    settle(before, &objects(instances, members), |_, _| false)
}

pub(super) fn of(name: &str) -> MemberHolder {
    MemberHolder::Instance(name.to_owned())
}
