use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::Node;
use portcullis_api::status::GatewayProgress;

use super::steps::{ack, ask, nack, opened, owned, settle, show};
use super::*;

#[test]
fn names_and_versions_of_no_resource_are_counted_once() {
    let mut stream = Encoded::new(snapshot(&[(EDS, "here", "1")]));
    let names = |names: &[&str]| DeltaDiscoveryRequest {
        type_url: EDS.to_owned(),
        resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Default::default()
    };
    stream.on_request(names(&["here", "elsewhere"]));
    stream.on_request(names(&["elsewhere", "here"]));
    let memory = |text: &str| text.len() + 96;
    assert_eq!(stream.foreign_bytes(), memory("elsewhere"));
    let versions = [("gone".to_owned(), "older".to_owned())].into();
    let type_url = CDS.to_owned();
    stream.on_request(DeltaDiscoveryRequest { type_url, initial_resource_versions: versions, ..Default::default() });
    assert_eq!(stream.foreign_bytes(), memory("elsewhere") + memory("gone") + memory("older"));
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
fn response_has_a_bounded_number_of_bytes() {
    let all = snapshot(&[
        (CDS, "a", "123"),
        (CDS, "b", "123"),
        (SDS, "a", "12"),
        (SDS, "b", "12"),
        (SDS, "c", "12"),
        (SDS, "d", "12345678"),
        (SDS, "e", "1"),
        (LDS, "l", "1"),
    ]);
    let mut stream = Encoded::with_most(all, 4);
    assert_eq!(show(&stream.on_request(ask(CDS, &[]))), ["CDS: +a +b"], "clusters are not divided");
    let first = stream.on_request(ask(SDS, &["a", "b", "c", "d", "e"]));
    assert_eq!(show(&stream.on_request(ask(LDS, &[]))), [""; 0], "the rest of the secrets is not there");
    assert_eq!(settle(&mut stream, first), ["SDS: +a +b", "SDS: +c", "SDS: +d", "SDS: +e"]);
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

/// The node never asks for routes: no listener of the newer snapshot leads to any.
#[test]
fn node_loses_clusters_of_a_route_that_ended_as_it_began() {
    let one =
        |url: &str, name: &str, body: &str| (url.to_owned(), name.to_owned(), Resource::new(body.as_bytes().to_vec()));
    let (url, name, misdirected) = one(RDS, "r", "421");
    let ended = Arc::new(Snapshot::new([one(LDS, "l", "2"), (url, name, misdirected.on_demand())]));
    let mut stream = Encoded::new(snapshot(&[(CDS, "a", "1"), (EDS, "a", "1"), (LDS, "l", "1"), (RDS, "r", "a")]));
    let clusters = stream.on_request(ask(CDS, &[]));
    assert_eq!(show(&clusters), ["CDS: +a"]);
    let endpoints = stream.on_request(ask(EDS, &["a"]));
    settle(&mut stream, endpoints);
    assert_eq!(show(&stream.on_snapshot(ended.clone())), [""; 0], "it warms the cluster");
    assert_eq!(show(&stream.on_request(ack(&clusters[0]))), [""; 0], "listeners may lead to it");
    let listeners = stream.on_request(ask(LDS, &[]));
    assert_eq!(settle(&mut stream, listeners), ["LDS: +l", "CDS: -a", "EDS: -a"]);
    assert!(stream.is_in_sync());
    assert_eq!(stream.progress_with_all(&ended), GatewayProgress::Acknowledged);
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

/// Those lead to clusters without an owner alone.
#[test]
fn routes_without_an_owner_go_on_beside_a_refused_cluster() {
    let served = |version: &str| {
        let one = |url: &str, name: &str, body: &str| {
            (url.to_owned(), name.to_owned(), Resource::new(body.as_bytes().to_vec()))
        };
        let own = [one(CDS, &format!("a@{version}"), "1"), one(LDS, "l", "1"), one(RDS, "r", version)];
        let own = own.map(|(url, name, resource)| (url, name, resource.owned_by("o")));
        Arc::new(Snapshot::new(own.into_iter().chain([one(RDS, "shared", version)])))
    };
    let mut stream = opened(served("1"), &[(CDS, &[]), (LDS, &[]), (RDS, &["r", "shared"])]);
    let bad = stream.on_snapshot(served("2"));
    assert_eq!(show(&bad), ["CDS: +a@2"], "the cluster may be refused yet");
    let responses = stream.on_request(nack(&bad[0]));
    assert_eq!(settle(&mut stream, responses), ["RDS: +shared"]);
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

/// All connections are passed on, so that the node never asks for routes: without them what it has and no one refers to would stay.
#[test]
fn node_without_routes_loses_clusters_with_newest_listeners() {
    let now = snapshot(&[(CDS, "b", "1"), (LDS, "l", "1")]);
    let version = |url, name| now.get(url, name).unwrap().version().to_owned();
    let has = |url: &str, versions: &[(&str, String)]| DeltaDiscoveryRequest {
        initial_resource_versions: versions.iter().map(|(name, one)| ((*name).to_owned(), one.clone())).collect(),
        ..ask(url, &[])
    };
    let clusters = has(CDS, &[("b", version(CDS, "b")), ("gone", "1".to_owned())]);
    let mut newest = Encoded::new(now.clone());
    assert_eq!(show(&newest.on_request(clusters.clone())), [""; 0], "listeners may lead to it");
    assert_eq!(show(&newest.on_request(has(LDS, &[("l", version(LDS, "l"))]))), ["CDS: -gone"]);
    let mut older = Encoded::new(now.clone());
    let responses = older.on_request(has(LDS, &[("l", "0".to_owned())]));
    assert_eq!(show(&responses), ["LDS: +l"]);
    assert_eq!(show(&older.on_request(clusters)), [""; 0], "its listener may lead to it");
    assert_eq!(show(&older.on_request(ack(&responses[0]))), ["CDS: -gone"]);
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

/// Else a node would have a response behind it that it never reads.
#[test]
fn response_that_was_not_read_cannot_be_acknowledged() {
    let mut stream = Encoded::new(snapshot(&[(CDS, "a", "1")]));
    let first = stream.on_request(ask(CDS, &[]));
    for guess in ["1", "2", first[0].nonce.split('-').next().unwrap()] {
        let guessed = DeltaDiscoveryRequest { response_nonce: guess.to_owned(), ..ask(CDS, &[]) };
        assert_eq!(show(&stream.on_request(guessed)), [""; 0]);
        assert_eq!(stream.oldest_unanswered(), Some(1), "{guess}");
    }
    settle(&mut stream, first);
    assert_eq!(stream.oldest_unanswered(), None);
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

#[test]
fn node_has_all_only_with_the_endpoints_of_its_clusters() {
    let all = snapshot(&[(CDS, "a", "1"), (EDS, "a", "1"), (LDS, "l", "1")]);
    let mut stream = opened(all.clone(), &[(CDS, &[]), (LDS, &[])]);
    assert!(stream.is_in_sync());
    assert_eq!(stream.progress_with_all(&all), GatewayProgress::Pending);
    let responses = stream.on_request(ask(EDS, &["a"]));
    settle(&mut stream, responses);
    assert_eq!(stream.progress_with_all(&all), GatewayProgress::Acknowledged);
    let newer = snapshot(&[(CDS, "a", "1"), (EDS, "a", "2"), (LDS, "l", "1")]);
    assert_eq!(stream.progress_with_all(&newer), GatewayProgress::Pending);
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
