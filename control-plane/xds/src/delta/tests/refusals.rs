//! Resources and parts that the client refuses.

use portcullis_api::status::GatewayProgress;

use super::steps::{ack, ask, nack, opened, owned, settle, show};
use super::*;

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
fn halves_of_what_was_refused_have_a_bounded_number_of_bytes() {
    let all = |body| snapshot(&[(SDS, "a", "1"), (SDS, "b", "1"), (SDS, "c", body), (SDS, "d", body)]);
    let mut stream = Encoded::with_most(all("1"), 4);
    let whole = stream.on_request(ask(SDS, &["a", "b", "c", "d"]));
    assert_eq!(show(&whole), ["SDS: +a +b +c +d"]);
    let half = stream.on_request(nack(&whole[0]));
    assert_eq!(show(&stream.on_snapshot(all("123"))), [""; 0]);
    assert_eq!(settle(&mut stream, half), ["SDS: +a +b", "SDS: +c", "SDS: +d"]);
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
fn owner_learns_where_a_node_stands() {
    let now = owned(&[(CDS, "a", "1", "A"), (CDS, "b", "bad", "B"), (RDS, "ra", "1", "A")]);
    let mut stream = Encoded::new(now.clone());
    let first = stream.on_request(ask(CDS, &[]));
    assert_eq!(stream.progress(&now, "A"), Some(GatewayProgress::Pending));
    assert_eq!(stream.progress(&now, "C"), None, "nothing of it is served");
    let halves = stream.on_request(nack(&first[0]));
    assert_eq!(show(&halves), ["CDS: +a"]);
    let bad = stream.on_request(ack(&halves[0]));
    assert_eq!(show(&bad), ["CDS: +b"]);
    assert_eq!(show(&stream.on_request(nack(&bad[0]))), [""; 0]);
    assert_eq!(stream.progress(&now, "A"), Some(GatewayProgress::Pending), "its route is not asked for yet");
    let responses = stream.on_request(ask(LDS, &[]));
    settle(&mut stream, responses);
    let responses = stream.on_request(ask(RDS, &["ra"]));
    settle(&mut stream, responses);
    assert_eq!(stream.progress(&now, "A"), Some(GatewayProgress::Acknowledged));
    let refused = GatewayProgress::Refused { message: "bad thing".to_owned() };
    assert_eq!(stream.progress(&now, "B"), Some(refused));
    let found = stream.refused();
    assert_eq!((found.len(), found[0].name.as_str(), found[0].owner.as_deref()), (1, "b", Some("B")));
    let newer = owned(&[(CDS, "a", "2", "A"), (CDS, "b", "good", "B")]);
    assert_eq!(stream.progress(&newer, "B"), Some(GatewayProgress::Pending), "what is refused is another version");
    assert_eq!(stream.progress(&newer, "A"), Some(GatewayProgress::Pending), "the stream need not know the snapshot");
}

fn part((owner, content): &(&str, &str)) -> crate::Part {
    crate::Part { owner: (*owner).into(), body: vec![(*content).to_owned().into()], fallback: Some("-".into()) }
}

/// A listener of a base and parts.
fn listener(parts: &[(&str, &str)]) -> Arc<crate::Snapshot> {
    let resource = crate::Resource::new("base").with_parts(parts.iter().map(part));
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
    assert_eq!(stream.progress(&before, "A"), Some(GatewayProgress::Acknowledged));
    let after = listener(&[("A", " a2"), ("B", " b2!"), ("C", " c!")]);
    let responses = stream.on_snapshot(after.clone());
    let said = settle_bodies(&mut stream, responses);
    assert_eq!(said.last().unwrap(), "base a2 b1-", "{said:#?}");
    let found: Vec<_> = stream.refused().into_iter().map(|one| one.owner.unwrap()).collect();
    assert_eq!(found, ["B", "C"]);
    assert_eq!(stream.progress(&after, "A"), Some(GatewayProgress::Acknowledged));
    assert_eq!(stream.progress(&after, "B"), Some(GatewayProgress::Refused { message: "bad thing".to_owned() }));
    assert!(stream.status()[LDS].nack.is_some() && !stream.is_in_sync());
    let refusals = stream.refusals(&after);
    assert!(!refusals.is_pending && refusals.refused == stream.refused(), "{refusals:?}");
    assert!(stream.refusals(&before).is_pending, "it is another snapshot");
    let responses = stream.on_snapshot(listener(&[("A", " a3"), ("B", " b3")]));
    assert_eq!(settle_bodies(&mut stream, responses), ["base a3 b3"]);
    assert!(stream.status()[LDS].nack.is_none() && stream.is_in_sync());
}

#[test]
fn refused_resources_leave_others_settled() {
    let all = owned(&[
        (CDS, "a", "1", "A"),
        (CDS, "b", "bad!", "B"),
        (EDS, "eb", "1", "B"),
        (LDS, "taken", "bad!", "T"),
        (LDS, "free", "1", "F"),
    ]);
    let mut stream = Encoded::new(all.clone());
    let responses = stream.on_request(ask(CDS, &[]));
    assert!(stream.refusals(&all).is_pending);
    settle_bodies(&mut stream, responses);
    assert!(stream.refusals(&all).is_pending, "listeners are not asked for yet");
    let responses = stream.on_request(ask(LDS, &[]));
    settle_bodies(&mut stream, responses);
    let refusals = stream.refusals(&all);
    let names: Vec<&str> = refusals.refused.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((names, refusals.is_pending), (vec!["b", "taken"], false));
    let more =
        owned(&[(CDS, "a", "2", "A"), (CDS, "b", "bad!", "B"), (LDS, "taken", "bad!", "T"), (LDS, "free", "1", "F")]);
    let responses = stream.on_snapshot(more.clone());
    assert!(stream.refusals(&more).is_pending);
    settle_bodies(&mut stream, responses);
    assert!(!stream.refusals(&more).is_pending);
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

/// A cluster of each object, the listener of all, and an optional one that the node refuses.
fn beside_an_optional(objects: &[(&str, &str)]) -> Arc<Snapshot> {
    let composed = |base: &'static str, name: &str| {
        (LDS.to_owned(), name.to_owned(), Resource::new(base).with_parts(objects.iter().map(part)))
    };
    let (url, name, resource) = composed("bad!", "tunnels");
    let clusters = objects.iter().map(|(owner, content)| {
        (CDS.to_owned(), format!("{owner}-{content}"), Resource::new(content.as_bytes().to_vec()).owned_by(*owner))
    });
    Arc::new(Snapshot::new(clusters.chain([composed("base", "main"), (url, name, resource.optional())])))
}

/// Refuses every response with a `!` in it. Returns what was removed.
fn settle_removals(stream: &mut Encoded, mut responses: Vec<DeltaDiscoveryResponse>) -> Vec<String> {
    let mut removed = Vec::new();
    while let Some(response) = responses.pop() {
        removed.extend(response.removed_resources.iter().cloned());
        let is_bad = response.resources.iter().any(|one| one.resource.as_ref().unwrap().value.contains(&b'!'));
        responses.extend(stream.on_request(if is_bad { nack(&response) } else { ack(&response) }));
    }
    removed
}

#[test]
fn optional_listener_that_is_refused_holds_nothing_up() {
    let before = beside_an_optional(&[("A", "1"), ("B", "1"), ("C", "1")]);
    let mut stream = Encoded::new(before.clone());
    for url in [CDS, LDS, RDS] {
        let responses = stream.on_request(ask(url, &[]));
        settle_removals(&mut stream, responses);
    }
    let refused = |stream: &Encoded| -> Vec<_> {
        stream.refused().into_iter().map(|one| (one.name, one.owner, one.is_optional)).collect()
    };
    assert_eq!(refused(&stream), [("tunnels".to_owned(), None, true)]);
    for owner in ["A", "B", "C"] {
        assert_eq!(stream.progress(&before, owner), Some(GatewayProgress::Acknowledged), "{owner}");
    }
    let after = beside_an_optional(&[("A", "2"), ("B", "1")]);
    let responses = stream.on_snapshot(after.clone());
    assert_eq!(settle_removals(&mut stream, responses), ["A-1", "C-1"]);
    for owner in ["A", "B"] {
        assert_eq!(stream.progress(&after, owner), Some(GatewayProgress::Acknowledged), "{owner}");
    }
    assert_eq!(refused(&stream), [("tunnels".to_owned(), None, true)]);
    let responses = stream.on_snapshot(listener(&[]));
    settle_removals(&mut stream, responses);
    assert_eq!(refused(&stream), [], "nothing of it was ever there");
}

#[test]
fn refused_edit_of_a_listener_holds_removals_up() {
    let mut stream = opened(snapshot(&[(CDS, "a", "1"), (LDS, "l", "1")]), &[(CDS, &[]), (LDS, &[]), (RDS, &[])]);
    let responses = stream.on_snapshot(snapshot(&[(CDS, "b", "1"), (LDS, "l", "bad!")]));
    assert_eq!(settle_removals(&mut stream, responses), [""; 0], "the listener that is there may lead to a");
    let responses = stream.on_snapshot(snapshot(&[(CDS, "b", "1"), (LDS, "l", "2")]));
    assert_eq!(settle_removals(&mut stream, responses), ["a"]);
}
