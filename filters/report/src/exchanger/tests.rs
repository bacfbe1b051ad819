use portcullis_filter_config::limits::LimitPart;
use prost::Message;

use super::*;
use crate::ReportResponse;

fn exchanger(clusters: &[&str]) -> Exchanger<u32> {
    let clusters = clusters.iter().map(|name| (*name).to_owned()).collect();
    Exchanger::new(&LimitExchanges { clusters, node: "a".to_owned() }, "a".to_owned())
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn parts(number: u64) -> PartsMessage {
    let mut message = PartsMessage { number, next_milliseconds: 100, ..PartsMessage::default() };
    message.push(Some(LimitPart { quota: 7, ..LimitPart::default() }));
    message
}

fn body(limits: Vec<u8>) -> Vec<u8> {
    let message = ReportResponse { limits: limits.into() }.encode_to_vec();
    [&[0], &u32::try_from(message.len()).unwrap().to_be_bytes()[..], &message].concat()
}

fn good(chunks: &[&[u8]], answer: impl FnOnce(ExchangeResponse<'_>) -> Option<ExchangeEnd>) -> Option<ExchangeEnd> {
    answer(ExchangeResponse { status: 200, grpc_status: None, chunks })
}

/// Writes a report and begins the callout 1. Returns the Envoy cluster.
fn begin(exchanger: &Exchanger<u32>, turn: &ExchangeTurn, now: Duration) -> Option<String> {
    let mut asked = None;
    if exchanger.write(turn, now, || vec![1]).is_written {
        let callout = |cluster: &str, body: &[u8]| {
            assert_eq!(body, b"\0\0\0\0\x06\x0a\x01a\x22\x01\x01");
            asked = Some(cluster.to_owned());
            Some(1)
        };
        assert_eq!(exchanger.send(turn, now, callout), None);
    }
    asked
}

#[test]
fn answer_has_parts_and_the_time_of_the_next_report() {
    let (turn, exchanger) = (ExchangeTurn::new(), exchanger(&["plane"]));
    assert_eq!(begin(&exchanger, &turn, ms(0)).as_deref(), Some("plane"));
    assert!(!exchanger.write(&turn, ms(700), || panic!("one at a time")).is_written);
    assert_eq!(exchanger.send(&turn, ms(700), |_, _| panic!("nothing is written")), None);
    let body = body(parts(3).encode_to_vec());
    let (head, tail) = body.split_at(4);
    assert_eq!(good(&[&body], |response| exchanger.answered(&turn, &2, response, ms(700))), None, "a review's");
    let ended = good(&[head, tail], |response| exchanger.answered(&turn, &1, response, ms(700)));
    assert_eq!(ended, Some(ExchangeEnd { parts: Some(parts(3)), next: ms(800), failure: None }));
    assert_eq!(good(&[&body], |response| exchanger.answered(&turn, &1, response, ms(700))), None, "it has ended");
    assert_eq!(begin(&exchanger, &turn, ms(799)), None);
    assert!(begin(&exchanger, &turn, ms(800)).is_some());
}

#[test]
fn process_without_shared_limits_sends_nothing() {
    let (turn, exchanger) = (ExchangeTurn::new(), exchanger(&["plane"]));
    assert_eq!(exchanger.write(&turn, ms(0), Vec::new), Written { is_written: false, next: ms(1_000) });
    assert!(!exchanger.write(&turn, ms(999), || vec![1]).is_written);
    assert!(begin(&exchanger, &turn, ms(1_000)).is_some());
}

#[test]
fn configurations_of_a_process_exchange_one_at_a_time() {
    let turn = ExchangeTurn::new();
    let (one, other) = (exchanger(&["plane"]), exchanger(&["plane"]));
    assert!(begin(&one, &turn, ms(0)).is_some());
    assert_eq!(begin(&other, &turn, ms(1_399)), None);
    one.give_up(&turn);
    assert!(begin(&other, &turn, ms(1_399)).is_some(), "the one that had the turn went");
    one.give_up(&turn);
    assert_eq!(begin(&one, &turn, ms(1_400)), None, "it had nothing to give up");
    let looked = ms(1_399) + PAUSE;
    assert_eq!(begin(&one, &turn, looked), None);
    let looked = looked + PAUSE;
    assert!(
        looked - ms(1_399) < LEASE && begin(&one, &turn, looked).is_some(),
        "a turn that is lost ends before the lease"
    );
}

/// The Envoy cluster that is asked, its status, its gRPC status and its body; the pause after it, and the line in the log.
type ExchangeRow<'a> = (&'a str, u16, Option<u16>, &'a [u8], u64, Option<&'a str>);

#[test]
fn control_plane_that_gives_nothing_is_followed_by_the_next() {
    let (turn, exchanger) = (ExchangeTurn::new(), exchanger(&["a", "b"]));
    let (acknowledged, divided) = (body(Vec::new()), body(parts(1).encode_to_vec()));
    let refused = "it was refused";
    let table: [ExchangeRow<'_>; 11] = [
        ("a", 200, None, &acknowledged, 250, None),
        ("b", 200, None, &divided, 100, None),
        ("b", 503, None, b"down", 250, None),
        ("a", 503, None, b"down", 250, Some("\"a\": HTTP status 503")),
        ("b", 503, None, b"down", 250, None),
        ("a", 0, None, b"", 250, Some("no answer came")),
        ("b", 200, Some(8), b"", 250, Some("gRPC status 8")),
        ("a", 200, None, b"", 250, Some(refused)),
        ("b", 200, None, &body(vec![0xff]), 250, None),
        ("a", 200, None, &divided, 100, None),
        ("a", 200, Some(0), &divided, 100, None),
    ];
    let mut now = ms(0);
    for (cluster, status, grpc_status, body, pause, failure) in table {
        assert_eq!(begin(&exchanger, &turn, now).as_deref(), Some(cluster), "{now:?}");
        let response = ExchangeResponse { status, grpc_status, chunks: &[body] };
        let ended = exchanger.answered(&turn, &1, response, now).unwrap();
        assert_eq!((ended.next, ended.parts.is_some()), (now + ms(pause), pause == 100), "{now:?}");
        let line = ended.failure.unwrap_or_default();
        assert!(failure.map_or(line.is_empty(), |failure| line.contains(failure)), "{now:?}: {line}");
        now = ended.next;
    }
}

#[test]
fn response_that_is_too_long_is_not_read() {
    let (turn, exchanger) = (ExchangeTurn::new(), exchanger(&["plane"]));
    let mut message = parts(1);
    message.columns.resize(MAX_RESPONSE, 0);
    let long = body(message.encode_to_vec());
    begin(&exchanger, &turn, ms(0));
    let ended = good(&[&long], |response| exchanger.answered(&turn, &1, response, ms(0))).unwrap();
    assert_eq!((ended.parts, ended.failure.is_some()), (None, true));
}

#[test]
fn exchange_that_is_not_begun_or_answered_at_once_ends() {
    let (turn, exchanger) = (ExchangeTurn::new(), exchanger(&["plane"]));
    assert!(exchanger.write(&turn, ms(0), || vec![1]).is_written);
    let ended = exchanger.send(&turn, ms(0), |_, _| None).unwrap();
    assert_eq!((ended.parts, ended.next), (None, ms(250)));
    assert!(ended.failure.unwrap().contains("there is no Envoy cluster"));
    let divided = body(parts(1).encode_to_vec());
    let answer = |id: u32, now| good(&[&divided], |response| exchanger.answered(&turn, &id, response, now));
    // Of another callout, and of this one, before its id is known.
    for (id, now, is_own) in [(8, ms(250), false), (9, ms(10_000), true)] {
        assert!(exchanger.write(&turn, now, || vec![1]).is_written);
        let at_once = |_: &str, _: &[u8]| {
            assert_eq!(answer(id, now), None, "it is not known yet");
            Some(9)
        };
        assert_eq!(exchanger.send(&turn, now, at_once).is_some(), is_own);
    }
    assert_eq!(answer(9, ms(10_000)), None, "it has ended");
}
