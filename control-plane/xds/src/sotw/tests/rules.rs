use std::collections::BTreeMap;

use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::google::rpc::Status;

use super::*;
use crate::Standing;
use crate::sotw::SotwStream;
use crate::stream::{Conversation, NodeStream};

/// A response as `type: name=content …`.
fn show(responses: &[DiscoveryResponse]) -> Vec<String> {
    let short = BTreeMap::from([(CDS, "CDS"), (EDS, "EDS"), (LDS, "LDS"), (RDS, "RDS")]);
    let text = |any: &envoy_types::pb::google::protobuf::Any| String::from_utf8(any.value.clone()).unwrap();
    let one = |response: &DiscoveryResponse| {
        let bodies: Vec<_> = response.resources.iter().map(text).collect();
        format!("{}: {}", short[response.type_url.as_str()], bodies.join(" "))
    };
    responses.iter().map(one).collect()
}

fn ask(url: &str, names: &[&str]) -> DiscoveryRequest {
    let resource_names = names.iter().map(|name| (*name).to_owned()).collect();
    DiscoveryRequest { type_url: url.to_owned(), resource_names, ..Default::default() }
}

fn ack(response: &DiscoveryResponse, names: &[&str]) -> DiscoveryRequest {
    let response_nonce = response.nonce.clone();
    let version_info = response.version_info.clone();
    DiscoveryRequest { response_nonce, version_info, ..ask(&response.type_url, names) }
}

fn nack(response: &DiscoveryResponse, names: &[&str]) -> DiscoveryRequest {
    let error = Status { message: "?".to_owned(), ..Default::default() };
    DiscoveryRequest { error_detail: Some(error), version_info: String::new(), ..ack(response, names) }
}

fn names_of<'a>(url: &str, asked: &[(&str, &'a [&'a str])]) -> &'a [&'a str] {
    asked.iter().find(|(other, _)| *other == url).map(|(_, names)| *names).unwrap_or_default()
}

/// Acknowledges everything without a `!`, until nothing is said any more; returns what was said.
fn settle(stream: &mut SotwStream, mut responses: Vec<DiscoveryResponse>, asked: &[(&str, &[&str])]) -> Vec<String> {
    let mut said = Vec::new();
    while !responses.is_empty() {
        let shown = show(&responses);
        let answer = |(response, text): (&DiscoveryResponse, &String)| {
            let names = names_of(&response.type_url, asked);
            if text.contains('!') { nack(response, names) } else { ack(response, names) }
        };
        let answers: Vec<_> = responses.iter().zip(&shown).map(answer).collect();
        said.extend(shown);
        responses = answers.into_iter().flat_map(|answer| stream.on_request(answer)).collect();
    }
    said
}

fn opened(snapshot: Arc<crate::Snapshot>, asked: &[(&str, &[&str])]) -> SotwStream {
    let mut stream = SotwStream::new(snapshot);
    for (url, names) in asked {
        let responses = stream.on_request(ask(url, names));
        settle(&mut stream, responses, asked);
    }
    stream
}

#[test]
fn clusters_and_listeners_are_told_all_at_a_time_and_others_by_name() {
    let all = snapshot(&[(CDS, "a", "1"), (CDS, "b", "1"), (EDS, "a", "1"), (EDS, "b", "1")]);
    for (url, names, said) in [
        (CDS, &[][..], &["CDS: a=1 b=1"][..]),
        (CDS, &["*"], &["CDS: a=1 b=1"]),
        (LDS, &[], &["LDS: "]),
        (EDS, &["a"], &["EDS: a=1"]),
        (EDS, &["x"], &[]),
    ] {
        let mut stream = SotwStream::new(all.clone());
        let responses = stream.on_request(ask(url, names));
        assert_eq!(settle(&mut stream, responses, &[(url, names)]), said, "{url} {names:?}");
    }
    let asked = [(EDS, &["a", "b"][..])];
    let mut stream = opened(all, &asked);
    let responses = stream.on_snapshot(snapshot(&[(EDS, "a", "1"), (EDS, "b", "2")]));
    assert_eq!(settle(&mut stream, responses, &asked), ["EDS: b=2"], "only what changed");
}

#[test]
fn additions_go_before_what_refers_to_them_and_removals_after() {
    let asked = [(CDS, &[][..]), (EDS, &["a"]), (LDS, &[]), (RDS, &["r"])];
    let before = [(CDS, "a", "1"), (EDS, "a", "1"), (LDS, "l", "1"), (RDS, "r", "a")];
    let after = [(CDS, "b", "1"), (EDS, "b", "1"), (LDS, "l", "1"), (RDS, "r", "b")];
    let mut stream = opened(snapshot(&before), &asked);
    assert!(stream.is_in_sync());
    let responses = stream.on_snapshot(snapshot(&after));
    assert_eq!(settle(&mut stream, responses, &asked), ["CDS: a=1 b=1", "RDS: r=b", "CDS: b=1"]);
    assert!(stream.is_in_sync());
}

#[test]
fn a_changed_cluster_takes_its_endpoints_along() {
    let asked = [(CDS, &[][..]), (EDS, &["a"]), (LDS, &[])];
    let mut stream = opened(snapshot(&[(CDS, "a", "1"), (EDS, "a", "1")]), &asked);
    let responses = stream.on_snapshot(snapshot(&[(CDS, "a", "2"), (EDS, "a", "1")]));
    assert_eq!(show(&responses), ["CDS: a=2", "EDS: a=1"], "at once: Envoy acknowledges the cluster after both");
    settle(&mut stream, responses, &asked);
    assert!(stream.is_in_sync());
}

#[test]
fn a_client_that_reconnects_with_the_version_it_has_gets_nothing() {
    let all = snapshot(&[(CDS, "a", "1"), (EDS, "a", "1"), (EDS, "b", "1")]);
    let (url, names) = (CDS, &[][..]);
    let mut stream = SotwStream::new(all.clone());
    let first = stream.on_request(ask(url, names));
    let version_info = first[0].version_info.clone();
    let mut again = SotwStream::new(all.clone());
    assert_eq!(show(&again.on_request(DiscoveryRequest { version_info, ..ask(url, names) })), [""; 0]);
    let version_info = "old".to_owned();
    let mut other = SotwStream::new(all.clone());
    assert_eq!(other.on_request(DiscoveryRequest { version_info, ..ask(url, names) }).len(), 1);
}

#[test]
fn one_response_of_a_type_is_under_way_at_a_time_and_old_words_count_nothing() {
    let mut stream = opened(snapshot(&[]), &[(CDS, &[])]);
    let first = stream.on_snapshot(snapshot(&[(CDS, "a", "1")]));
    assert_eq!(show(&stream.on_snapshot(snapshot(&[(CDS, "a", "2")]))), [""; 0]);
    let mut stale = ack(&first[0], &[]);
    stale.response_nonce = "0".to_owned();
    assert_eq!(show(&stream.on_request(stale)), [""; 0]);
    assert_eq!(show(&stream.on_request(ack(&first[0], &[]))), ["CDS: a=2"]);
}

#[test]
fn a_name_that_is_new_is_sent_and_one_that_is_dropped_is_not() {
    let asked = [(EDS, &["a"][..])];
    let mut stream = opened(snapshot(&[(EDS, "a", "1"), (EDS, "b", "1")]), &asked);
    let nonce = |stream: &mut SotwStream, names: &[&str]| {
        let mut request = ask(EDS, names);
        request.response_nonce = stream.states.values().next().unwrap().nonce().to_owned();
        stream.on_request(request)
    };
    let more = nonce(&mut stream, &["a", "b"]);
    assert_eq!(show(&more), ["EDS: b=1"]);
    settle(&mut stream, more, &[(EDS, &["a", "b"])]);
    assert_eq!(show(&nonce(&mut stream, &["b"])), [""; 0]);
    assert_eq!(show(&stream.on_snapshot(snapshot(&[(EDS, "a", "2"), (EDS, "b", "1")]))), [""; 0]);
    let again = nonce(&mut stream, &["a", "b"]);
    assert_eq!(show(&again), ["EDS: a=2"], "wanted for something new");
}

#[test]
fn what_is_refused_is_found_by_leaving_out_and_nothing_else_is_taken_away() {
    let asked = [(CDS, &[][..]), (LDS, &[])];
    let mut stream = opened(snapshot(&[(CDS, "a", "1"), (CDS, "b", "1")]), &asked);
    let after = [(CDS, "a", "2"), (CDS, "b", "2!"), (CDS, "c", "1")];
    let responses = stream.on_snapshot(snapshot(&after));
    let said = settle(&mut stream, responses, &asked);
    assert_eq!(said.last().unwrap(), "CDS: a=2 b=1 c=1", "{said:#?}");
    assert!(said.iter().all(|one| one.contains("a=") && one.contains("b=")), "{said:#?}");
    let told: Vec<_> = stream.refused().into_iter().map(|one| one.name).collect();
    assert_eq!((told, stream.status()[CDS].nack.as_deref()), (vec!["b".to_owned()], Some("?")));
    assert!(!stream.is_in_sync());
    let mut more = after.to_vec();
    more.push((CDS, "d", "1"));
    let responses = stream.on_snapshot(snapshot(&more));
    assert_eq!(settle(&mut stream, responses, &asked), ["CDS: a=2 b=1 c=1 d=1"]);
    more[1] = (CDS, "b", "3");
    let responses = stream.on_snapshot(snapshot(&more));
    assert_eq!(settle(&mut stream, responses, &asked), ["CDS: a=2 b=3 c=1 d=1"]);
    assert!(stream.is_in_sync() && stream.status()[CDS].nack.is_none());
}

#[test]
fn a_bad_part_is_left_out() {
    let asked = [(CDS, &[][..]), (LDS, &[])];
    let mut stream = opened(listener(&[("A", " a1"), ("B", " b1")]), &asked);
    let after = listener(&[("A", " a2"), ("B", " b2!"), ("C", " c!")]);
    let responses = stream.on_snapshot(after.clone());
    let said = settle(&mut stream, responses, &asked);
    assert_eq!(said.last().unwrap(), "LDS: l= a2 b1-", "{said:#?}");
    assert_eq!(stream.standing(&after, "A"), Some(Standing::Acknowledged));
    assert_eq!(stream.standing(&after, "B"), Some(Standing::Refused { message: "?".to_owned() }));
}

#[test]
fn after_a_reconnect_too_a_cluster_goes_behind_the_route_that_named_it() {
    let before = snapshot(&[(CDS, "a", "1"), (EDS, "a", "1"), (LDS, "l", "1"), (RDS, "r", "a")]);
    let after = [(CDS, "b", "1"), (EDS, "b", "1"), (LDS, "l", "1"), (RDS, "r", "b")];
    let mut first = SotwStream::new(before.clone());
    let version_info = first.on_request(ask(CDS, &[]))[0].version_info.clone();
    // Another control plane that has served the same before, or this one after a restart with its last good configuration.
    for version in [version_info, "of another kind".to_owned()] {
        let mut stream = SotwStream::new(Arc::new(before.succeeded_by(entries_of(&after))));
        let asked = [(CDS, &[][..]), (EDS, &["a"]), (LDS, &[]), (RDS, &["r"])];
        let mut said = Vec::new();
        for (url, names) in asked {
            let version_info = if url == CDS { version.clone() } else { String::new() };
            let responses = stream.on_request(DiscoveryRequest { version_info, ..ask(url, names) });
            said.extend(settle(&mut stream, responses, &asked));
        }
        assert_eq!(said, ["CDS: a=1 b=1", "LDS: l=1", "RDS: r=b", "CDS: b=1"], "{version}");
        assert!(stream.is_in_sync());
    }
}
