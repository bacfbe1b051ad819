use std::cell::RefCell;

use super::*;
use crate::bucket::{Rate, TokenBucket};
use crate::limit::InFlight;
use crate::state_store::EphemeralState;

/// Remembers for whom caches were asked.
#[derive(Default)]
struct AskedOwners(RefCell<Vec<CacheOwner>>);

impl StateStore for AskedOwners {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        self.0.borrow_mut().push(owner.clone());
        EphemeralState([0; 32]).caches(owner)
    }

    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight> {
        EphemeralState([0; 32]).in_flight(cluster, schema)
    }

    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket> {
        EphemeralState([0; 32]).token_bucket(cluster, schema, rate)
    }
}

#[test]
fn clusters_without_another_difference_differ_by_name() {
    let asked = AskedOwners::default();
    for (name, identity) in [("a", ""), ("b", ""), ("a", "x"), ("b", "x"), ("a", "")] {
        let config = serde_json::json!({"version": 2, "name": name, "identity": identity, "authorities": ["a"],
            "upstreamIdentity": "Impersonate", "policies": []});
        Cluster::compile(&serde_json::from_value(config).unwrap(), &asked).unwrap();
    }
    let owners = asked.0.into_inner();
    assert_ne!(owners[0], owners[1]);
    assert_ne!(owners[0], owners[2]);
    assert_eq!(owners[2], owners[3], "the configuration says which identity it is");
    assert_eq!(owners[0], owners[4]);
}

/// An upstream's answer to one requester says nothing about its answers to another.
#[test]
fn caches_of_other_reviewers_are_separate() {
    let asked = AskedOwners::default();
    let reviews = [
        serde_json::json!({"cluster": "one"}),
        serde_json::json!({"cluster": "two"}),
        serde_json::json!({"cluster": "one", "user": "system:portcullis"}),
        serde_json::json!({"cluster": "one", "user": "system:other"}),
        serde_json::json!({"cluster": "one", "tokenAudiences": ["a"]}),
        serde_json::json!({"cluster": "one", "tokenAudiences": ["b"]}),
        serde_json::json!({"cluster": "one"}),
    ];
    for reviews in &reviews {
        let config = serde_json::json!({"version": 2, "name": "a", "authorities": ["a"],
            "upstreamIdentity": {"RequestHeader": {}}, "reviews": reviews, "policies": []});
        Cluster::compile(&serde_json::from_value(config).unwrap(), &asked).unwrap();
    }
    let owners = asked.0.into_inner();
    for (index, owner) in owners.iter().enumerate().take(6) {
        assert!(owners.iter().take(index).all(|other| other != owner), "{:?}", reviews[index]);
    }
    assert_eq!(owners[0], owners[6]);
}
