mod certificates;
mod counted;
mod denied;
mod doors;
mod drain;
mod expelled;
pub(super) mod fair;
mod loads;
mod shadow;
mod talkers;

use std::time::Duration;

use portcullis_filter_config::{
    FilterConfig, PeerSource, RequestHeaders, RequestInfoExport, Reviews, Servers, UpstreamIdentity, names,
};

use super::wait::MAX_ROUNDS;
use super::*;
use crate::gateway::tests::reviews::{asked, reviewing_with, token_of};
use crate::gateway::tests::{Fixture, POD, fixture, fixture_with};
use crate::local_token::tests::{Signer, pod_claims};
use crate::long_streams::TerminationReason;
use crate::refusal::Cause;
use crate::review::{Review, ReviewResult};
use crate::testing::{self, issue, now};
use crate::x509::hex_digest;

pub(super) type Proxy = MemoryHost<fn(&Review) -> ReviewResult>;

/// A request of alice's with these headers.
pub(super) fn proxy(fixture: &Fixture, target: &str, more: &[(&str, &str)]) -> Proxy {
    let usual = [(":method", "GET"), (":path", target), (":authority", "prod.example.com")];
    let headers = usual.iter().chain(more);
    let headers = headers.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
    let reviewer = |review: &Review| {
        let (status, body) = token_of("robot");
        review.accept_answer(status, body.as_bytes(), Duration::ZERO)
    };
    let mut host = MemoryHost::new(headers, now(), Duration::ZERO, reviewer as fn(&Review) -> ReviewResult);
    host.chain = Some(testing::encode(&[&issue(testing::alice(), &fixture.ca)]));
    host
}

fn values(host: &Proxy, name: &str) -> Vec<String> {
    let lines = host.headers.iter().filter(|(line, _)| line == name.as_bytes());
    lines.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
}

/// The request's first hook.
pub(super) fn begin(fixture: &Fixture, host: &mut Proxy) -> (Exchange<()>, Next) {
    let mut exchange = Exchange::default();
    let next = exchange.request_headers(&fixture.gateway, Some(&fixture.route), host);
    (exchange, next)
}

const WATCH: &str = "/api/v1/pods?watch=1";
pub(super) const EXEC: &str = "/api/v1/namespaces/n/pods/a/exec?command=sh";
pub(super) const UPGRADE: [(&str, &str); 2] = [("connection", "Upgrade"), ("upgrade", "websocket")];

#[test]
fn request_goes_upstream_as_its_user() {
    let fixture = fixture();
    let forged = [("impersonate_user", "root"), ("x-remote-user", "root"), ("authorization", "Basic eA==")];
    let mut host = proxy(&fixture, POD, &forged);
    let (mut exchange, next) = begin(&fixture, &mut host);
    assert_eq!((next, host.destination.as_deref()), (Next::Continue, Some("all.h2.read")));
    assert_eq!(values(&host, "impersonate-user"), ["alice"]);
    assert!(forged.iter().all(|(name, _)| values(&host, name).is_empty()));
    host.status = Some("200");
    assert_eq!(exchange.response_headers(&mut host), Next::Continue);
    exchange.complete(&mut host);
    assert_eq!(host.effects, ["count cluster forwarded -"]);
}

/// Of several lines only the last is at hand, which may be one that a client wrote before the proxy.
#[test]
fn known_chain_names_nobody_in_several_header_lines() {
    const HEADER: &str = "x-forwarded-client-cert";
    let mut fixture = fixture();
    let forwarded = PeerSource::ForwardedClientCert;
    fixture.gateway = Gateway::compile(&FilterConfig { peer_source: forwarded, ..FilterConfig::new("lab") }).unwrap();
    let leaf = issue(testing::alice(), &fixture.ca);
    let line = format!("Chain=\"{}\"", testing::escaped_pem(&leaf));
    let mut host = proxy(&fixture, POD, &[(HEADER, &line)]);
    host.digest = Some(hex_digest(&leaf).to_vec());
    begin(&fixture, &mut host);
    assert_eq!(values(&host, "impersonate-user"), ["alice"]);
    for lines in [[(HEADER, &*line), (HEADER, &*line)], [(HEADER, ""), (HEADER, &*line)]] {
        let mut again = proxy(&fixture, POD, &lines);
        again.digest.clone_from(&host.digest);
        again.known_chains.swap(&host.known_chains);
        begin(&fixture, &mut again);
        again.known_chains.swap(&host.known_chains);
        assert_eq!(again.destination, None);
        assert!(again.reply.as_ref().is_some_and(|reply| reply.code >= 400), "{:?}", again.reply);
    }
}

/// Whatever the proxy refuses, nothing goes upstream, and no route is open.
#[test]
fn request_ends_where_the_proxy_refuses_an_edit() {
    let fixture = fixture_with(|config| {
        config.request_info = Some(RequestInfoExport { user: true, ..RequestInfoExport::default() })
    });
    let exported = "portcullis.request.verb";
    let sent = [("authorization", "Bearer a"), ("impersonate_user", "root"), ("connection", "x-secret")];
    for refused in [
        "authorization",
        "impersonate_user",
        "x-secret",
        "connection",
        "impersonate-user",
        exported,
        names::DESTINATION,
    ] {
        let mut host = proxy(&fixture, POD, &sent);
        host.refuses = Some(refused.as_bytes().to_vec());
        let (mut exchange, next) = begin(&fixture, &mut host);
        assert_eq!((next, &host.destination), (Next::Stop, &None), "{refused}");
        assert_eq!(host.reply.as_ref().map(|reply| reply.cause), Some(Cause::Internal), "{refused}");
        assert_eq!(host.effects, ["count cluster refused internal"], "{refused}");
        assert_eq!(exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host), Next::Stop);
    }
    let mut host = proxy(&fixture, POD, &sent);
    assert_eq!(begin(&fixture, &mut host).1, Next::Continue, "and else it goes");
}

/// The access log is written after the filter: a refused request has no credential in it either.
#[test]
fn refused_request_loses_what_no_client_may_send() {
    let fixture = fixture();
    let sent = [("via", "1.1 lab"), ("authorization", "Bearer a"), ("x-remote-user", "root")];
    let mut host = proxy(&fixture, POD, &sent);
    assert_eq!(begin(&fixture, &mut host).1, Next::Stop);
    assert_eq!(host.reply.as_ref().map(|reply| reply.cause), Some(Cause::Loop));
    assert!(values(&host, "authorization").is_empty() && values(&host, "x-remote-user").is_empty());
}

#[test]
fn request_without_clock_or_configuration_fails_closed() {
    let fixture = fixture();
    let mut host = proxy(&fixture, POD, &[]);
    host.moment = None;
    assert_eq!(begin(&fixture, &mut host).1, Next::Stop);
    assert_eq!(host.reply.map(|reply| reply.cause), Some(Cause::Internal));
    assert_eq!(host.effects, ["count cluster refused internal"]);
    let mut host = proxy(&fixture, POD, &[("impersonate-user", "root")]);
    let next = Exchange::default().request_headers(&fixture.gateway, None, &mut host);
    assert_eq!((next, host.reply.as_ref().map(|reply| reply.cause)), (Next::Stop, Some(Cause::NotConfigured)));
    assert!(values(&host, "impersonate-user").is_empty());
}

#[test]
fn grpc_request_is_reset_and_never_answered() {
    let fixture = fixture();
    let mut host = proxy(&fixture, POD, &[("via", "1.1 lab"), ("content-type", "application/grpc+proto")]);
    assert_eq!(begin(&fixture, &mut host).1, Next::Stop);
    assert_eq!((host.reply.is_none(), host.effects[1].as_str()), (true, "reset portcullis_loop"));
}

#[test]
fn request_is_unchanged_while_reviews_are_under_way() {
    let fixture = reviewing_with(|_| {});
    let mut host = proxy(&fixture, POD, &[("authorization", "Bearer abc"), ("x-remote-user", "root")]);
    host.chain = None;
    let before = host.headers.clone();
    let (mut exchange, next) = begin(&fixture, &mut host);
    assert_eq!((next, host.headers == before, host.effects.len()), (Next::Pause, true, 0));
    let next = exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host);
    assert_eq!((next, values(&host, "impersonate-user")), (Next::Continue, vec!["robot".to_owned()]));
    assert_eq!(host.effects, ["count cluster forwarded -", "continue"]);
}

#[test]
fn request_goes_on_while_its_token_is_checked() {
    let signer = Signer::new();
    let fixture = fixture_with(|config| {
        config.reviews = Some(Reviews { revocation_check_seconds: Some(60), ..asked(None) });
        config.token_issuers = vec![signer.issuer()];
    });
    let authorization = format!("Bearer {}", signer.sign(&pod_claims(now().as_secs())));
    let request = |reviewer: fn(&Review) -> ReviewResult| {
        let mut host = proxy(&fixture, POD, &[("authorization", &authorization)]);
        (host.chain, host.reviewer) = (None, reviewer);
        let (_, next) = begin(&fixture, &mut host);
        (next, host.effects.clone(), host.reply.map(|reply| reply.code))
    };
    let reject = |review: &Review| {
        let body = r#"{"kind":"TokenReview","status":{"authenticated":false}}"#;
        review.accept_answer(201, body.as_bytes(), Duration::ZERO)
    };
    let effects = ["ask aside", "count cluster forwarded -"].map(str::to_owned);
    assert_eq!(request(reject), (Next::Continue, effects.to_vec(), None), "the answer is for the next one");
    let (next, effects, _) = request(reject);
    assert!(next == Next::Pause && !effects.contains(&"ask aside".to_owned()), "it waits: {effects:?}");
    let (next, _, code) = request(|_| panic!("the rejection is remembered"));
    assert_eq!((next, code), (Next::Stop, Some(401)));
}

#[test]
fn lost_answers_end_a_request_after_its_rounds() {
    let fixture = reviewing_with(|_| {});
    let mut host = proxy(&fixture, POD, &[("authorization", "Bearer abc")]);
    (host.chain, host.loses_answers) = (None, true);
    host.reviewer = |_| ReviewResult::Failed;
    let (mut exchange, mut next) = begin(&fixture, &mut host);
    let mut rounds = 0;
    while next == Next::Pause {
        rounds += 1;
        next = exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host);
    }
    assert_eq!((rounds, host.reply.map(|reply| reply.code), host.destination), (MAX_ROUNDS, Some(503), None));
}

#[test]
fn unauthorized_gateway_is_not_the_clients_fault() {
    let fixture = fixture();
    let table = [(POD, Some("401"), Next::Stop), (POD, Some("403"), Next::Continue), (POD, None, Next::Continue)];
    let proxied = "/api/v1/nodes/n/proxy/";
    for (target, status, expected) in table.into_iter().chain([(proxied, Some("401"), Next::Continue)]) {
        let mut host = proxy(&fixture, target, &[]);
        let (mut exchange, _) = begin(&fixture, &mut host);
        host.status = status;
        assert_eq!(exchange.response_headers(&mut host), expected, "{target} {status:?}");
        let replaced = host.effects.iter().any(|effect| effect.starts_with("count cluster replaced"));
        assert_eq!((replaced, host.reply.is_some()), (expected == Next::Stop, expected == Next::Stop), "{target}");
        assert_eq!(exchange.response_headers(&mut host), Next::Continue, "the gateway's own answer stays");
    }
}

#[test]
fn request_that_the_proxy_answered_is_counted_once() {
    let mut host = proxy(&fixture(), POD, &[]);
    let mut exchange = Exchange::default();
    exchange.response_headers(&mut host);
    exchange.note_unseen_request(&mut host);
    exchange.complete(&mut host);
    assert_eq!(host.effects.len(), 2, "{:?}", host.effects);
    assert_eq!(host.effects[0], "count unrouted refused malformed");
    assert!(host.effects[1].contains(r#""reason":"malformed""#), "{:?}", host.effects);
}

#[test]
fn request_that_failed_closed_is_not_malformed() {
    let mut host = proxy(&fixture(), POD, &[]);
    let mut exchange = Exchange::default();
    exchange.fail_closed(&mut host);
    exchange.note_unseen_request(&mut host);
    exchange.complete(&mut host);
    assert_eq!((host.effects.len(), &*host.effects[0]), (2, "count unrouted refused internal"), "{:?}", host.effects);
    assert!(host.effects[1].contains(r#""reason":"internal""#), "{:?}", host.effects);
}

#[test]
fn upgrade_body_waits_for_the_101() {
    let fixture = fixture();
    for (status, expected) in [("101", true), ("403", false), ("200", false)] {
        let mut host = proxy(&fixture, EXEC, &UPGRADE);
        let (mut exchange, next) = begin(&fixture, &mut host);
        assert_eq!((next, host.destination.as_deref()), (Next::Continue, Some("all.upgrade.session")));
        assert_eq!(values(&host, "connection"), ["Upgrade"]);
        assert_eq!(exchange.request_body(), Next::Pause);
        host.status = Some(status);
        assert_eq!(exchange.response_headers(&mut host), Next::Continue);
        assert_eq!(host.effects.contains(&"continue".to_owned()), expected, "{status}");
        assert_eq!(exchange.request_body() == Next::Continue, expected, "{status}");
    }
}

#[test]
fn long_streams_end_when_their_server_is_removed() {
    let table = [(WATCH, &[][..], "200", "finish"), (EXEC, &UPGRADE[..], "101", "reset portcullis_server_removed")];
    for (target, headers, status, end) in table {
        let fixture = fixture_with(|config| {
            config.servers = Some(Servers { names: vec!["b".into()], drain_seconds: 60 });
        });
        let mut host = proxy(&fixture, target, headers);
        let (mut exchange, _) = begin(&fixture, &mut host);
        assert!(exchange.long_stream().is_none(), "its server is not known");
        (host.status, host.server) = (Some(status), Some("a".to_owned()));
        exchange.response_headers(&mut host);
        assert!(exchange.long_stream().is_some() && host.effects.contains(&"call at 60".to_owned()), "{target}");
        let due = std::cell::Cell::new(None);
        fixture.route.streams.expire(Duration::from_secs(60), |(), why| due.set(Some(why)));
        assert_eq!(due.get(), Some(TerminationReason::ServerRemoved));
        exchange.terminate(TerminationReason::ServerRemoved, &mut host);
        exchange.terminate(TerminationReason::ServerRemoved, &mut host);
        let ended = host.effects.iter().filter(|effect| *effect == end || effect.contains("ended server_removed"));
        assert_eq!(ended.count(), 2, "once: {:?}", host.effects);
    }
    let fixture = fixture();
    let mut host = proxy(&fixture, POD, &[]);
    let (mut exchange, _) = begin(&fixture, &mut host);
    host.server = Some("a".to_owned());
    exchange.response_headers(&mut host);
    exchange.terminate(TerminationReason::ServerRemoved, &mut host);
    assert_eq!(host.effects, ["count cluster forwarded -"], "a request that ends by itself is left alone");
}

#[test]
fn reserved_trailers_never_go_on() {
    let fixture = fixture_with(|config| {
        let reserved = RequestHeaders { reserved: vec!["legacy-".into()], ..RequestHeaders::default() };
        config.upstream_identity = UpstreamIdentity::RequestHeader(reserved);
    });
    let trailers = |host: &mut Proxy| {
        let names = ["impersonate-group", "x_remote_user", "legacy-user", "checksum"];
        host.trailers = names.iter().map(|name| (name.as_bytes().to_vec(), b"root".to_vec())).collect();
    };
    let mut host = proxy(&fixture, POD, &[]);
    let (mut exchange, _) = begin(&fixture, &mut host);
    trailers(&mut host);
    assert_eq!(exchange.request_trailers(&fixture.gateway, Some(&fixture.route), &mut host), Next::Continue);
    assert_eq!(host.trailers, [(b"checksum".to_vec(), b"root".to_vec())]);
    trailers(&mut host);
    host.refuses = Some(b"legacy-user".to_vec());
    assert_eq!(exchange.request_trailers(&fixture.gateway, Some(&fixture.route), &mut host), Next::Stop);
    assert_eq!(host.effects.last().map(String::as_str), Some("reset portcullis_internal"));
}

#[test]
fn permit_is_given_back_with_the_stream() {
    use portcullis_filter_config::{FlowControlLimit, FlowControlSchema};
    let fixture = fixture_with(|config| {
        let limit = FlowControlLimit::MaxRequestsInflight(1);
        config.flow_control_schemas = vec![FlowControlSchema::local("few", limit)];
    });
    let secrets = || proxy(&fixture, "/api/v1/secrets", &[]);
    let mut host = secrets();
    let (mut first, next) = begin(&fixture, &mut host);
    assert_eq!(next, Next::Continue);
    let mut refused = secrets();
    assert_eq!(begin(&fixture, &mut refused).1, Next::Stop);
    assert_eq!(refused.reply.map(|reply| reply.code), Some(429));
    first.complete(&mut host);
    assert!(host.effects.contains(&"gauges".to_owned()));
    let (dropped, next) = begin(&fixture, &mut secrets());
    assert_eq!(next, Next::Continue);
    drop(dropped);
    assert_eq!(begin(&fixture, &mut secrets()).1, Next::Continue, "however the stream ends");
}

/// A host that calls too often must not have a request decided again: what it presented is removed by then, and it would go on as
/// another user, or as none.
#[test]
fn forwarded_request_is_never_decided_again() {
    let fixture = fixture();
    let mut host = proxy(&fixture, POD, &[]);
    let (mut exchange, next) = begin(&fixture, &mut host);
    assert_eq!(next, Next::Continue);
    (host.chain, host.destination) = (None, None);
    let (before, effects) = (host.headers.clone(), host.effects.clone());
    assert_eq!(exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host), Next::Pause);
    assert_eq!((&host.headers, &host.effects, &host.destination), (&before, &effects, &None));
    let mut fresh = proxy(&fixture, POD, &[]);
    let next = Exchange::default().resume(&fixture.gateway, Some(&fixture.route), &mut fresh);
    assert_eq!((next, fresh.destination), (Next::Pause, None), "nor before its headers have come");
}

/// Envoy lets the headers go on with the first piece of a body that does.
#[test]
fn body_and_trailers_of_an_unforwarded_request_never_go_on() {
    let body_and_trailers = |exchange: &mut Exchange<()>, fixture: &Fixture, host: &mut Proxy| {
        let body = exchange.request_body();
        (body, exchange.request_trailers(&fixture.gateway, Some(&fixture.route), host))
    };
    let kept = (Next::Pause, Next::Stop);
    let closed = fixture_with(|config| config.deny_all_requests = true);
    let mut host = proxy(&closed, POD, &[]);
    let (mut refused, next) = begin(&closed, &mut host);
    assert_eq!((next, body_and_trailers(&mut refused, &closed, &mut host)), (Next::Stop, kept), "refused");
    let reviewing = reviewing_with(|_| {});
    let mut host = proxy(&reviewing, POD, &[("authorization", "Bearer abc")]);
    host.chain = None;
    let (mut waiting, next) = begin(&reviewing, &mut host);
    assert_eq!((next, body_and_trailers(&mut waiting, &reviewing, &mut host)), (Next::Pause, kept), "waits");
    let fixture = fixture();
    let mut host = proxy(&fixture, POD, &[]);
    assert_eq!(body_and_trailers(&mut Exchange::default(), &fixture, &mut host), kept, "not seen");
    let (mut failed, _) = begin(&fixture, &mut host);
    failed.fail_closed(&mut host);
    assert_eq!(body_and_trailers(&mut failed, &fixture, &mut host), kept, "failed");
    let mut host = proxy(&fixture, POD, &[]);
    let (mut forwarded, _) = begin(&fixture, &mut host);
    let goes_on = (Next::Continue, Next::Continue);
    assert_eq!(body_and_trailers(&mut forwarded, &fixture, &mut host), goes_on, "and of a forwarded one do");
}
