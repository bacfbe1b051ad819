use portcullis_filter_config::limits::{LimitPart, PartUse};
use portcullis_instances::{MemberHolder, MemberName, Ownership, Settlement};
use portcullis_report::limits::{MAX_USE_BYTES, PartsMessage, encode_use};
use portcullis_xds::Membership;
use serde_json::{Value, json};

use super::super::super::fleet::ServedObjectCache;
use super::super::owners::node_owners;
use super::*;

const CLUSTER: &str = "lab/-/c.example.com";

fn served(max: u32) -> Arc<ServedObjects> {
    Arc::new(read_objects(&["c.example.com"], max))
}

/// Objects that are divided: the holder of each, and the one that takes over.
fn divided(objects: &[(&str, &str, Option<&str>)]) -> Arc<ServedObjects> {
    let holder = |name: &str| MemberHolder::Instance(name.to_owned());
    let owners = objects
        .iter()
        .map(|(name, of, next)| (MemberName::cluster(*name), Ownership { holder: holder(of), next: next.map(holder) }));
    let settled = Settlement { owners: owners.collect(), ..Settlement::default() };
    let names: Vec<&str> = objects.iter().map(|(name, ..)| *name).collect();
    Arc::new(read_objects(&names, 10).owned_by(Some(Arc::new(settled))))
}

fn read_objects(names: &[&str], max: u32) -> ServedObjects {
    let documents = names.iter().map(|name| ((*name).to_owned(), document(name, max)));
    ServedObjectCache::default().read("lab", &documents.collect())
}

fn document(name: &str, max: u32) -> Arc<Value> {
    let schema = json!({"name": "few", "strategy": "globalAllocate", "maxRequestsInflight": {"max": 1},
        "globalMaxRequestsInflight": {"max": max}});
    Arc::new(json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
        "metadata": {"name": name},
        "spec": {"servers": [{"endpoint": "https://10.0.0.1:6443"}], "flowControl": {"flowControlSchemas": [schema]}},
    }))
}

/// A replica, its objects, the time for which it divides, and the number of the newest report.
struct Replica {
    division: LimitDivision,
    served: watch::Sender<Arc<ServedObjects>>,
    tenure: watch::Sender<Option<Tenure>>,
    number: u64,
}

/// The time of a division that begins at that second.
fn time(second: f64) -> Duration {
    Duration::from_secs(1_000) + Duration::from_secs_f64(second)
}

fn tenure(term: u64, until: f64, alone_since: f64) -> Option<Tenure> {
    Some(Tenure { term, until: time(until), alone_since: time(alone_since) })
}

impl Replica {
    fn new() -> Self {
        Self::of(served(10))
    }

    fn of(served: Arc<ServedObjects>) -> Self {
        let (served, receiver) = watch::channel(served);
        let (tenure, of_replica) = watch::channel(tenure(1, 1_000.0, 0.0));
        Replica {
            division: LimitDivision::new(receiver, Some(of_replica), node_owners(Some("portcullis".to_owned()))),
            served,
            tenure,
            number: 0,
        }
    }

    fn send(&self, content: Vec<u8>, second: f64) -> Result<Bytes, UnreadableReport> {
        self.send_as(Membership::Free, content, second)
    }

    fn send_as(&self, membership: Membership, content: Vec<u8>, second: f64) -> Result<Bytes, UnreadableReport> {
        let node = match &membership {
            Membership::Instances(names) => format!("{}/gateway", names.first().unwrap()),
            Membership::Bound(names) => format!("gateway:{}/gateway", names.first().unwrap()),
            _ => "gateway".to_owned(),
        };
        let report = GatewayReport { node, membership, instance: String::new(), content: content.into() };
        self.division.divide(&report, time(second))
    }

    /// The parts of a gateway of an instance that wants ten of each.
    fn parts_of(&self, instance: &str, clusters: &[&str], held: u32, second: f64) -> Vec<Option<u32>> {
        self.parts_as(Membership::Instances([instance.to_owned()].into()), clusters, held, second)
    }

    fn parts_as(&self, of: Membership, clusters: &[&str], held: u32, second: f64) -> Vec<Option<u32>> {
        let used = PartUse { held, wanted: 10, ..PartUse::default() };
        // Of reports by one process, the later ones have greater numbers.
        let number = time(second).as_millis().try_into().unwrap();
        let content = encode_use(7, number, clusters.iter().map(|cluster| (*cluster, "few", used)));
        let answer = self.send_as(of, content, second).unwrap();
        PartsMessage::read(&answer).unwrap().parts().map(|part| part.map(|part| part.quota)).collect()
    }

    /// The answer to a gateway that has so much; `None` if there is none.
    fn part(&mut self, held: u32, second: f64) -> Option<Option<u32>> {
        self.number += 1;
        let used = PartUse { held, ..PartUse::default() };
        let answer = self.send(encode_use(7, self.number, [(CLUSTER, "few", used)]), second).unwrap();
        let message = Some(answer).filter(|answer| !answer.is_empty())?;
        let parts = PartsMessage::read(&message).unwrap();
        assert_eq!(parts.number, self.number);
        Some(parts.parts().next().unwrap().map(|LimitPart { quota, .. }| quota))
    }
}

#[test]
fn replica_divides_while_it_leads_and_learns_at_first() {
    let mut replica = Replica::new();
    assert_eq!(replica.part(0, 1.0), Some(None), "it has to learn");
    assert_eq!(replica.part(4, 3.0), Some(Some(4)), "the gateway keeps what it has");
    assert_eq!(replica.part(0, 3.2), Some(Some(10)), "since it is alone a lease has passed");
    replica.served.send_replace(served(6));
    assert_eq!(replica.part(10, 4.0), Some(Some(6)), "an edit is followed");
    replica.tenure.send_replace(None);
    assert_eq!(replica.part(6, 5.0), None);
    replica.tenure.send_replace(tenure(2, 1_000.0, 6.0));
    assert_eq!(replica.part(6, 6.1), Some(Some(6)));
    assert_eq!(replica.part(0, 9.0), Some(None), "another one would get nothing");
    assert_eq!(replica.part(0, 9.2), Some(Some(6)));
}

#[test]
fn replica_whose_tenure_is_over_answers_nothing() {
    let mut replica = Replica::new();
    replica.tenure.send_replace(tenure(1, 10.0, 0.0));
    assert_eq!(replica.part(0, 9.9), Some(Some(10)));
    // No task has said so yet: the process may have been stopped.
    assert_eq!(replica.part(10, 10.0), None);
    // Renewed late. No other has divided, and what this one gave out is known.
    replica.tenure.send_replace(tenure(1, 20.0, 0.0));
    assert_eq!(replica.part(10, 11.0), Some(Some(10)));
    assert_eq!(replica.part(0, 15.0), Some(Some(10)), "its lease has ended, and that of no other");
    // Another one may have divided before this term, and this one before that.
    replica.tenure.send_replace(tenure(2, 30.0, 14.0));
    assert_eq!(replica.part(0, 18.0), Some(None), "its own answer was at 15 s");
    assert_eq!(replica.part(0, 18.2), Some(Some(10)));
}

#[test]
fn replica_that_has_read_no_objects_yet_revokes_nothing() {
    let mut replica = Replica::of(Arc::default());
    assert_eq!(replica.part(4, 1.0), None, "the gateway keeps its part, and asks the next one");
    replica.served.send_replace(served(6));
    assert_eq!(replica.part(4, 2.0), Some(Some(4)));
    replica.served.send_replace(Arc::new(ServedObjectCache::default().read("lab", &BTreeMap::new())));
    assert_eq!(replica.part(4, 3.0), Some(None), "an object that is gone");
}

#[test]
fn object_is_known_by_its_name_alone_but_not_twice() {
    let replica = Replica::new();
    let [alone, gone] = [("c.example.com", "few"), ("d.example.com", "few")];
    let held = PartUse { held: 4, ..PartUse::default() };
    for (number, names, expected) in
        [(1, &[alone, gone][..], [Some(4), None]), (2, &[alone, (CLUSTER, "few")], [None, Some(4)])]
    {
        let report = encode_use(1, number, names.iter().map(|(cluster, schema)| (*cluster, *schema, held)));
        let answer = PartsMessage::read(&replica.send(report, 1.0).unwrap()).unwrap();
        let quotas: Vec<_> = answer.parts().map(|part| part.map(|part| part.quota)).collect();
        assert_eq!(quotas, expected, "{names:?}");
    }
}

#[test]
fn report_out_of_order_or_of_another_object_gets_no_part() {
    let replica = Replica::new();
    let used = PartUse::default();
    for content in [
        vec![0xff],
        encode_use(1, 1, [(CLUSTER, "few", used), (CLUSTER, "few", used)]),
        encode_use(1, 1, [(CLUSTER, "few", used), (CLUSTER, "a", used)]),
        encode_use(1, 1, [("lab/-/d", "few", used), (CLUSTER, "few", used)]),
        vec![0; MAX_USE_BYTES + 1],
    ] {
        assert!(replica.send(content, 1.0).is_err());
    }
    let others = encode_use(1, 1, [(CLUSTER, "gone", used), ("lab/-/d", "few", used)]);
    let answer = PartsMessage::read(&replica.send(others.clone(), 1.0).unwrap()).unwrap();
    assert_eq!(answer.parts().collect::<Vec<_>>(), [None, None]);
    assert!(replica.send(others, 1.0).unwrap().is_empty(), "it was answered");
}

/// Two clusters, one of instance `a` and one of `b`.
const TWO: [(&str, &str, Option<&str>); 2] = [("c.example.com", "a", None), ("d.example.com", "b", None)];

#[test]
fn gateway_of_an_instance_has_parts_of_its_own_clusters_alone() {
    let replica = Replica::of(divided(&TWO));
    let both = [CLUSTER, "lab/-/d.example.com"];
    replica.parts_of("a", &both, 0, 1.0);
    assert_eq!(replica.parts_of("b", &both, 0, 5.0), [None, Some(10)]);
    assert_eq!(replica.parts_of("a", &both, 10, 5.1), [Some(10), None]);
    assert_eq!(replica.parts_of("b", &both, 10, 5.2), [None, Some(10)], "and the other one takes nothing of it");
    for (membership, expected) in [
        (Membership::Free, [None, None]),
        (Membership::Bound(["infra/edge".to_owned()].into()), [None, None]),
        (Membership::Instances(["c".to_owned()].into()), [None, None]),
    ] {
        let used = PartUse { wanted: 10, ..PartUse::default() };
        let content = encode_use(9, 1, both.iter().map(|cluster| (*cluster, "few", used)));
        let answer = replica.send_as(membership.clone(), content, 6.0).unwrap();
        let parts: Vec<_> = PartsMessage::read(&answer).unwrap().parts().collect();
        assert_eq!(parts, expected, "{membership:?}");
    }
}

#[test]
fn both_owners_have_no_more_than_the_limit_at_a_hand_over() {
    let objects = |of: &str, next: Option<&str>| divided(&[("c.example.com", of, next)]);
    let replica = Replica::of(objects("a", None));
    let part = |instance: &str, held: u32, second: f64| replica.parts_of(instance, &[CLUSTER], held, second)[0];
    part("a", 0, 1.0);
    assert_eq!(part("a", 0, 5.0), Some(10));
    assert_eq!(part("b", 0, 5.1), None);
    replica.served.send_replace(objects("a", Some("b")));
    assert_eq!(part("b", 0, 6.0), None, "all of it is in use");
    assert_eq!(part("a", 10, 6.1), Some(5));
    assert_eq!(part("a", 5, 6.2), Some(5), "it has said that it has no more");
    assert_eq!(part("b", 0, 6.3), Some(5));
    replica.served.send_replace(objects("b", None));
    assert_eq!(part("a", 5, 6.4), None);
    assert_eq!(part("b", 5, 6.5), Some(5), "the former owner's lease lasts");
    assert_eq!(part("b", 5, 8.8), Some(5));
    assert_eq!(part("b", 5, 9.4), Some(10), "and then it has ended");
}

/// One object, to which the views of these Gateways send requests.
fn requested_at(gateways: &[&str]) -> Arc<ServedObjects> {
    let objects = Arc::new(["c.example.com".to_owned()].into());
    let views = gateways.iter().map(|gateway| ((*gateway).to_owned(), Arc::clone(&objects)));
    Arc::new(read_objects(&["c.example.com"], 10).requested_at(Arc::new(views.collect())))
}

#[test]
fn gateway_has_its_part_while_its_view_has_the_cluster() {
    let replica = Replica::of(requested_at(&["infra/edge", "portcullis/own"]));
    let bound = |gateway: &str| Membership::Bound([gateway.to_owned()].into());
    let part = |of: Membership, held: u32, second: f64| replica.parts_as(of, &[CLUSTER], held, second)[0];
    part(Membership::Free, 0, 1.0);
    assert_eq!(part(Membership::Free, 0, 4.0), Some(10));
    assert_eq!(part(bound("infra/edge"), 0, 4.1), None, "before it has a part");
    assert_eq!(part(Membership::Free, 10, 4.2), Some(5));
    part(Membership::Free, 5, 4.3);
    assert_eq!(part(bound("team/edge"), 0, 4.4), None, "another view does not have it");
    assert_eq!(part(bound("infra/edge"), 0, 4.5), Some(5), "half of it is for guests");
    assert_eq!(part(bound("infra/edge"), 10, 4.6), Some(5), "and no more, whatever it says");
    // The platform's own Gateway is of the fleet, and shares its half.
    part(bound("portcullis/own"), 0, 4.7);
    assert_eq!(part(Membership::Free, 5, 4.8), Some(3));
    replica.served.send_replace(requested_at(&[]));
    assert_eq!(part(bound("infra/edge"), 5, 4.9), None, "its route has ended");
    assert_eq!(part(Membership::Free, 3, 5.0), Some(3), "its lease lasts");
    assert_eq!(part(Membership::Free, 3, 7.0), Some(3));
    assert_eq!(part(Membership::Free, 3, 8.5), Some(10), "and then it has ended");
}

/// Tenants whose Gateways have no route to the cluster report nothing, or limits of others.
#[test]
fn gateways_without_the_cluster_take_no_place_of_others() {
    let replica = Replica::of(requested_at(&["infra/edge"]));
    let bound = |gateway: &str| Membership::Bound([gateway.to_owned()].into());
    for team in 0..400 {
        let gateway = format!("team-{team}/edge");
        assert_eq!(replica.parts_as(bound(&gateway), &[CLUSTER], 0, 5.0), [None]);
        assert!(replica.parts_as(bound(&gateway), &[], 0, 5.0).is_empty());
    }
    assert_eq!(replica.parts_as(bound("infra/edge"), &[CLUSTER], 0, 5.1), [Some(5)]);
}

/// A tenant whose certificate names any node.
#[test]
fn invented_processes_of_one_owner_leave_the_next_its_part() {
    let replica = Replica::of(divided(&[("c.example.com", "a", Some("b"))]));
    let used = PartUse { held: 0, wanted: 1, ..PartUse::default() };
    let membership = Membership::Instances(["a".to_owned()].into());
    for process in 0..5_000 {
        let content = encode_use(process, 1, [(CLUSTER, "few", used)]).into();
        let node = format!("a/{process}");
        let report = GatewayReport { node, membership: membership.clone(), instance: String::new(), content };
        let answer = replica.division.divide(&report, time(5.0)).unwrap();
        assert!(!answer.is_empty(), "it is answered, and has no part");
    }
    let division = replica.division.current(time(5.0)).unwrap();
    let limiter = lock(&division.limiters.as_ref().unwrap()[CLUSTER].limiter);
    let known = (0..5_000).filter(|process| limiter.is_newest(&format!("a/{process}"), *process, 1)).count();
    assert_eq!(known, 256);
    drop(limiter);
    drop(division);
    let mut part = None;
    for turn in 0..100 {
        part = replica.parts_of("b", &[CLUSTER], 0, 5.1 + f64::from(turn) / 10.0)[0];
        if part.is_some() {
            break;
        }
    }
    assert!(part.is_some());
}

#[test]
fn report_about_one_cluster_waits_for_no_other_one() {
    let replica = Replica::of(divided(&TWO));
    replica.parts_of("b", &["lab/-/d.example.com"], 0, 1.0);
    let division = replica.division.current(time(5.0)).unwrap();
    let others = lock(&division.limiters.as_ref().unwrap()[CLUSTER].limiter);
    let parts = std::thread::scope(|scope| {
        let report = scope.spawn(|| replica.parts_of("b", &["lab/-/d.example.com"], 0, 5.0));
        report.join().unwrap()
    });
    assert_eq!(parts, [Some(10)]);
    drop(others);
}
