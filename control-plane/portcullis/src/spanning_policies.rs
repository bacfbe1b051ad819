//! Policies whose targets belong to several instances, for the control plane and for `portcullis check`.
//!
//! Such a policy counts and decides in each of them. One that decides refuses its clusters, so that what was accepted last stays in
//! use; one that tightens goes on, because without it more would be permitted than before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{FieldOrigin, PolicyKind, PolicyRole, origins, refused_by_policies};
use portcullis_attach::{AttachedPolicies, DoorTargets};
use portcullis_instances::{MemberName, Settlement, common_holder};
use serde_json::Value;

/// The reason for which a policy is refused, by its kind and its name with the namespace.
pub(crate) type SpanningPolicies = BTreeMap<(PolicyKind, String), String>;

/// The policies in these documents that are in effect on clusters of several owners.
pub(crate) fn spanning_policies(documents: &[Arc<Value>], settled: &Settlement) -> SpanningPolicies {
    let mut targets: BTreeMap<(PolicyKind, String), BTreeSet<MemberName>> = BTreeMap::new();
    for document in documents {
        for FieldOrigin { kind, policy, .. } in origins(document) {
            targets.entry((kind, policy)).or_default().insert(member(document));
        }
    }
    let spanning = targets.into_iter().filter_map(|(policy, targets)| {
        let error = common_holder(settled, &targets).err()?;
        Some((policy, error.to_string()))
    });
    spanning.collect()
}

/// The policies at doors of which targets belong to several owners: a Gateway to its own, a listener and a route to those of their
/// Gateways, and `UpstreamClusters` on which the policy is in effect.
pub(crate) fn spanning_at_doors(
    attached: &AttachedPolicies,
    doors: &DoorTargets,
    settled: &Settlement,
) -> SpanningPolicies {
    let mut targets: BTreeMap<(PolicyKind, &str), BTreeSet<MemberName>> = BTreeMap::new();
    if settled.owners.is_empty() {
        return SpanningPolicies::new();
    }
    for (door, policies) in attached.at_doors.all() {
        let gateways = doors.gateways(door).into_iter().map(|name| MemberName::gateway(name.to_string()));
        let gateways: Vec<MemberName> = gateways.collect();
        for policy in policies {
            targets.entry((policy.kind, policy.policy.as_str())).or_default().extend(gateways.iter().cloned());
        }
    }
    if !targets.is_empty() {
        for (cluster, policies) in &attached.in_effect {
            for policy in policies {
                if let Some(known) = targets.get_mut(&(policy.kind, policy.policy.as_str())) {
                    known.insert(MemberName::cluster(cluster.to_ascii_lowercase()));
                }
            }
        }
    }
    let spanning = targets.into_iter().filter_map(|((kind, policy), targets)| {
        let error = common_holder(settled, &targets).err()?;
        Some(((kind, policy.to_owned()), error.to_string()))
    });
    spanning.collect()
}

/// The document, refused if such a policy decides for it.
pub(crate) fn without_spanning(document: &Value, spanning: &SpanningPolicies) -> Option<Value> {
    refused_by_policies(document, |origin| {
        let key = (origin.kind, origin.policy.clone());
        spanning.get(&key).filter(|_| origin.role == PolicyRole::Decides).cloned()
    })
}

fn member(document: &Value) -> MemberName {
    let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    MemberName::cluster(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use portcullis_api::{PolicyInEffect, with_policies};
    use portcullis_attach::{Door, DoorPolicies, GatewayObjects, ListedDoors, ObjectName};
    use portcullis_gateway_api::read_object;
    use portcullis_instances::{MemberHolder, Ownership};
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, role: PolicyRole) -> Arc<Value> {
        let policy = PolicyInEffect {
            kind: PolicyKind::FlowControl,
            policy: "portcullis/fewer".to_owned(),
            uid: None,
            role,
            why: "x".to_owned(),
            fields: Ok(Arc::new(json!({}))),
        };
        let own = json!({
            "apiVersion": portcullis_api::CLUSTER_API_VERSION, "kind": portcullis_api::CLUSTER_KIND,
            "metadata": {"name": name}, "spec": {"flowControl": {"flowControlSchemas": []}},
        });
        with_policies(&Arc::new(own), &[policy])
    }

    fn settled(owners: &[(&str, MemberHolder, Option<MemberHolder>)]) -> Settlement {
        let one = |(name, holder, next): &(&str, MemberHolder, Option<MemberHolder>)| {
            (MemberName::cluster(*name), Ownership { holder: holder.clone(), next: next.clone() })
        };
        Settlement { owners: owners.iter().map(one).collect(), ..Settlement::default() }
    }

    #[test]
    fn policy_of_two_instances_is_refused_naming_both_in_any_order() {
        let of = |name: &str| MemberHolder::Instance(name.to_owned());
        let documents = ["a.test", "b.test"].map(|name| cluster(name, PolicyRole::Decides));
        let reversed = [Arc::clone(&documents[1]), Arc::clone(&documents[0])];
        for (owners, expected) in [
            (settled(&[("a.test", of("a"), None), ("b.test", of("b"), None)]), Some(["Instance a", "Instance b"])),
            (
                settled(&[("a.test", of("a"), None), ("b.test", MemberHolder::Free, None)]),
                Some(["Instance a", "no Instance"]),
            ),
            (settled(&[("a.test", of("a"), None), ("b.test", of("a"), None)]), None),
            // On its way it counts as the next one's.
            (settled(&[("a.test", of("a"), None), ("b.test", of("b"), Some(of("a")))]), None),
            (
                settled(&[("a.test", of("a"), None), ("b.test", of("a"), Some(of("b")))]),
                Some(["Instance a", "Instance b"]),
            ),
            (settled(&[("a.test", of("a"), None), ("b.test", MemberHolder::Nobody, None)]), None),
        ] {
            let found = spanning_policies(&documents, &owners);
            assert_eq!(found, spanning_policies(&reversed, &owners));
            let why = found.into_values().next();
            assert_eq!(why.is_some(), expected.is_some(), "{owners:?}");
            for name in expected.into_iter().flatten() {
                assert!(why.as_ref().unwrap().contains(name), "{why:?}");
            }
        }
    }

    /// A policy at a listener of one Gateway, at a route of another one's, and on a cluster; and one at one Gateway alone.
    #[test]
    fn policy_at_gateways_of_two_instances_spans_them() {
        let of = |name: &str| MemberHolder::Instance(name.to_owned());
        let object = |kind: &str, name: &str, spec: Value| {
            let metadata = json!({"name": name, "namespace": "infra"});
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
        };
        let gateway = |name: &str| {
            let listener = json!({"name": "https", "port": 443, "protocol": "HTTPS"});
            object("Gateway", name, json!({"gatewayClassName": "own", "listeners": [listener]}))
        };
        let route = object("HTTPRoute", "r", json!({"parentRefs": [{"name": "h"}]}));
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "own"},
            "spec": {"controllerName": portcullis_attach::CONTROLLER_NAME},
        });
        let mut read = GatewayObjects::default();
        [class, gateway("g"), gateway("h"), route].iter().for_each(|one| read.add(read_object(one).unwrap()));
        let doors = DoorTargets::Listed(ListedDoors::of(&read.classes, &read.gateways, &read.http_routes));
        let policy = |name: &str| PolicyInEffect {
            kind: PolicyKind::FlowControl,
            policy: name.to_owned(),
            uid: None,
            role: PolicyRole::Tightens,
            why: "x".to_owned(),
            fields: Ok(Arc::new(json!({}))),
        };
        let [g, r] = ["g", "r"].map(|name| ObjectName::new("infra", name));
        let listener = Door::Listener(g.clone(), "https".to_owned());
        let owners = |of_h: MemberHolder, of_cluster: MemberHolder| {
            let owner = |holder| Ownership { holder, next: None };
            let members = [
                (MemberName::gateway("infra/g"), owner(of("a"))),
                (MemberName::gateway("infra/h"), owner(of_h)),
                (MemberName::cluster("c.test"), owner(of_cluster)),
            ];
            Settlement { owners: members.into(), ..Settlement::default() }
        };
        let attached = AttachedPolicies {
            at_doors: DoorPolicies::new([
                (listener.clone(), vec![policy("infra/both")]),
                (Door::Route(r), vec![policy("infra/both")]),
                (Door::Gateway(g), vec![policy("infra/one")]),
            ]),
            in_effect: [("c.test".to_owned(), vec![policy("infra/both"), policy("infra/other")])].into(),
            ..AttachedPolicies::default()
        };
        for (settled, spans) in [
            (owners(of("a"), of("a")), false),
            (owners(of("b"), of("a")), true),
            (owners(of("a"), of("b")), true),
            (owners(of("a"), MemberHolder::Free), true),
            (Settlement::default(), false),
        ] {
            let found: Vec<String> =
                spanning_at_doors(&attached, &doors, &settled).into_keys().map(|(_, name)| name).collect();
            assert_eq!(found, if spans { vec!["infra/both"] } else { vec![] }, "{settled:?}");
        }
    }

    #[test]
    fn policy_that_decides_refuses_its_clusters() {
        let spanning: SpanningPolicies =
            [((PolicyKind::FlowControl, "portcullis/fewer".to_owned()), "it spans".to_owned())].into();
        for (role, is_refused) in [(PolicyRole::Decides, true), (PolicyRole::Tightens, false)] {
            let document = cluster("a.test", role);
            let found = without_spanning(&document, &spanning);
            let refusal = found.and_then(|refused| origins(&refused).remove(0).refusal);
            assert_eq!(refusal.as_deref(), is_refused.then_some("it spans"), "{role:?}");
            assert_eq!(without_spanning(&document, &SpanningPolicies::new()), None);
        }
    }
}
