use portcullis_filter_config::{FlowControlLimit, FlowControlSchema, Policy, Rebalance, RebalanceConditions, Rule};

use super::*;

#[test]
fn connection_is_drained_before_its_request_is_decided() {
    let fixture = fixture_with(|config| config.close_connections = true);
    let mut host = proxy(&fixture, POD, &[]);
    host.drains = true;
    let (mut exchange, next) = begin(&fixture, &mut host);
    assert_eq!((next, &host.destination), (Next::Pause, &None));
    assert_eq!(exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host), Next::Continue);
    assert_eq!(host.effects, ["drain", "count cluster forwarded -", "continue"]);
    let mut cannot = proxy(&fixture, POD, &[]);
    assert_eq!(begin(&fixture, &mut cannot).1, Next::Continue, "where a proxy cannot, requests go on all the same");
}

/// A cluster whose requests are all hits, beyond a limit where `max` is 0.
fn rebalancing(max: u32, when: Option<RebalanceConditions>) -> Fixture {
    fixture_with(|config| {
        config.rebalance = Some(Rebalance { chance_per_million: 1, connections_per_second: 10, when });
        let limit = FlowControlLimit::MaxRequestsInflight(max);
        config.flow_control_schemas = vec![FlowControlSchema::local("few", limit)];
        let all = || vec!["*".to_owned()];
        let rule = Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() };
        let (group, flow_control_schema) = ("all".into(), Some("few".into()));
        config.policies = vec![Policy { group, flow_control_schema, log: false, deny: None, rules: vec![rule] }].into();
    })
}

fn hit(fixture: &Fixture, target: &str, headers: &[(&str, &str)]) -> Proxy {
    let mut host = proxy(fixture, target, headers);
    (host.drains, host.random) = (true, 0);
    host
}

#[test]
fn forwarded_request_goes_on_while_its_connection_is_drained() {
    let fixture = rebalancing(9, None);
    for (seconds, target) in [(1, POD), (2, WATCH)] {
        let mut host = hit(&fixture, target, &[]);
        host.moment = host.moment.map(|moment| Moment { uptime: Duration::from_secs(seconds), ..moment });
        let (mut exchange, next) = begin(&fixture, &mut host);
        assert_eq!((next, host.destination.is_some()), (Next::Continue, true), "{target}");
        assert_eq!(host.effects, ["count cluster forwarded -"]);
        assert_eq!(exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host), Next::Pause);
        assert_eq!(exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host), Next::Pause, "once");
        assert_eq!(host.effects, ["count cluster forwarded -", "drain"], "and nothing goes on twice");
        host.status = Some("200");
        assert_eq!(exchange.response_headers(&mut host), Next::Continue);
        exchange.complete(&mut host);
    }
}

#[test]
fn limited_request_is_answered_after_its_connection_is_drained() {
    let fixture = rebalancing(0, Some(RebalanceConditions { on_limited: true, ..RebalanceConditions::default() }));
    let mut host = hit(&fixture, POD, &[]);
    let (mut exchange, next) = begin(&fixture, &mut host);
    assert_eq!((next, host.reply.is_none(), exchange.request_body()), (Next::Pause, true, Next::Pause));
    assert_eq!(exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host), Next::Stop);
    assert_eq!(host.reply.as_ref().map(|reply| (reply.code, reply.cause)), Some((429, Cause::FlowControl)));
    assert_eq!(host.effects, ["count cluster refused flow_control", "drain"]);
    assert_eq!(exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host), Next::Stop);
    assert_eq!(host.effects.len(), 2, "once");
}

/// Neither one who is turned away, nor a request of which nothing was drawn, nor one that has its connection for itself.
#[test]
fn other_requests_drain_no_connection() {
    let limited = || Some(RebalanceConditions { on_limited: true, ..RebalanceConditions::default() });
    let never = |fixture: &Fixture, mut host: Proxy, next: Next, case: &str| {
        let (mut exchange, first) = begin(fixture, &mut host);
        assert_eq!(first, next, "{case}");
        exchange.resume(&fixture.gateway, Some(&fixture.route), &mut host);
        assert!(!host.effects.contains(&"drain".to_owned()), "{case}: {:?}", host.effects);
    };
    let plain = rebalancing(9, None);
    never(&plain, hit(&plain, EXEC, &UPGRADE), Next::Continue, "an upgrade");
    never(&plain, hit(&plain, POD, &[("via", "1.1 lab")]), Next::Stop, "a loop");
    let mut stranger = hit(&plain, POD, &[("authorization", "Bearer x")]);
    stranger.chain = None;
    never(&plain, stranger, Next::Stop, "a stranger");
    let mut miss = hit(&plain, POD, &[]);
    miss.random = u64::MAX;
    never(&plain, miss, Next::Continue, "a miss");
    let mut cannot = hit(&plain, POD, &[]);
    cannot.drains = false;
    never(&plain, cannot, Next::Continue, "a proxy that cannot");
    let full = rebalancing(0, Some(RebalanceConditions { in_flight: Some(0), ..RebalanceConditions::default() }));
    never(&full, hit(&full, POD, &[]), Next::Stop, "a limit that is no condition");
    let free = rebalancing(9, limited());
    never(&free, hit(&free, POD, &[]), Next::Continue, "a request below the limit");
}
