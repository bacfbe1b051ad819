use super::steps::{ack, ask, nack, opened, settle, show};
use super::*;

#[test]
fn response_that_waits_is_made_of_the_newest_snapshot() {
    let of = |edition: &str| snapshot(&[(CDS, "c", edition), (EDS, "c", edition)]);
    let mut stream = Encoded::new(of("1"));
    stream.on_request_without_room(ask(CDS, &[]));
    stream.on_snapshot_without_room(of("2"));
    let made = stream.on_room();
    assert_eq!(show(&made), ["CDS: +c"]);
    assert_eq!(made[0].resources[0].resource.as_ref().unwrap().value, b"2");
    assert_eq!(show(&stream.on_room()), [""; 0], "it is made once");
}

#[test]
fn response_without_room_leaves_no_trace() {
    let of = |edition: &str| snapshot(&[(CDS, "c", edition), (EDS, "c", "1"), (LDS, "l", "1")]);
    let mut stream = opened(of("1"), &[(CDS, &[]), (EDS, &["c"]), (LDS, &[])]);
    assert!(stream.is_in_sync());
    stream.on_snapshot_without_room(of("2"));
    assert!(!stream.is_in_sync() && stream.oldest_unanswered().is_none());
    assert_eq!(show(&stream.on_snapshot(of("1"))), [""; 0], "not even the endpoints of a cluster that is not sent");
    assert!(stream.is_in_sync());
}

#[test]
fn stream_is_not_in_sync_before_its_responses_are_looked_for() {
    let of = |edition: &str| snapshot(&[(CDS, "c", "1"), (LDS, "l", edition)]);
    let mut stream = opened(of("1"), &[(CDS, &[]), (LDS, &[])]);
    stream.0.take_snapshot(of("2"));
    assert!(!stream.is_in_sync());
    let responses = stream.on_room();
    assert_eq!(settle(&mut stream, responses), ["LDS: +l"]);
    assert!(stream.is_in_sync());
}

#[test]
fn halves_of_a_refused_response_wait_for_room() {
    let all = ["a", "b", "c", "d"];
    let mut stream = Encoded::new(snapshot(&all.map(|name| (SDS, name, "1"))));
    let whole = stream.on_request(ask(SDS, &all));
    stream.on_request_without_room(nack(&whole[0]));
    stream.has_no_room();
    let half = stream.on_room();
    assert_eq!(show(&half), ["SDS: +a +b"]);
    stream.on_request_without_room(ack(&half[0]));
    let half = stream.on_room();
    assert_eq!(show(&half), ["SDS: +c +d"]);
}

#[test]
fn first_answer_is_owed_until_there_is_room() {
    let mut stream = Encoded::new(snapshot(&[]));
    stream.on_request_without_room(ask(CDS, &[]));
    assert_eq!(show(&stream.on_room()), ["CDS:"]);
}
