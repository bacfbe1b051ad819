use std::sync::Arc;

use portcullis_filter_config::{FilterConfig, SpanSettings};

use super::super::tests::fair::queueing;
use super::super::tests::{EXEC, Proxy, UPGRADE, begin, proxy};
use super::super::{Gateway, Next};
use crate::gateway::tests::reviews::reviewing_with;
use crate::gateway::tests::{Fixture, POD, fixture, fixture_with};
use crate::long_streams::TerminationReason;

const SAMPLED: (&str, &str) = ("x-request-id", "3f1b0c9a-77a2-90aa-8a52-000000000000");
const UNSAMPLED: (&str, &str) = ("x-request-id", "3f1b0c9a-77a2-40aa-8a52-000000000000");

/// The fixture in a gateway that describes spans.
fn describing(fixture: Fixture, users: bool) -> Fixture {
    let config =
        FilterConfig { tracing: Some(SpanSettings { users, ..SpanSettings::default() }), ..FilterConfig::new("lab") };
    Fixture { gateway: Gateway::compile(&config).unwrap(), ..fixture }
}

fn says(host: &Proxy, line: &str) -> bool {
    host.span.iter().any(|one| one == line)
}

#[test]
fn span_is_described_if_the_request_is_sampled() {
    let described = describing(fixture(), false);
    let mut host = proxy(&described, "/api/v1/namespaces/n/pods/a?token=secret", &[SAMPLED]);
    assert_eq!(begin(&described, &mut host).1, Next::Continue);
    assert_eq!(
        host.span,
        [
            "name GET pods",
            "portcullis.verb get",
            "portcullis.api_version v1",
            "portcullis.resource pods",
            "portcullis.namespace n",
            "portcullis.name a",
            "portcullis.policy 1",
            "portcullis.schema -",
            "portcullis.server_group all",
            "url.path /api/v1/namespaces/n/pods/a",
            "portcullis.cluster prod.example.com",
            "portcullis.decision forwarded",
            "portcullis.reason -",
        ]
    );
    for (request, gateway) in [(UNSAMPLED, &described), (SAMPLED, &fixture())] {
        let mut host = proxy(gateway, POD, &[request]);
        begin(gateway, &mut host);
        assert!(host.span.is_empty(), "{:?}", host.span);
    }
}

#[test]
fn span_names_users_if_it_is_to() {
    let described = describing(fixture(), true);
    let mut host = proxy(&described, POD, &[SAMPLED]);
    begin(&described, &mut host);
    assert!(says(&host, "portcullis.user alice"), "{:?}", host.span);
    assert!(!host.span.iter().any(|line| line.starts_with("portcullis.impersonated_user")), "{:?}", host.span);
}

#[test]
fn attributes_of_envoys_own_are_cut_before_a_wait() {
    let fixture = describing(reviewing_with(|_| {}), false);
    let agent = "a".repeat(300);
    let headers = [
        ("authorization", "Bearer good"),
        SAMPLED,
        ("user-agent", agent.as_str()),
        ("content-type", "application/grpc+proto"),
    ];
    let mut host = proxy(&fixture, &format!("{POD}?token=secret"), &headers);
    host.chain = None;
    begin(&fixture, &mut host);
    let cut = format!("user_agent {}…", "a".repeat(253));
    assert_eq!(host.span, [cut, format!("grpc.path {POD}"), "wait for 1 TokenReview".to_owned()]);
    let mut plain = proxy(&fixture, POD, &[SAMPLED, ("user-agent", "kubectl"), ("content-type", "application/json")]);
    begin(&fixture, &mut plain);
    assert!(!plain.span.iter().any(|line| line.starts_with("user_agent") || line.starts_with("grpc")));
}

#[test]
fn attributes_of_envoys_own_are_cut_before_a_wait_for_a_seat() {
    let fixture = describing(fixture_with(|config| queueing(config, 1)), false);
    let agent = "a".repeat(300);
    let headers = [SAMPLED, ("user-agent", agent.as_str()), ("content-type", "application/grpc+proto")];
    let mut hosts: [Proxy; 2] = std::array::from_fn(|_| {
        let mut host = proxy(&fixture, &format!("{POD}?token=secret"), &headers);
        host.woken = Some(Arc::default());
        host
    });
    let [_running, (_, next)] = hosts.each_mut().map(|host| begin(&fixture, host));
    assert_eq!(next, Next::Pause);
    assert_eq!(hosts[1].span, [format!("user_agent {}…", "a".repeat(253)), format!("grpc.path {POD}")]);
}

#[test]
fn span_of_a_refused_request_says_why() {
    let described = describing(fixture_with(|config| config.policies = Vec::new().into()), true);
    for (target, more, reason) in [
        (POD, &[SAMPLED][..], "portcullis.reason no_policy"),
        ("/a%", &[SAMPLED], "portcullis.reason bad_request"),
        (POD, &[SAMPLED, ("via", "1.1 lab")], "portcullis.reason loop"),
    ] {
        let mut host = proxy(&described, target, more);
        assert_eq!(begin(&described, &mut host).1, Next::Stop, "{target}");
        assert!(says(&host, "portcullis.decision refused") && says(&host, reason), "{target}: {:?}", host.span);
    }
    let mut unrouted = proxy(&described, POD, &[SAMPLED]);
    let next = super::Exchange::default().request_headers(&described.gateway, None, &mut unrouted);
    assert_eq!((next, unrouted.span.len()), (Next::Stop, 2), "{:?}", unrouted.span);
    let mut broken = proxy(&described, POD, &[SAMPLED]);
    broken.moment = None;
    begin(&described, &mut broken);
    assert!(says(&broken, "portcullis.reason internal"), "{:?}", broken.span);
}

#[test]
fn wait_for_reviews_is_a_span_that_always_ends() {
    let fixture = describing(reviewing_with(|_| {}), true);
    let bearer = [("authorization", "Bearer good"), SAMPLED];
    let mut host = proxy(&fixture, POD, &bearer);
    host.chain = None;
    let (mut exchange, next) = begin(&fixture, &mut host);
    assert_eq!((next, host.span.as_slice()), (Next::Pause, &["wait for 1 TokenReview".to_owned()][..]));
    let later = std::time::Duration::from_millis(250);
    host.moment = host.moment.map(|moment| crate::Moment { uptime: moment.uptime + later, ..moment });
    assert_eq!(exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host), Next::Continue);
    assert_eq!(host.span[1], "waited");
    assert!(says(&host, "portcullis.review_wait_ms 250") && says(&host, "portcullis.user robot"), "{:?}", host.span);

    let mut left = proxy(&fixture, POD, &[("authorization", "Bearer other"), SAMPLED]);
    left.chain = None;
    let (mut exchange, _) = begin(&fixture, &mut left);
    exchange.complete(&mut left);
    assert_eq!(left.span, ["wait for 1 TokenReview", "waited"]);
    let mut unsampled = proxy(&fixture, POD, &[("authorization", "Bearer third"), UNSAMPLED]);
    unsampled.chain = None;
    begin(&fixture, &mut unsampled);
    assert!(unsampled.span.is_empty());
}

#[test]
fn review_joins_no_trace_that_may_not_be_sampled() {
    let fixture = reviewing_with(|_| {});
    let tracing = Some(SpanSettings { trusted_parents: true, ..SpanSettings::default() });
    let config = FilterConfig { tracing, ..FilterConfig::new("lab") };
    let fixture = Fixture { gateway: Gateway::compile(&config).unwrap(), ..fixture };
    let parent = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    for (token, more, wait) in [
        ("Bearer good", &[SAMPLED][..], "wait for 1 TokenReview apart from the trace"),
        ("Bearer other", &[SAMPLED, parent], "wait for 1 TokenReview"),
    ] {
        let headers: Vec<_> = [("authorization", token)].into_iter().chain(more.iter().copied()).collect();
        let mut host = proxy(&fixture, POD, &headers);
        host.chain = None;
        begin(&fixture, &mut host);
        assert_eq!(host.span, [wait]);
    }
}

#[test]
fn span_says_what_became_of_a_forwarded_request() {
    let described = describing(fixture(), false);
    let mut host = proxy(&described, POD, &[SAMPLED]);
    let (mut exchange, _) = begin(&described, &mut host);
    host.status = Some("401");
    exchange.response_headers(&mut host);
    assert!(
        host.span.ends_with(&["portcullis.decision replaced".into(), "portcullis.reason gateway_credential".into()])
    );

    let described = describing(
        fixture_with(|config| {
            config.servers = Some(portcullis_filter_config::Servers { names: vec!["b".into()], drain_seconds: 60 });
        }),
        false,
    );
    let headers: Vec<_> = UPGRADE.into_iter().chain([SAMPLED]).collect();
    let mut host = proxy(&described, EXEC, &headers);
    let (mut exchange, _) = begin(&described, &mut host);
    (host.status, host.server) = (Some("101"), Some("a".to_owned()));
    exchange.response_headers(&mut host);
    exchange.terminate(TerminationReason::ServerRemoved, &mut host);
    assert!(host.span.ends_with(&["portcullis.decision ended".into(), "portcullis.reason server_removed".into()]));
}

#[test]
fn attributes_of_envoys_own_are_cut_before_a_connection_drains() {
    let fixture = describing(fixture_with(|config| config.close_connections = true), false);
    let headers = [SAMPLED, ("content-type", "application/grpc")];
    let mut host = proxy(&fixture, &format!("{POD}?token=secret"), &headers);
    host.drains = true;
    assert_eq!(begin(&fixture, &mut host).1, Next::Pause);
    assert_eq!(host.span, [format!("grpc.path {POD}")]);
}
