use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use super::Subscription;
use crate::kind::{CDS, EDS};
use crate::resource::Resource;
use crate::snapshot::Snapshot;

impl Subscription {
    /// Whether nothing is overlooked.
    pub(in crate::delta) fn is_complete(&self, snapshot: &Snapshot, type_url: &str) -> bool {
        let all = snapshot.shared_names(type_url).chain(&self.names).chain(self.known.keys());
        all.filter(|name| !self.due.contains(*name)).all(|name| !self.is_due(snapshot, type_url, name))
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

/// A client names as many as it likes, and nothing counts what is due.
#[test]
fn names_that_nobody_has_are_not_due_when_they_are_given_up() {
    let snapshot = Snapshot::new([(EDS.to_owned(), "here".to_owned(), Resource::new("1"))]);
    let mut subscription = Subscription::default();
    let mut says = |subscribe: Vec<String>, unsubscribe: Vec<String>| {
        let request = DeltaDiscoveryRequest {
            type_url: EDS.to_owned(),
            resource_names_subscribe: subscribe,
            resource_names_unsubscribe: unsubscribe,
            initial_resource_versions: [("gone".to_owned(), "1".to_owned())].into(),
            ..Default::default()
        };
        subscription.on_request(request, &snapshot);
        (subscription.name_count(), subscription.due.len())
    };
    assert_eq!(says(names("asked", 100), names("other", 100)), (101, 101));
    assert_eq!(says(Vec::new(), names("more", 100)), (101, 101));
    assert_eq!(says(Vec::new(), names("asked", 90)), (11, 11));
    assert_eq!(says(vec!["here".to_owned()], Vec::new()), (12, 12));
    assert_eq!(says(Vec::new(), vec!["here".to_owned()]).1, 12, "it is looked at whether it has to be sent");
}

/// A node that refuses a resource never has everything.
#[test]
fn names_that_nobody_has_are_not_kept_as_lacking() {
    let snapshot = Snapshot::new([(EDS.to_owned(), "here".to_owned(), Resource::new("1"))]);
    let mut subscription = Subscription::default();
    let begun = DeltaDiscoveryRequest { type_url: EDS.to_owned(), ..Default::default() };
    subscription.on_request(begun, &snapshot);
    subscription.take_touched(&snapshot, EDS);
    subscription.note_everything();
    let gone = [names("other", 100), vec!["here".to_owned()]].concat();
    let request =
        DeltaDiscoveryRequest { type_url: EDS.to_owned(), resource_names_unsubscribe: gone, ..Default::default() };
    subscription.on_request(request, &snapshot);
    subscription.take_touched(&snapshot, EDS);
    let kept = |name: &str| subscription.unproven.has(name);
    assert_eq!((kept("here"), kept("other-0")), (true, false));
}

/// A client that comes back names as many as it likes, and they are kept as long as its stream lives.
#[test]
fn digests_of_names_that_are_gone_count_in_bytes() {
    const MANY: usize = 10_000;
    let snapshot = Snapshot::new([(CDS.to_owned(), "here".to_owned(), Resource::new("1"))]);
    let version = snapshot.get(CDS, "here").unwrap().version().to_owned();
    let mut subscription = Subscription::default();
    let request = DeltaDiscoveryRequest {
        type_url: CDS.to_owned(),
        resource_names_subscribe: names("gone", MANY),
        initial_resource_versions: [("here".to_owned(), version)].into(),
        ..Default::default()
    };
    subscription.on_request(request, &snapshot);
    assert_eq!(subscription.foreign_bytes(), MANY * 16);
    let request = DeltaDiscoveryRequest {
        type_url: CDS.to_owned(),
        resource_names_unsubscribe: names("gone", MANY),
        ..Default::default()
    };
    subscription.on_request(request, &snapshot);
    assert_eq!(subscription.foreign_bytes(), 0);
}
