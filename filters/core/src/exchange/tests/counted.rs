//! Counts and log lines of a request, once it has ended.

use super::*;

/// Lets the proxy's clocks show that many milliseconds.
fn at(host: &mut Proxy, milliseconds: u64) {
    host.moment = Some(Moment { now: now(), uptime: Duration::from_millis(milliseconds) });
}

#[test]
fn answer_counts_with_its_server_and_its_times() {
    let fixture = fixture();
    let mut host = proxy(&fixture, POD, &[]);
    at(&mut host, 1_000);
    let (mut exchange, _) = begin(&fixture, &mut host);
    let running = || fixture.route.cluster.series().gauges().into_iter().find(|(_, labels, _)| labels[1] == "readOnly");
    assert_eq!(running().unwrap().2, 1);
    (host.status, host.server) = (Some("404"), Some("a:6443".to_owned()));
    at(&mut host, 1_200);
    assert_eq!(exchange.response_headers(&mut host), Next::Continue);
    at(&mut host, 1_500);
    exchange.complete(&mut host);
    assert_eq!(*host.responses.borrow(), ["cluster 404 a:6443 [Some(500), Some(200)]"]);
    assert_eq!(running().unwrap().2, 0);
}

#[test]
fn long_running_request_counts_with_the_time_to_its_headers() {
    let fixture = fixture();
    let mut host = proxy(&fixture, WATCH, &[]);
    let (mut exchange, _) = begin(&fixture, &mut host);
    let metrics = fixture.route.cluster.series();
    let watches =
        || metrics.gauges().into_iter().filter(|(metric, ..)| metric.name == "apiserver_longrunning_requests");
    let labels = ["prod.example.com", "WATCH", "pods", "", "cluster"];
    assert_eq!(
        watches().map(|(_, labels, count)| (labels, count)).collect::<Vec<_>>(),
        [(labels.map(str::to_owned).to_vec(), 1)]
    );
    (host.status, host.server) = (Some("200"), Some("a:6443".to_owned()));
    at(&mut host, 30);
    assert_eq!(exchange.response_headers(&mut host), Next::Continue);
    at(&mut host, 600_000);
    exchange.complete(&mut host);
    assert_eq!(*host.responses.borrow(), ["cluster 200 a:6443 [Some(30), Some(30)]"]);
    assert_eq!(watches().count(), 0);
}

#[test]
fn request_counts_that_no_server_answered() {
    let fixture = fixture();
    let mut host = proxy(&fixture, POD, &[("via", "1.1 lab")]);
    begin(&fixture, &mut host).0.complete(&mut host);
    assert_eq!(*host.responses.borrow(), ["cluster 508 - [None, None]"], "refused");

    let mut host = proxy(&fixture, POD, &[]);
    let (mut exchange, _) = begin(&fixture, &mut host);
    at(&mut host, 70);
    exchange.complete(&mut host);
    assert_eq!(*host.responses.borrow(), ["cluster 0 missing [Some(70), None]"], "the client left");

    let mut host = proxy(&fixture, POD, &[]);
    host.status = Some("400");
    let mut exchange = Exchange::<()>::default();
    assert_eq!(exchange.response_headers(&mut host), Next::Continue);
    exchange.complete(&mut host);
    assert_eq!(*host.responses.borrow(), ["unrouted 400 - [None, None]"], "Envoy answered before the filter");
}

/// Lines of the access log.
fn lines(host: &Proxy) -> Vec<serde_json::Value> {
    let lines = host.effects.iter().filter_map(|effect| effect.strip_prefix("log "));
    lines.map(|members| serde_json::from_str(&format!("{{{members}}}")).unwrap()).collect()
}

#[test]
fn slow_and_failed_requests_have_lines_with_their_phases() {
    let fixture = fixture_with(|config| {
        config.log_slow_milliseconds = Some(5_000);
        config.log_failed = true;
    });
    // When the answer begins and when it ends, its status, and the reason for a line with the longest phase.
    let table = [
        ("/api/v1/pods", 100, 4_999, "200", None),
        ("/api/v1/pods", 4_000, 5_000, "200", Some(("slow", "server", 4_000, 1_000))),
        ("/api/v1/pods", 100, 7_000, "200", Some(("slow", "answer", 100, 6_900))),
        ("/api/v1/pods", 100, 150, "503", Some(("failed", "server", 100, 50))),
        (WATCH, 100, 600_000, "200", None),
        (WATCH, 9_000, 600_000, "200", Some(("slow", "server", 9_000, 0))),
    ];
    for (target, answered, ended, status, expected) in table {
        let mut host = proxy(&fixture, target, &[("user-agent", "kubectl"), ("x-request-id", "7")]);
        let (mut exchange, _) = begin(&fixture, &mut host);
        (host.status, host.server) = (Some(status), Some("a:6443".to_owned()));
        at(&mut host, answered);
        exchange.response_headers(&mut host);
        at(&mut host, ended);
        exchange.complete(&mut host);
        let lines = lines(&host);
        assert_eq!(lines.len(), usize::from(expected.is_some()), "{target} {answered} {ended} {status}");
        for (line, (why, phase, server, answer)) in lines.iter().zip(expected) {
            assert_eq!((&line["conspicuous"], &line["longestPhase"]), (&why.into(), &phase.into()), "{line}");
            assert_eq!((&line["serverMs"], &line["answerMs"]), (&server.into(), &answer.into()), "{line}");
            assert_eq!(
                (&line["user"], &line["resource"], &line["requestId"]),
                (&"alice".into(), &"pods".into(), &"7".into())
            );
            assert_eq!((&line["userAgent"], &line["decision"]), (&"kubectl".into(), &"forwarded".into()), "{line}");
        }
    }
}

/// A request that pauses for a review.
fn waiting(fixture: &Fixture) -> (Proxy, Exchange<()>) {
    let mut host = proxy(fixture, "/api/v1/pods", &[("authorization", "Bearer abc"), ("user-agent", "kubectl")]);
    host.chain = None;
    let (exchange, next) = begin(fixture, &mut host);
    assert_eq!(next, Next::Pause);
    (host, exchange)
}

#[test]
fn request_that_leaves_amid_a_review_counts_for_its_cluster() {
    let fixture = reviewing_with(|config| config.log_refused = true);
    let (mut host, mut exchange) = waiting(&fixture);
    exchange.complete(&mut host);
    assert_eq!(host.effects[0], "count cluster abandoned client_left");
    assert_eq!(*host.responses.borrow(), ["cluster 0 - [None, None]"]);
    let lines = lines(&host);
    let expected = ["prod.example.com", "abandoned", "client_left", "pods", "kubectl"];
    let found = ["cluster", "decision", "reason", "resource", "userAgent"].map(|name| lines[0][name].clone());
    assert_eq!((lines.len(), found), (1, expected.map(Into::into)));

    let (mut host, mut exchange) = waiting(&reviewing_with(|_| {}));
    exchange.complete(&mut host);
    assert_eq!(host.effects, ["count cluster abandoned client_left"], "no line is asked for");
    let fixture = fixture_with(|config| config.close_connections = true);
    let mut host = proxy(&fixture, POD, &[]);
    host.drains = true;
    let (mut exchange, _) = begin(&fixture, &mut host);
    exchange.complete(&mut host);
    assert_eq!(host.effects, ["count cluster abandoned client_left"], "it waits for its connection");
}

#[test]
fn server_without_a_name_is_a_server() {
    let fixture = fixture();
    for (target, counted) in [(WATCH, "[Some(30), Some(30)]"), (POD, "[Some(600000), Some(30)]")] {
        let mut host = proxy(&fixture, target, &[]);
        let (mut exchange, _) = begin(&fixture, &mut host);
        (host.status, host.address) = (Some("200"), Some("10.0.0.1:6443"));
        at(&mut host, 30);
        assert_eq!(exchange.response_headers(&mut host), Next::Continue);
        assert_eq!(exchange.long_stream().is_some(), target == WATCH, "denials end it");
        at(&mut host, 600_000);
        exchange.complete(&mut host);
        assert_eq!(*host.responses.borrow(), [format!("cluster 200 unnamed {counted}")], "{target}");
    }
}

#[test]
fn requests_of_strangers_are_never_slow() {
    let [open, closed] = [true, false].map(|anonymous| {
        fixture_with(|config| {
            (config.log_slow_milliseconds, config.log_failed, config.allow_anonymous) = (Some(5_000), true, anonymous);
        })
    });
    let run = |fixture: &Fixture, more: &[(&str, &str)], is_alice: bool, status: &'static str| {
        let mut host = proxy(fixture, "/api/v1/pods", more);
        host.chain = host.chain.filter(|_| is_alice);
        let (mut exchange, next) = begin(fixture, &mut host);
        (host.status, host.address) = (Some(status), Some("10.0.0.1:6443").filter(|_| next == Next::Continue));
        at(&mut host, 600_000);
        exchange.complete(&mut host);
        (next, lines(&host).len())
    };
    assert_eq!(run(&open, &[], true, "200"), (Next::Continue, 1));
    assert_eq!(run(&open, &[], false, "200"), (Next::Continue, 0), "anonymous");
    assert_eq!(run(&closed, &[], false, "401"), (Next::Stop, 0), "it may not read the answer for hours");
    assert_eq!(
        run(&open, &[("via", "1.1 lab")], true, "508"),
        (Next::Stop, 1),
        "a failure is one, whatever its client"
    );
    assert_eq!(run(&open, &[], false, "503"), (Next::Continue, 1));
}

/// Long-running requests end with the time of their headers, of any second.
#[test]
fn lines_of_long_running_requests_count_in_the_present_second() {
    let fixture = fixture_with(|config| config.log_failed = true);
    let mut written = 0;
    for number in 0..150 {
        let mut host = proxy(&fixture, WATCH, &[]);
        let (mut exchange, _) = begin(&fixture, &mut host);
        (host.status, host.address) = (Some("503"), Some("10.0.0.1:6443"));
        at(&mut host, (number * 7_919 % 150) * 1_000);
        exchange.response_headers(&mut host);
        at(&mut host, 500_000);
        exchange.complete(&mut host);
        written += lines(&host).len();
    }
    assert_eq!(written, 100);
}
