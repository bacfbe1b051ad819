//! A tenant's part of random fleets has no name of others, and all of its own.

use std::collections::BTreeMap;

use portcullis_api::status::{
    ClusterStatus, Condition, ConditionType, Gateway, GatewayHealth, GatewayProgress, Health, LimitFacts, Served,
    State, StatusInput, Timestamp,
};
use portcullis_api::{PolicyKind, Problem};
use portcullis_translate::{Diagnosis, Reason, Version};
use portcullis_xds::Refused;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::serve::object_status::ClusterHolder;
use crate::serve::status::{RefusedResource, RejectedNodeStatus};

/// Instances; no name is a part of another one, nor of any other text.
const INSTANCES: [&str; 3] = ["azure", "crimson", "emerald"];
/// Envoys, each with the instance of its view.
const NODES: [(&str, Option<usize>); 9] = [
    ("azure/e0", Some(0)),
    ("azure/e1", Some(0)),
    ("crimson/e2", Some(1)),
    ("emerald/e3", Some(2)),
    // Of two instances, at the socket, of none, and of Gateways.
    ("azure+crimson/e4", Some(0)),
    ("socket-e5", Some(1)),
    ("free-e6", None),
    ("/azure/e7", None),
    ("gateway:infra/door/e8", None),
];

/// A cluster: its holder, the instance that gets it next, and which texts name others.
#[derive(Clone, Copy, Debug)]
struct Held {
    holder: Option<usize>,
    next: Option<usize>,
    is_refused: bool,
    has_gateways: bool,
    has_limits: bool,
    /// The Envoys that have it besides those of its owners: by the bits of a number.
    others: u16,
}

fn held() -> impl Strategy<Value = Held> {
    let instance = || prop::option::weighted(0.8, 0..INSTANCES.len());
    let rest = (any::<bool>(), any::<bool>(), any::<bool>(), prop_oneof![2 => Just(0), 1 => 0..512_u16]);
    (instance(), prop::option::weighted(0.3, 0..INSTANCES.len()), rest).prop_map(
        |(holder, next, (is_refused, has_gateways, has_limits, others))| Held {
            holder,
            next: next.filter(|next| holder != Some(*next)),
            is_refused,
            has_gateways,
            has_limits,
            others,
        },
    )
}

fn cluster(number: usize) -> String {
    format!("c{number}.example")
}

/// A text that names everything that there is.
fn gossip(clusters: usize) -> String {
    let nodes = NODES.iter().map(|(node, _)| (*node).to_owned());
    let all = (0..clusters).map(cluster).chain(INSTANCES.map(str::to_owned)).chain(nodes);
    format!("{}, infra/door, policy team/rule", all.collect::<Vec<_>>().join(", "))
}

fn diagnosis(kind: &str, name: &str, is_refused: bool, text: &str) -> Diagnosis {
    let problems: Vec<Problem> =
        is_refused.then(|| Problem::new("spec.secureServing.serverNames", text)).into_iter().collect();
    Diagnosis {
        kind: kind.to_owned(),
        name: name.to_owned(),
        at: Some(text.to_owned()),
        accepted: !is_refused,
        reason: if is_refused { Reason::Conflicted } else { Reason::Accepted },
        message: problems.iter().map(ToString::to_string).collect(),
        warnings: vec![text.to_owned()],
        problems,
        cautions: vec![Problem::new("spec.servers", text)],
        shadow: None,
        names: Vec::new(),
        version: Version { served: Served::Newest, generation: Some(7), ..Version::default() },
    }
}

fn object(number: usize, held: Held, (text, is_shared): (&str, bool)) -> ObjectStatus {
    let diagnosis = diagnosis(CLUSTER_KIND, &cluster(number), held.is_refused, text);
    let owners = [held.holder, held.next];
    let is_there = |(at, (_, instance)): &(usize, &(&str, Option<usize>))| {
        held.others >> at & 1 == 1 || instance.is_some() && owners.contains(instance)
    };
    let there: Vec<&str> = NODES.iter().enumerate().filter(is_there).map(|(_, (node, _))| *node).collect();
    let gateway = |name: &&'static str| {
        let health = Some(Health { healthy: 1, total: 2, unhealthy: Vec::new() });
        let progress = match name.starts_with(INSTANCES[0]) {
            true => GatewayProgress::Acknowledged,
            false if is_shared => GatewayProgress::Refused { message: text.to_owned() },
            false => GatewayProgress::Refused { message: format!("refused by {name}") },
        };
        Gateway { name, progress, health, lost_subsets: Vec::new() }
    };
    let local_names: Vec<String> = there.iter().map(|node| (*node).to_owned()).collect();
    let facts = LimitFacts { gateways: 9, local: local_names.len(), local_names, ..LimitFacts::default() };
    let gateways = held.has_gateways.then(|| GatewayHealth::new("infra/door".to_owned()));
    let seen = StatusInput {
        acceptance: diagnosis.acceptance("Accepted"),
        generation: Some(7),
        served: Served::Newest,
        content_hash: "c0ffee",
        gateways: there.iter().map(gateway).collect(),
        at_gateways: gateways.into_iter().collect(),
        limits: held.has_limits.then_some(facts),
        policies: vec![(PolicyKind::Dispatch, text.to_owned())],
        instance: held.next.or(held.holder).map(|one| INSTANCES[one]),
        ..StatusInput::default()
    };
    let instances: Vec<String> =
        owners.into_iter().flatten().filter_map(|one| Some((*INSTANCES.get(one)?).to_owned())).collect();
    let is_of_own_envoys = is_of_own_envoys(&seen, &instances);
    let status = ClusterStatus::of(&seen, &[], &Timestamp::from_seconds(0));
    let holder = held.holder.map(|one| INSTANCES[one].to_owned());
    let holder = ClusterHolder { instance: holder, is_passing: held.next.is_some() };
    ObjectStatus { instances, holder, is_of_own_envoys, ..ObjectStatus::new(Arc::new(diagnosis), status) }
}

fn node((id, instance): &(&str, Option<usize>), clusters: usize, (text, is_shared): (&str, bool)) -> NodeReport {
    let refused = |owner: Option<String>| {
        RefusedResource::from(&Refused {
            type_url: "type/Cluster".to_owned(),
            name: owner.as_ref().map_or_else(|| text.to_owned(), |owner| format!("lab/-/{owner}/all.h2")),
            message: owner.as_ref().map_or_else(|| text.to_owned(), |owner| format!("{owner} is wrong")),
            owner,
            version: "v1".to_owned(),
            is_optional: false,
        })
    };
    let status = TypeStatus { sent: "v2".to_owned(), acked: "v1".to_owned(), nack: Some(text.to_owned()) };
    NodeReport {
        id: (*id).to_owned(),
        connected: true,
        types: BTreeMap::from([("type/Cluster".to_owned(), status)]),
        in_sync: false,
        view: instance.map(|one| format!("instance/{}", INSTANCES[one])),
        refused: (0..clusters)
            .map(|number| refused(Some(cluster(number))))
            .chain(is_shared.then(|| refused(None)))
            .collect(),
    }
}

/// A status. `is_shared`: a listener of all is refused.
fn body(clusters: &[Held], is_shared: bool) -> StatusBody {
    let text = gossip(clusters.len());
    let objects = clusters.iter().enumerate().map(|(number, held)| object(number, *held, (&text, is_shared)));
    let instances = INSTANCES.map(|name| {
        let mut diagnosis = diagnosis(INSTANCE_KIND, name, false, "");
        (diagnosis.at, diagnosis.warnings) = (None, Vec::new());
        ObjectStatus::new(Arc::new(diagnosis), ClusterStatus::default())
    });
    let settings =
        ObjectStatus::new(Arc::new(diagnosis("GatewaySettings", "gateway", true, &text)), ClusterStatus::default());
    let all = objects.chain(instances).chain([settings]).map(Arc::new).collect();
    let nodes = NODES.iter().map(|one| node(one, clusters.len(), (&text, is_shared))).collect();
    let rejected = RejectedNodeStatus { node: text.clone(), by: text.clone(), reason: text.clone(), times: 1 };
    let source = SourceStatus { reason: Some(text.clone()), limits_reason: Some(text), ..SourceStatus::default() };
    StatusBody {
        objects: Arc::new(ObjectStatuses::new(all)),
        nodes: Arc::new(nodes),
        rejected_nodes: vec![rejected],
        snapshot: "everything".to_owned(),
        source,
        ..StatusBody::default()
    }
}

/// The names that a tenant's part may not have.
fn foreign_names(clusters: &[Held], tenant: usize) -> Vec<String> {
    let others = clusters.iter().enumerate().filter(|(_, held)| held.holder != Some(tenant));
    let others = others.map(|(number, _)| cluster(number));
    let instances = INSTANCES.iter().enumerate().filter(|(one, _)| *one != tenant).map(|(_, name)| (*name).to_owned());
    let more = ["socket-e5", "free-e6", "/azure/e7", "+", "infra", "team/rule", "GatewaySettings", "everything"];
    others.chain(instances).chain(more.map(str::to_owned)).collect()
}

fn texts<'a>(value: &'a Value, list: &str, field: &str) -> Vec<&'a str> {
    value[list].as_array().into_iter().flatten().filter_map(|one| one[field].as_str()).collect()
}

proptest! {
    #[test]
    fn tenant_sees_its_own_and_no_name_of_others(
        clusters in prop::collection::vec(held(), 0..8),
        is_shared in any::<bool>(),
    ) {
        let body = body(&clusters, is_shared);
        for (tenant, name) in INSTANCES.iter().enumerate() {
            let part = serde_json::to_value(body.part_of_tenant(name).unwrap()).unwrap();
            let text = part.to_string();
            for foreign in foreign_names(&clusters, tenant) {
                prop_assert!(!text.contains(&foreign), "{} sees {}: {}", name, foreign, text);
            }
            let own = |held: &&(usize, &Held)| held.1.holder == Some(tenant);
            let held: Vec<_> = clusters.iter().enumerate().collect();
            let held: Vec<&(usize, &Held)> = held.iter().filter(own).collect();
            let names: Vec<String> = held.iter().map(|(number, _)| cluster(*number)).collect();
            let objects = part["objects"].as_array().unwrap();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            prop_assert_eq!(texts(&part, "objects", "name"), [&names[..], &[*name]].concat());
            let nodes: Vec<&str> = NODES.iter().map(|(node, _)| *node).filter(|node| is_node_of(node, name)).collect();
            prop_assert_eq!(texts(&part, "nodes", "id"), nodes.clone());
            for node in part["nodes"].as_array().unwrap() {
                let owners: Vec<&str> = texts(node, "refused", "owner");
                prop_assert_eq!(&owners, &names);
            }
            for (object, (_, held)) in objects.iter().zip(held) {
                let mut listed = texts(object, "gateways", "name");
                listed.sort_unstable();
                prop_assert_eq!(listed, nodes.clone());
                prop_assert_eq!(texts(object, "conditions", "type").len(), 4 + usize::from(held.has_limits));
                prop_assert_eq!(object["accepted"].as_bool(), Some(!held.is_refused));
            }
        }
    }
}

fn conditions(body: &StatusBody, name: &str) -> Vec<Condition> {
    let part = body.part_of_tenant(name).unwrap();
    part.objects.cluster(&cluster(0)).map(|object| object.status.conditions.clone()).unwrap_or_default()
}

#[test]
fn cluster_that_passes_over_shows_nothing_of_the_next_owner() {
    let held =
        Held { holder: Some(0), next: None, is_refused: false, has_gateways: false, has_limits: false, others: 0 };
    let of = |holder, next| body(&[Held { holder: Some(holder), next, ..held }], false);
    let kind = |all: &[Condition], kind: ConditionType| {
        all.iter().find(|one| one.kind == kind).map(|one| (one.status, one.reason.clone())).unwrap()
    };
    let passing = conditions(&of(2, Some(1)), "emerald");
    for of_envoys in [ConditionType::Programmed, ConditionType::Ready] {
        assert_eq!(kind(&passing, of_envoys), (State::Unknown, "PassesOver".to_owned()));
    }
    assert_eq!(conditions(&of(2, Some(1)), "crimson"), [], "not yet its own");
    assert_eq!(conditions(&of(1, None), "emerald"), [], "no longer its own");
    let of_none = body(&[Held { holder: None, next: Some(2), ..held }], false);
    assert_eq!(conditions(&of_none, "emerald"), [], "Envoys of no instance have it still");
    let own = conditions(&of(2, None), "emerald");
    let programmed = own.iter().find(|one| one.kind == ConditionType::Programmed).unwrap();
    assert!(programmed.message.contains("refused by emerald/e3"), "of its own Envoys all is shown: {programmed:?}");
    assert!(of(0, None).part_of_tenant("gone").is_none());
}
