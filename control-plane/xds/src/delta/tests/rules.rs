use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::google::rpc::Status;

use super::*;
use portcullis_api::status::Standing;

/// A response as `type: +name -name`.
fn show(responses: &[DeltaDiscoveryResponse]) -> Vec<String> {
    let short = BTreeMap::from([(CDS, "CDS"), (EDS, "EDS"), (LDS, "LDS"), (RDS, "RDS"), (SDS, "SDS")]);
    let one = |response: &DeltaDiscoveryResponse| {
        let mut text = format!("{}:", short[response.type_url.as_str()]);
        response.resources.iter().for_each(|resource| text += &format!(" +{}", resource.name));
        response.removed_resources.iter().for_each(|name| text += &format!(" -{name}"));
        text
    };
    responses.iter().map(one).collect()
}

fn ask(url: &str, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: url.to_owned(),
        resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Default::default()
    }
}

fn ack(response: &DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { response_nonce: response.nonce.clone(), ..ask(&response.type_url, &[]) }
}

fn nack(response: &DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    let error = Status { message: "bad thing".to_owned(), ..Default::default() };
    DeltaDiscoveryRequest { error_detail: Some(error), ..ack(response) }
}

/// Acknowledges everything until nothing is said any more; returns what was said.
fn settle(stream: &mut Encoded, mut responses: Vec<DeltaDiscoveryResponse>) -> Vec<String> {
    let mut said = Vec::new();
    while !responses.is_empty() {
        said.extend(show(&responses));
        responses = responses.iter().flat_map(|response| stream.on_request(ack(response))).collect();
    }
    said
}

fn opened(snapshot: Arc<Snapshot>, asked: &[(&str, &[&str])]) -> Encoded {
    let mut stream = Encoded::new(snapshot);
    for (url, names) in asked {
        let responses = stream.on_request(ask(url, names));
        settle(&mut stream, responses);
    }
    stream
}

#[test]
fn first_request_decides_what_is_wanted() {
    let all = snapshot(&[(CDS, "a", "1"), (CDS, "b", "1"), (EDS, "a", "1"), (SDS, "s", "1")]);
    for (url, names, said) in [
        (CDS, &[][..], &["CDS: +a +b"][..]),
        (CDS, &["*"], &["CDS: +a +b"]),
        (CDS, &["a"], &["CDS: +a"]),
        (LDS, &[], &["LDS:"]),
        (EDS, &["a"], &["EDS: +a"]),
        (EDS, &["a", "x"], &["EDS: -x", "EDS: +a"]),
        // Secrets go to who knows their names.
        (SDS, &[], &[]),
        (SDS, &["*"], &[]),
        (SDS, &["s"], &["SDS: +s"]),
    ] {
        let mut stream = Encoded::new(all.clone());
        let responses = stream.on_request(ask(url, names));
        assert_eq!(settle(&mut stream, responses), said, "{url} {names:?}");
    }
}

#[test]
fn client_that_reconnects_gets_only_what_changed() {
    let now = snapshot(&[(CDS, "a", "1"), (CDS, "b", "2"), (CDS, "c", "1")]);
    let version = |name| now.get(CDS, name).unwrap().version().to_owned();
    let mut stream = Encoded::new(now.clone());
    let mut request = ask(CDS, &[]);
    request.initial_resource_versions =
        [("a".to_owned(), version("a")), ("b".to_owned(), "old".to_owned()), ("gone".to_owned(), "1".to_owned())]
            .into();
    let responses = stream.on_request(request);
    assert_eq!(settle(&mut stream, responses), ["CDS: +b +c"], "its listeners may refer to what is gone");
    let responses = stream.on_request(ask(LDS, &[]));
    assert_eq!(settle(&mut stream, responses), ["LDS:", "CDS: -gone"]);
    let mut same = Encoded::new(now.clone());
    let mut request = ask(CDS, &[]);
    request.initial_resource_versions = ["a", "b", "c"].map(|name| (name.to_owned(), version(name))).into();
    assert_eq!(show(&same.on_request(request)), [""; 0]);
}

#[test]
fn additions_go_before_what_refers_to_them_and_removals_after() {
    let before = [(CDS, "a", "1"), (EDS, "a", "1"), (LDS, "l", "1"), (RDS, "r", "a")];
    let after = [(CDS, "b", "1"), (EDS, "b", "1"), (LDS, "l", "1"), (RDS, "r", "b")];
    let mut stream = opened(snapshot(&before), &[(CDS, &[]), (EDS, &["a"]), (LDS, &[]), (RDS, &["r"])]);
    let first = stream.on_snapshot(snapshot(&after));
    assert_eq!(show(&first), ["CDS: +b"]);
    let second = stream.on_request(ack(&first[0]));
    assert_eq!(show(&second), ["RDS: +r"]);
    let third = stream.on_request(ack(&second[0]));
    assert_eq!(show(&third), ["CDS: -a"]);
    let fourth = stream.on_request(ack(&third[0]));
    assert_eq!(show(&fourth), ["EDS: -a"]);
    assert!(!stream.is_in_sync());
    assert_eq!(settle(&mut stream, fourth), ["EDS: -a"]);
    assert!(stream.is_in_sync());
}

#[test]
fn routes_stay_while_what_newer_ones_lead_to_is_refused() {
    let served = |pool: &str| {
        let one = |url: &str, name: &str, body: &str| {
            (url.to_owned(), name.to_owned(), Resource::new(body.as_bytes().to_vec()).owned_by("o"))
        };
        Arc::new(Snapshot::new([one(CDS, pool, "1"), one(LDS, "l", "1"), one(RDS, "r", pool)]))
    };
    let mut stream = opened(served("a@1"), &[(CDS, &[]), (LDS, &[]), (RDS, &["r"])]);
    let bad = stream.on_snapshot(served("a@2"));
    assert_eq!(show(&bad), ["CDS: +a@2"]);
    assert_eq!(show(&stream.on_request(nack(&bad[0]))), [""; 0], "the old routes lead to the old pool, which stays");
    assert!(!stream.is_in_sync());
    let good = stream.on_snapshot(served("a@3"));
    assert_eq!(settle(&mut stream, good), ["CDS: +a@3", "RDS: +r", "CDS: -a@1"]);
    assert!(stream.is_in_sync());
    // Of an object that is new, nothing would stay: its listener waits for routes.
    let mut new = Encoded::new(served("a@2"));
    let bad = new.on_request(ask(CDS, &[]));
    new.on_request(nack(&bad[0]));
    let said = new.on_request(ask(LDS, &[]));
    settle(&mut new, said);
    assert_eq!(show(&new.on_request(ask(RDS, &["r"]))), ["RDS: +r"]);
}

#[test]
fn routes_wait_for_a_client_that_still_warms_its_clusters() {
    let now = snapshot(&[(CDS, "b", "1"), (LDS, "l", "1"), (RDS, "r", "b")]);
    let mut stream = Encoded::new(now.clone());
    let has = |url: &str, name: &str, version: &str| DeltaDiscoveryRequest {
        initial_resource_versions: [(name.to_owned(), version.to_owned())].into(),
        ..ask(url, if url == RDS { &["r"] } else { &[] })
    };
    let version = |url, name| now.get(url, name).unwrap().version().to_owned();
    assert_eq!(show(&stream.on_request(has(LDS, "l", &version(LDS, "l")))), [""; 0]);
    assert_eq!(show(&stream.on_request(has(RDS, "r", "old"))), [""; 0], "nobody knows whether its clusters are warm");
    assert_eq!(show(&stream.on_request(has(CDS, "b", &version(CDS, "b")))), ["RDS: +r"]);
}

#[test]
fn changed_cluster_takes_its_endpoints_along() {
    let mut stream = opened(snapshot(&[(CDS, "a", "1"), (EDS, "a", "1")]), &[(CDS, &[]), (EDS, &["a"]), (LDS, &[])]);
    let responses = stream.on_snapshot(snapshot(&[(CDS, "a", "2"), (EDS, "a", "1")]));
    assert_eq!(show(&responses), ["CDS: +a", "EDS: +a"], "at once: Envoy acknowledges the cluster after both");
    settle(&mut stream, responses);
    assert!(stream.is_in_sync());
}

#[test]
fn cluster_changed_during_a_disconnect_brings_its_endpoints() {
    let now = snapshot(&[(CDS, "a", "2"), (EDS, "a", "1")]);
    let mut stream = Encoded::new(now.clone());
    let mut request = ask(CDS, &[]);
    request.initial_resource_versions = [("a".to_owned(), "old".to_owned())].into();
    assert_eq!(show(&stream.on_request(request)), ["CDS: +a"]);
    let mut request = ask(EDS, &["a"]);
    request.initial_resource_versions = [("a".to_owned(), now.get(EDS, "a").unwrap().version().to_owned())].into();
    assert_eq!(show(&stream.on_request(request)), ["EDS: +a"]);
}

#[test]
fn name_that_is_asked_for_again_is_sent_again() {
    let mut stream = opened(snapshot(&[(EDS, "a", "1")]), &[(EDS, &["a"])]);
    assert_eq!(show(&stream.on_request(ask(EDS, &[]))), [""; 0]);
    assert_eq!(show(&stream.on_request(ask(EDS, &["a"]))), ["EDS: +a"]);
}

#[test]
fn unsubscribed_name_is_not_sent() {
    let mut stream = opened(snapshot(&[(EDS, "a", "1")]), &[(EDS, &["a"])]);
    let mut request = ask(EDS, &[]);
    request.resource_names_unsubscribe = vec!["a".to_owned()];
    assert_eq!(show(&stream.on_request(request)), [""; 0]);
    assert_eq!(show(&stream.on_snapshot(snapshot(&[(EDS, "a", "2")]))), [""; 0]);
}

#[test]
fn one_response_of_a_type_is_under_way_at_a_time() {
    let mut stream = opened(snapshot(&[]), &[(CDS, &[])]);
    let first = stream.on_snapshot(snapshot(&[(CDS, "a", "1")]));
    assert_eq!(show(&stream.on_snapshot(snapshot(&[(CDS, "a", "2")]))), [""; 0]);
    assert_eq!(show(&stream.on_snapshot(snapshot(&[(CDS, "a", "3")]))), [""; 0]);
    let mut stale = ack(&first[0]);
    stale.response_nonce = "0".to_owned();
    assert_eq!(show(&stream.on_request(stale)), [""; 0], "an old nonce acknowledges nothing");
    let next = stream.on_request(ack(&first[0]));
    assert_eq!(next[0].resources[0].resource.as_ref().unwrap().value, b"3");
    assert_eq!(settle(&mut stream, next), ["CDS: +a"]);
}

#[test]
fn refused_resource_is_found_reported_and_not_sent_again() {
    let mut stream = opened(snapshot(&[]), &[(CDS, &[]), (LDS, &[])]);
    let all = [(CDS, "a", "1"), (CDS, "b", "bad"), (CDS, "c", "1"), (CDS, "d", "1")];
    let mut responses = stream.on_snapshot(snapshot(&all));
    let mut said = Vec::new();
    while let [response] = &responses[..] {
        said.extend(show(&responses));
        let is_bad = response.resources.iter().any(|resource| resource.name == "b");
        responses = stream.on_request(if is_bad { nack(response) } else { ack(response) });
    }
    assert_eq!(said, ["CDS: +a +b +c +d", "CDS: +a +b", "CDS: +a", "CDS: +b", "CDS: +c +d"]);
    assert_eq!(stream.status()[CDS].nack.as_deref(), Some("bad thing"));
    assert!(!stream.is_in_sync());
    let mut more = all.to_vec();
    more.push((CDS, "e", "1"));
    let responses = stream.on_snapshot(snapshot(&more));
    assert_eq!(settle(&mut stream, responses), ["CDS: +e"]);
    more[1] = (CDS, "b", "good");
    let responses = stream.on_snapshot(snapshot(&more));
    assert_eq!(settle(&mut stream, responses), ["CDS: +b"]);
    assert_eq!(stream.status()[CDS].nack, None);
    assert!(stream.is_in_sync());
}

#[test]
fn refusal_of_several_leaves_their_versions_unknown() {
    let before = snapshot(&[(CDS, "a", "1"), (CDS, "b", "1")]);
    let mut stream = opened(before.clone(), &[(CDS, &[]), (LDS, &[])]);
    let responses = stream.on_snapshot(snapshot(&[(CDS, "a", "2"), (CDS, "b", "2"), (CDS, "c", "2")]));
    assert_eq!(show(&stream.on_snapshot(before)), [""; 0]);
    let responses = stream.on_request(nack(&responses[0]));
    assert_eq!(settle(&mut stream, responses), ["CDS: +a", "CDS: +b", "CDS: -c"]);
}

#[test]
fn resources_stay_while_a_route_is_refused() {
    let before = [(CDS, "a", "1"), (RDS, "r", "a")];
    let after = [(CDS, "b", "1"), (RDS, "r", "b")];
    let mut stream = opened(snapshot(&before), &[(CDS, &[]), (LDS, &[]), (RDS, &["r"])]);
    let clusters = stream.on_snapshot(snapshot(&after));
    let routes = stream.on_request(ack(&clusters[0]));
    assert_eq!(show(&routes), ["RDS: +r"]);
    assert_eq!(show(&stream.on_request(nack(&routes[0]))), [""; 0], "the old route still needs a");
}

#[test]
fn node_is_in_sync_only_after_asking_for_clusters_and_listeners() {
    let mut stream = Encoded::new(snapshot(&[]));
    let mut request = ask(CDS, &[]);
    request.node = Some(Node { id: "n1".to_owned(), ..Default::default() });
    let responses = stream.on_request(request);
    settle(&mut stream, responses);
    assert_eq!((stream.node(), stream.is_in_sync()), ("n1", false));
    let responses = stream.on_request(ask(LDS, &[]));
    assert!(!stream.is_in_sync());
    settle(&mut stream, responses);
    assert!(stream.is_in_sync());
}

#[test]
fn owner_learns_where_a_node_stands() {
    let now = owned(&[(CDS, "a", "1", "A"), (CDS, "b", "bad", "B"), (RDS, "ra", "1", "A")]);
    let mut stream = Encoded::new(now.clone());
    let first = stream.on_request(ask(CDS, &[]));
    assert_eq!(stream.standing(&now, "A"), Some(Standing::Pending));
    assert_eq!(stream.standing(&now, "C"), None, "nothing of it is served");
    let halves = stream.on_request(nack(&first[0]));
    assert_eq!(show(&halves), ["CDS: +a"]);
    let bad = stream.on_request(ack(&halves[0]));
    assert_eq!(show(&bad), ["CDS: +b"]);
    assert_eq!(show(&stream.on_request(nack(&bad[0]))), [""; 0]);
    assert_eq!(stream.standing(&now, "A"), Some(Standing::Pending), "its route is not asked for yet");
    let responses = stream.on_request(ask(LDS, &[]));
    settle(&mut stream, responses);
    let responses = stream.on_request(ask(RDS, &["ra"]));
    settle(&mut stream, responses);
    assert_eq!(stream.standing(&now, "A"), Some(Standing::Acknowledged));
    let refused = Standing::Refused { message: "bad thing".to_owned() };
    assert_eq!(stream.standing(&now, "B"), Some(refused));
    let told = stream.refused();
    assert_eq!((told.len(), told[0].name.as_str(), told[0].owner.as_deref()), (1, "b", Some("B")));
    let newer = owned(&[(CDS, "a", "2", "A"), (CDS, "b", "good", "B")]);
    assert_eq!(stream.standing(&newer, "B"), Some(Standing::Pending), "what is refused is another version");
    assert_eq!(stream.standing(&newer, "A"), Some(Standing::Pending), "the stream need not know the snapshot");
}

/// `(type, name, content, owner)`.
fn owned(all: &[(&str, &str, &str, &str)]) -> Arc<crate::Snapshot> {
    let one = |(url, name, body, owner): &(&str, &str, &str, &str)| {
        let resource = crate::Resource::new(body.as_bytes().to_vec()).owned_by(*owner);
        ((*url).to_owned(), (*name).to_owned(), resource)
    };
    Arc::new(crate::Snapshot::new(all.iter().map(one)))
}

#[test]
fn owners_do_not_wait_for_each_other() {
    let before = [(CDS, "a", "1", "A"), (CDS, "b", "1", "B"), (RDS, "ra", "1", "A"), (RDS, "rb", "1", "B")];
    let mut after = before;
    (after[0].2, after[2].2, after[3].2) = ("2", "2", "2");
    let mut stream = opened(owned(&before), &[(CDS, &[]), (LDS, &[]), (RDS, &["ra", "rb"])]);
    let said = stream.on_snapshot(owned(&after));
    assert_eq!(show(&said), ["CDS: +a", "RDS: +rb"], "the route of B does not wait for A's cluster");
    assert_eq!(show(&stream.on_request(ack(&said[1]))), [""; 0]);
    let said = stream.on_request(ack(&said[0]));
    assert_eq!(show(&said), ["RDS: +ra"]);
    // A route that is refused holds its owner's clusters, and no others.
    assert_eq!(show(&stream.on_request(nack(&said[0]))), [""; 0]);
    let gone = [after[2]];
    let responses = stream.on_snapshot(owned(&gone));
    assert_eq!(settle(&mut stream, responses), ["RDS: -rb", "CDS: -b"]);
}

/// A listener of a base and parts.
fn listener(parts: &[(&str, &str)]) -> Arc<crate::Snapshot> {
    let mut body = b"base".to_vec();
    let mut ranges = Vec::new();
    for (owner, content) in parts {
        let start = body.len();
        body.extend(content.as_bytes());
        let fallback = Some("-".into());
        ranges.push(crate::Part { owner: (*owner).to_owned(), range: start..body.len(), fallback });
    }
    let resource = crate::Resource::new(body).with_parts(ranges);
    Arc::new(crate::Snapshot::new([(LDS.to_owned(), "l".to_owned(), resource)]))
}

/// Refuses every response with a `!` in it. Returns the bodies.
fn settle_bodies(stream: &mut Encoded, mut responses: Vec<DeltaDiscoveryResponse>) -> Vec<String> {
    let mut said = Vec::new();
    while let Some(response) = responses.pop() {
        let body = response.resources.iter().filter_map(|one| one.resource.as_ref());
        let body: String = body.map(|any| String::from_utf8_lossy(&any.value).into_owned()).collect();
        let answer = if body.contains('!') { nack(&response) } else { ack(&response) };
        said.push(body);
        responses.extend(stream.on_request(answer));
    }
    said
}

#[test]
fn bad_part_is_found_told_and_left_out() {
    let before = listener(&[("A", " a1"), ("B", " b1")]);
    let mut stream = Encoded::new(before.clone());
    let responses = stream.on_request(ask(CDS, &[]));
    settle_bodies(&mut stream, responses);
    let responses = stream.on_request(ask(LDS, &[]));
    assert_eq!(settle_bodies(&mut stream, responses), ["base a1 b1"]);
    assert_eq!(stream.standing(&before, "A"), Some(Standing::Acknowledged));
    let after = listener(&[("A", " a2"), ("B", " b2!"), ("C", " c!")]);
    let responses = stream.on_snapshot(after.clone());
    let said = settle_bodies(&mut stream, responses);
    assert_eq!(said.last().unwrap(), "base a2 b1-", "{said:#?}");
    let told: Vec<_> = stream.refused().into_iter().map(|one| one.owner.unwrap()).collect();
    assert_eq!(told, ["B", "C"]);
    assert_eq!(stream.standing(&after, "A"), Some(Standing::Acknowledged));
    assert_eq!(stream.standing(&after, "B"), Some(Standing::Refused { message: "bad thing".to_owned() }));
    assert!(stream.status()[LDS].nack.is_some() && !stream.is_in_sync());
    let responses = stream.on_snapshot(listener(&[("A", " a3"), ("B", " b3")]));
    assert_eq!(settle_bodies(&mut stream, responses), ["base a3 b3"]);
    assert!(stream.status()[LDS].nack.is_none() && stream.is_in_sync());
}

#[test]
fn reconnect_does_not_send_a_refused_part_again() {
    let all = listener(&[("A", " a1"), ("B", " b!")]);
    let mut stream = Encoded::new(all.clone());
    let responses = stream.on_request(ask(LDS, &[]));
    let mut version = String::new();
    let mut responses = std::collections::VecDeque::from(responses);
    while let Some(response) = responses.pop_front() {
        let resource = response.resources.first().unwrap();
        let is_bad = resource.resource.as_ref().unwrap().value.contains(&b'!');
        if !is_bad {
            version.clone_from(&resource.version);
        }
        responses.extend(stream.on_request(if is_bad { nack(&response) } else { ack(&response) }));
    }
    let mut again = Encoded::new(all);
    let mut request = ask(LDS, &[]);
    request.initial_resource_versions = [("l".to_owned(), version)].into();
    assert_eq!(show(&again.on_request(request)), [""; 0]);
    assert_eq!(again.refused()[0].owner.as_deref(), Some("B"));
}

#[test]
fn version_only_resource_is_neither_sent_nor_removed() {
    let all = [(CDS, "a", "1"), (LDS, "l", "1"), (SDS, "s", "1")];
    let full = snapshot(&all);
    let version = full.get(SDS, "s").unwrap().version().to_owned();
    let one = |(url, name, body): &(&str, &str, &str)| {
        let resource = match *url {
            SDS => Resource::version_only(version.clone()),
            _ => Resource::new(body.as_bytes().to_vec()),
        };
        ((*url).to_owned(), (*name).to_owned(), resource)
    };
    let held = Arc::new(Snapshot::new(all.iter().map(one)));
    let open = |known: Option<&str>| {
        let mut stream = opened(held.clone(), &[(CDS, &[]), (LDS, &[]), (RDS, &["r"])]);
        let mut request = ask(SDS, &["s"]);
        request.initial_resource_versions =
            known.map(|version| ("s".to_owned(), version.to_owned())).into_iter().collect();
        assert_eq!(show(&stream.on_request(request)), [""; 0], "{known:?}");
        stream
    };
    let mut has = open(Some(&version));
    assert!(has.is_in_sync());
    assert_eq!(show(&has.on_snapshot(full.clone())), [""; 0], "it has all of it");
    assert!(has.is_in_sync());
    for known in [None, Some("old")] {
        let mut lacks = open(known);
        assert!(!lacks.is_in_sync());
        let responses = lacks.on_snapshot(full.clone());
        assert_eq!(settle(&mut lacks, responses), ["SDS: +s"]);
        assert!(lacks.is_in_sync());
    }
    let responses = has.on_snapshot(snapshot(&all[..2]));
    assert_eq!(settle(&mut has, responses), ["SDS: -s"], "what is really gone is taken away");
}
