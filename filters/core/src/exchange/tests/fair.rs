use std::sync::atomic::{AtomicU32, Ordering};

use portcullis_filter_config::{ClusterConfig, FairQueueConfig, FlowDistinguisher, Policy, Rule};

use super::*;
use crate::fair::{Admission, FairQueue};
use crate::gateway::tests::plain_config;
use crate::long_streams::StreamOwners;
use crate::schedule::Task;
use crate::state_store::{ProcessState, StateStore};
use crate::testing::moment;

const PODS: &str = "/api/v1/pods?limit=1";

fn fair(max: u32) -> FairQueueConfig {
    FairQueueConfig {
        name: "fair".into(),
        max,
        queues: 8,
        hand_size: 2,
        queue_length: 1,
        timeout_milliseconds: 2_000,
        by: FlowDistinguisher::User,
        weights: vec![],
    }
}

pub(in crate::exchange) fn queueing(config: &mut ClusterConfig, max: u32) {
    config.fair_queues = vec![fair(max)];
    let all = || vec!["*".to_owned()];
    let rule = Rule { verbs: all(), api_groups: all(), resources: all(), non_resource_urls: all(), ..Rule::default() };
    let flow_control_schema = Some("fair".into());
    config.policies =
        vec![Policy { group: "all".into(), flow_control_schema, log: true, deny: None, rules: vec![rule] }].into();
}

fn site(max: u32) -> Fixture {
    fixture_with(|config| queueing(config, max))
}

/// The queues of a site: those of a seat that a request took.
fn queue_of(exchange: &Exchange<()>) -> Arc<FairQueue> {
    Arc::clone(exchange.seat.as_ref().unwrap().queue())
}

fn patient(fixture: &Fixture, target: &str) -> Proxy {
    let mut host = proxy(fixture, target, &[]);
    host.woken = Some(Arc::<AtomicU32>::default());
    host
}

fn at(host: &mut Proxy, milliseconds: u64) {
    host.moment = host.moment.map(|moment| Moment { uptime: Duration::from_millis(milliseconds), ..moment });
}

fn woken(host: &Proxy) -> u32 {
    host.woken.as_ref().unwrap().load(Ordering::Relaxed)
}

fn resume(fixture: &Fixture, exchange: &mut Exchange<()>, host: &mut Proxy) -> Next {
    exchange.resume(&fixture.gateway, Some(&fixture.route), host)
}

fn answer(host: &Proxy) -> Option<(u16, Cause, Option<u32>)> {
    host.reply.as_ref().map(|reply| (reply.code, reply.cause, reply.retry_after))
}

#[test]
fn request_waits_unchanged_and_goes_on_as_its_own_user() {
    let fixture = site(1);
    let (mut running, mut waiting) = (patient(&fixture, POD), patient(&fixture, POD));
    let (mut first, next) = begin(&fixture, &mut running);
    assert_eq!(next, Next::Continue);
    let queue = queue_of(&first);
    let (mut second, next) = begin(&fixture, &mut waiting);
    let before = patient(&fixture, POD).headers.len();
    assert_eq!((next, &waiting.destination, waiting.headers.len()), (Next::Pause, &None, before));
    assert_eq!(second.request_body(), Next::Pause);
    assert_eq!(resume(&fixture, &mut second, &mut waiting), Next::Pause, "woken for nothing");
    assert_eq!((queue.taken(), queue.waiting(), woken(&waiting)), (1, 1, 0));
    first.complete(&mut running);
    assert_eq!((queue.taken(), queue.waiting(), woken(&waiting)), (1, 0, 1));
    at(&mut waiting, 250);
    assert_eq!(resume(&fixture, &mut second, &mut waiting), Next::Continue);
    assert_eq!(values(&waiting, "impersonate-user"), ["alice"]);
    assert!(waiting.effects.contains(&"queued 250".to_owned()), "{:?}", waiting.effects);
    assert_eq!(resume(&fixture, &mut second, &mut waiting), Next::Pause, "decided once");
    second.complete(&mut waiting);
    assert_eq!(queue.taken(), 0);
}

#[test]
fn full_queue_is_answered_429() {
    let fixture = site(1);
    let mut hosts: [Proxy; 4] = std::array::from_fn(|_| patient(&fixture, POD));
    let held: Vec<_> = hosts.iter_mut().map(|host| begin(&fixture, host)).collect();
    // One runs and two wait, one in each queue of the hand.
    assert_eq!(
        held.iter().map(|(_, next)| *next).collect::<Vec<_>>(),
        [Next::Continue, Next::Pause, Next::Pause, Next::Stop]
    );
    assert_eq!(answer(&hosts[3]), Some((429, Cause::QueueFull, Some(1))));
    let mut impatient = proxy(&fixture, "/api/v1/namespaces/n/events/a", &[]);
    assert_eq!(begin(&fixture, &mut impatient).1, Next::Stop, "a host on which no request waits");
    assert_eq!(answer(&impatient), Some((429, Cause::QueueFull, None)));
}

#[test]
fn request_that_waited_too_long_is_answered_429() {
    let fixture = site(1);
    let (mut running, mut waiting) = (patient(&fixture, POD), patient(&fixture, POD));
    let (first, _) = begin(&fixture, &mut running);
    let (mut second, _) = begin(&fixture, &mut waiting);
    assert!(waiting.effects.contains(&"expire at 2".to_owned()), "{:?}", waiting.effects);
    assert_eq!(queue_of(&first).run(Duration::from_secs(2)), None);
    assert_eq!(woken(&waiting), 1);
    at(&mut waiting, 2_000);
    assert_eq!(resume(&fixture, &mut second, &mut waiting), Next::Stop);
    assert_eq!(answer(&waiting), Some((429, Cause::QueueTimeout, Some(1))));
    assert_eq!((&waiting.destination, values(&waiting, "impersonate-user").len()), (&None, 0));
    let queue = queue_of(&first);
    second.complete(&mut waiting);
    assert_eq!((queue.taken(), queue.waiting()), (1, 0));
}

#[test]
fn request_without_a_timer_is_answered_and_the_next_one_asks() {
    let fixture = site(1);
    let (_first, _) = begin(&fixture, &mut patient(&fixture, POD));
    let (mut refused, mut waiting) = (patient(&fixture, POD), patient(&fixture, POD));
    refused.timer_fails = true;
    assert_eq!(begin(&fixture, &mut refused).1, Next::Stop, "it could wait forever");
    let (_second, next) = begin(&fixture, &mut waiting);
    assert_eq!(next, Next::Pause);
    assert!(waiting.effects.contains(&"expire at 2".to_owned()), "{:?}", waiting.effects);
}

#[test]
fn timeout_that_an_edit_makes_shorter_is_followed_at_once() {
    let fixture = site(1);
    let (first, _) = begin(&fixture, &mut patient(&fixture, POD));
    let (queue, mut hosts) = (queue_of(&first), [patient(&fixture, POD), patient(&fixture, POD)]);
    let [long, short] = &mut hosts;
    let (_second, next) = begin(&fixture, long);
    assert_eq!(next, Next::Pause);
    queue.configure(&FairQueueConfig { timeout_milliseconds: 1_000, ..fair(1) });
    let (mut third, next) = begin(&fixture, short);
    assert_eq!((next, short.effects.contains(&"expire at 1".to_owned())), (Next::Pause, true), "{:?}", short.effects);
    assert_eq!(queue.run(Duration::from_secs(1)), Some(Duration::from_secs(2)));
    assert_eq!((woken(long), woken(short)), (0, 1));
    assert_eq!(resume(&fixture, &mut third, short), Next::Stop);
}

#[test]
fn seat_that_a_request_needs_no_more_goes_back() {
    let fixture = site(1);
    let (mut first, _) = begin(&fixture, &mut patient(&fixture, POD));
    let queue = queue_of(&first);
    // Decided again, it is a session of another user.
    let mut host = proxy(&fixture, EXEC, &UPGRADE);
    let mut session = Exchange { admission: Admission::Seat(first.seat.take().unwrap()), ..Exchange::default() };
    assert_eq!(queue.taken(), 1);
    assert_eq!(session.request_headers(&fixture.gateway, Some(&fixture.route), &mut host), Next::Continue);
    assert_eq!((queue.taken(), session.seat.is_none()), (0, true), "and it runs for hours");
}

#[test]
fn client_that_leaves_the_queue_frees_its_place() {
    let fixture = site(1);
    let (mut running, mut waiting) = (patient(&fixture, POD), patient(&fixture, POD));
    let (first, _) = begin(&fixture, &mut running);
    let queue = queue_of(&first);
    let (mut second, _) = begin(&fixture, &mut waiting);
    second.complete(&mut waiting);
    assert_eq!((queue.taken(), queue.waiting()), (1, 0));
    assert!(waiting.effects.contains(&"count cluster abandoned client_left".to_owned()), "{:?}", waiting.effects);
    let (third, _) = begin(&fixture, &mut patient(&fixture, POD));
    drop(first);
    assert_eq!(queue.taken(), 1, "the next has its turn");
    drop(third);
    assert_eq!(queue.taken(), 0, "and gives it back, also where nothing completes it");
}

#[test]
fn watch_gives_its_seat_back_when_its_answer_begins() {
    let fixture = site(1);
    let (mut watching, mut waiting) = (patient(&fixture, WATCH), patient(&fixture, POD));
    let (mut watch, _) = begin(&fixture, &mut watching);
    let queue = queue_of(&watch);
    let (mut get, next) = begin(&fixture, &mut waiting);
    assert_eq!((next, queue.taken()), (Next::Pause, 1));
    watching.status = Some("200");
    assert_eq!(watch.response_headers(&mut watching), Next::Continue);
    assert_eq!(woken(&waiting), 1);
    assert_eq!(resume(&fixture, &mut get, &mut waiting), Next::Continue);
    waiting.status = Some("200");
    get.response_headers(&mut waiting);
    assert_eq!(queue.taken(), 1, "other requests keep theirs to their end");
    get.complete(&mut waiting);
    watch.complete(&mut watching);
    assert_eq!(queue.taken(), 0);
}

#[test]
fn sessions_probes_and_reviews_never_wait() {
    let fixture = site(1);
    let (first, _) = begin(&fixture, &mut patient(&fixture, PODS));
    let queue = queue_of(&first);
    for (method, target, headers) in [
        ("GET", EXEC, &UPGRADE[..]),
        ("GET", "/api/v1/namespaces/n/pods/a/log?follow=1", &[]),
        ("GET", "/readyz/etcd", &[]),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &[]),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &[]),
    ] {
        let mut host = proxy(&fixture, target, headers);
        host.headers[0].1 = method.as_bytes().to_vec();
        assert_eq!(begin(&fixture, &mut host).1, Next::Continue, "{target}");
    }
    for (method, target) in [
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a"),
        ("PATCH", "/api/v1/nodes/a/status"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("GET", "/readyzz"),
    ] {
        let mut host = proxy(&fixture, target, &[]);
        host.headers[0].1 = method.as_bytes().to_vec();
        assert_eq!(begin(&fixture, &mut host).1, Next::Stop, "{target}: alice is no node");
    }
    assert_eq!((queue.taken(), queue.waiting()), (1, 0));
}

/// The request is decided, and its route opened, by the edition that it came under.
#[test]
fn request_that_waits_survives_an_edit() {
    let state = ProcessState::default();
    let fixture = site(1);
    let compile = |max: u32, group: &str| {
        let mut config = plain_config(None);
        queueing(&mut config, max);
        config.client_ca = Some(fixture.ca.pem());
        let policies = config.policies.policies().into_owned();
        config.policies = policies.into_iter().map(|policy| Policy { group: group.into(), ..policy }).collect();
        let store = state.with_secret([1; 32]);
        assert!(store.totals("x").is_some());
        RouteConfig::<()>::compile(&config, &store, Arc::default(), 0).unwrap()
    };
    let (before, _) = compile(1, "old");
    let (mut running, mut waiting) = (patient(&fixture, POD), patient(&fixture, POD));
    let (mut first, mut second) = (Exchange::default(), Exchange::default());
    assert_eq!(first.request_headers(&fixture.gateway, Some(&before), &mut running), Next::Continue);
    assert_eq!(second.request_headers(&fixture.gateway, Some(&before), &mut waiting), Next::Pause);
    let (refused, update) = compile(3, "refused");
    drop(refused);
    assert!(update.apply(&StreamOwners::default(), moment(Duration::ZERO)).is_empty());
    let (after, update) = compile(2, "new");
    assert_eq!(woken(&waiting), 0, "the proxy may refuse it");
    let _ = update.apply(&StreamOwners::default(), moment(Duration::ZERO));
    assert_eq!(woken(&waiting), 1, "the edit gives a seat more");
    assert_eq!(second.resume(&fixture.gateway, Some(&before), &mut waiting), Next::Continue);
    assert_eq!(waiting.destination.as_deref(), Some("old.h2.read"));
    let mut third = patient(&fixture, POD);
    let mut exchange = Exchange::default();
    assert_eq!(exchange.request_headers(&fixture.gateway, Some(&after), &mut third), Next::Pause, "one queue for both");
    drop((first, second, before));
    assert_eq!(exchange.resume(&fixture.gateway, Some(&after), &mut third), Next::Continue);
    assert_eq!(third.destination.as_deref(), Some("new.h2.read"));
}

#[test]
fn seat_goes_back_when_the_answer_ends_and_not_when_it_is_read() {
    let fixture = site(1);
    let (mut running, mut waiting) = (patient(&fixture, POD), patient(&fixture, POD));
    let (mut first, _) = begin(&fixture, &mut running);
    let queue = queue_of(&first);
    let (_second, next) = begin(&fixture, &mut waiting);
    assert_eq!((next, woken(&waiting)), (Next::Pause, 0));
    first.response_headers(&mut running);
    assert_eq!((queue.taken(), woken(&waiting)), (1, 0), "the server still works on it");
    first.response_ended(&mut running);
    assert_eq!(woken(&waiting), 1, "the client may take its time");
    first.complete(&mut running);
    assert_eq!((queue.taken(), queue.waiting()), (1, 0), "the second one's");
}

#[test]
fn upgrade_that_a_server_may_ignore_needs_a_seat() {
    let fixture = site(1);
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")];
    for (path, status, needs, keeps) in [
        (PODS, "200", true, true),
        // An aggregated API may take it.
        ("/apis/vms.example.com/v1/namespaces/a/machines/m/console", "101", true, false),
        ("/api/v1/pods?watch=1", "101", true, false),
        ("/api/v1/pods?watch=1", "200", true, false),
        ("/api/v1/namespaces/a/pods/p/exec", "101", false, false),
    ] {
        let mut host = proxy(&fixture, path, &upgrade);
        host.status = Some(status);
        let (mut exchange, next) = begin(&fixture, &mut host);
        assert_eq!((next, exchange.seat.is_some()), (Next::Continue, needs), "{path}");
        exchange.response_headers(&mut host);
        assert_eq!(exchange.seat.is_some(), keeps, "{path}");
        exchange.complete(&mut host);
    }
}

#[test]
fn requests_take_as_many_seats_as_they_are_worth() {
    // A list has at most six of forty seats.
    let rows = [
        ("GET", "pods/a", 1),
        ("POST", "pods", 1),
        ("DELETE", "pods/a", 1),
        ("DELETE", "pods", 6),
        ("GET", "pods", 6),
        ("GET", "pods?limit=1", 1),
        ("GET", "pods?limit=100", 1),
        ("GET", "pods?limit=101", 2),
        ("GET", "pods?limit=500", 5),
        ("GET", "pods?limit=5000", 6),
        ("GET", "pods?limit=0", 6),
        ("GET", "pods?limit=1&limit=500", 1),
        ("GET", "pods?limit=1&resourceVersion=7", 1),
        ("GET", "pods?limit=1&resourceVersion=0", 6),
        ("GET", "pods?limit=1&labelSelector=app%3Da", 6),
        ("GET", "pods?limit=1&labelSelector=", 1),
        ("GET", "pods?limit=1&fieldSelector=status.phase%3DRunning", 6),
        ("GET", "pods?fieldSelector=metadata.name%3Da", 1),
        ("GET", "pods?fieldSelector=metadata.name%3Da&resourceVersion=0", 6),
        ("GET", "pods?watch=1&resourceVersion=7", 1),
        ("GET", "pods?watch=1", 6),
        ("GET", "pods?watch=1&resourceVersion=0", 6),
        ("GET", "pods?watch=1&resourceVersion=7&sendInitialEvents=true&allowWatchBookmarks=true", 6),
        ("GET", "pods?watch=1&resourceVersion=7&sendInitialEvents=false", 1),
    ];
    for (method, target, seats) in rows {
        let fixture = site(40);
        let mut host = patient(&fixture, &format!("/api/v1/namespaces/n/{target}"));
        host.headers[0].1 = method.as_bytes().to_vec();
        let (exchange, next) = begin(&fixture, &mut host);
        assert_eq!((next, queue_of(&exchange).taken()), (Next::Continue, seats), "{method} {target}");
    }
}
