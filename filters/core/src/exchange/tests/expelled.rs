//! Streams of an edition that has to go: reset once, in every state, and never decided afterwards.

use super::*;

const RESET: &str = "reset portcullis_configuration_replaced";

fn expel(fixture: &Fixture, exchange: &mut Exchange<()>, host: &mut Proxy, counted: &str) {
    for _ in 0..2 {
        exchange.terminate(TerminationReason::ConfigurationReplaced, host);
    }
    let resets = host.effects.iter().filter(|effect| *effect == RESET).count();
    let counts = host.effects.iter().filter(|effect| effect.starts_with("count ")).cloned().collect::<Vec<_>>();
    assert_eq!((resets, counts.last().map(String::as_str)), (1, Some(counted)), "{:?}", host.effects);
    let (destination, before) = (host.destination.clone(), host.effects.len());
    assert_eq!(exchange.resume(&fixture.gateway, Some(&fixture.route), host), Next::Stop);
    assert_eq!(exchange.request_body(), Next::Pause);
    assert_eq!((&host.destination, host.effects.len()), (&destination, before), "nothing follows");
    exchange.complete(host);
    let later = host.effects.iter().filter(|effect| effect.starts_with("count ")).count();
    assert_eq!(later, counts.len(), "counted once");
}

const ENDED: &str = "count cluster ended configuration_replaced";

#[test]
fn stream_without_response_is_reset() {
    let fixture = fixture();
    for target in [POD, WATCH] {
        let mut host = proxy(&fixture, target, &[]);
        let (mut exchange, next) = begin(&fixture, &mut host);
        assert_eq!(next, Next::Continue);
        expel(&fixture, &mut exchange, &mut host, ENDED);
    }
}

#[test]
fn stream_with_a_response_is_reset_also_after_its_end() {
    let fixture = fixture();
    for (target, was_finished) in [(POD, false), (WATCH, false), (WATCH, true)] {
        let mut host = proxy(&fixture, target, &[]);
        let (mut exchange, _) = begin(&fixture, &mut host);
        (host.status, host.server) = (Some("200"), Some("a".to_owned()));
        exchange.response_headers(&mut host);
        if was_finished {
            exchange.terminate(TerminationReason::ServerRemoved, &mut host);
            assert!(host.effects.contains(&"finish".to_owned()), "and its client does not read");
        }
        expel(&fixture, &mut exchange, &mut host, ENDED);
    }
}

#[test]
fn answered_stream_is_reset_and_keeps_its_outcome() {
    let fixture = fixture();
    let mut host = proxy(&fixture, POD, &[("via", "1.1 lab")]);
    let (mut exchange, _) = begin(&fixture, &mut host);
    assert!(host.reply.is_some());
    expel(&fixture, &mut exchange, &mut host, "count cluster refused loop");
}

#[test]
fn stream_that_waits_is_reset_without_a_decision() {
    let fixture = fixture_with(|config| config.close_connections = true);
    let mut host = proxy(&fixture, POD, &[]);
    host.drains = true;
    let (mut exchange, next) = begin(&fixture, &mut host);
    assert_eq!((next, &host.destination), (Next::Pause, &None));
    expel(&fixture, &mut exchange, &mut host, ENDED);
}
