use super::*;

const NOW: u64 = 1_700_000_000;

fn now() -> Timestamp {
    Timestamp::from_seconds(NOW)
}

fn later() -> Timestamp {
    Timestamp::from_seconds(NOW + 60)
}

fn good<'a>() -> Acceptance<'a> {
    Acceptance { accepted: true, reason: "Accepted", ..Acceptance::default() }
}

fn refused() -> GatewayProgress {
    GatewayProgress::Refused { message: "no such cipher".to_owned() }
}

fn gateway(name: &str, progress: GatewayProgress, health: Option<(u32, u32)>) -> Gateway<'_> {
    let health = health.map(|(healthy, total)| Health { healthy, total, unhealthy: Vec::new() });
    Gateway { name, progress, health, lost_subsets: Vec::new() }
}

fn seen<'a>(served: Served, gateways: Vec<Gateway<'a>>) -> StatusInput<'a> {
    let acceptance = match served {
        Served::Newest => good(),
        _ => Acceptance { reason: "Invalid", message: "spec.servers: is empty", ..Acceptance::default() },
    };
    StatusInput { acceptance, generation: Some(4), served, content_hash: "c0ffee", gateways, ..StatusInput::default() }
}

fn told_of(seen: &StatusInput<'_>, kind: ConditionType) -> (State, String, String) {
    let status = ClusterStatus::of(seen, &[], &now());
    let condition = status.condition(kind).unwrap().clone();
    (condition.status, condition.reason, condition.message)
}

fn row(state: State, reason: &str, message: &str) -> (State, String, String) {
    (state, reason.to_owned(), message.to_owned())
}

#[test]
fn accepted_is_what_translation_says() {
    let warnings = ["a".to_owned(), "b".to_owned()];
    let conflict = "the name x belongs to the UpstreamCluster y";
    let table = [
        (good(), row(State::True, "Accepted", "")),
        (Acceptance { warnings: &warnings, ..good() }, row(State::True, "Accepted", "warning: a; warning: b")),
        (
            Acceptance { reason: "Conflicted", message: conflict, ..Acceptance::default() },
            row(State::False, "Conflicted", conflict),
        ),
        (
            Acceptance { reason: "Invalid", message: "bad", warnings: &warnings[..1], ..Acceptance::default() },
            row(State::False, "Invalid", "bad; warning: a"),
        ),
    ];
    for (acceptance, expected) in table {
        let seen = StatusInput { acceptance, ..StatusInput::default() };
        assert_eq!(told_of(&seen, ConditionType::Accepted), expected);
    }
}

#[test]
fn programmed_is_what_the_gateways_acknowledged() {
    use GatewayProgress::{Acknowledged, Pending};
    let one = |progress| vec![gateway("a", progress, None)];
    let both = |first, second| vec![gateway("a", first, None), gateway("b", second, None)];
    let older = "the version that was accepted last (generation 3) is served, content c0ffee";
    let table = [
        (
            seen(Served::Nothing, one(Acknowledged)),
            row(State::False, "NotAccepted", "it is not served, because it is not accepted"),
        ),
        (
            seen(Served::Newest, Vec::new()),
            row(State::False, "NoGateways", "generation 4, content c0ffee: no gateway is connected"),
        ),
        (
            seen(Served::Newest, one(Acknowledged)),
            row(State::True, "Programmed", "generation 4, content c0ffee: acknowledged by 1 gateway (a)"),
        ),
        (
            seen(Served::Newest, both(Acknowledged, Pending)),
            row(State::False, "Pending", "generation 4, content c0ffee: waiting for 1 gateway (b)"),
        ),
        (
            seen(Served::Newest, both(Pending, refused())),
            row(
                State::False,
                "Refused",
                "generation 4, content c0ffee: refused by 1 of 2 (b), which keeps what it had: no such cipher",
            ),
        ),
        (
            seen(Served::Older(Some(3)), both(Acknowledged, Acknowledged)),
            row(State::False, "OlderVersion", &format!("{older}: acknowledged by 2 gateways (a, b)")),
        ),
        (
            seen(Served::Older(Some(3)), both(Acknowledged, Pending)),
            row(State::False, "Pending", &format!("{older}: waiting for 1 gateway (b)")),
        ),
        (
            seen(Served::Newest, both(Acknowledged, GatewayProgress::Elsewhere)),
            row(
                State::True,
                "Programmed",
                "generation 4, content c0ffee: acknowledged by 1 gateway (a); not known of 1 gateway of other replicas (b)",
            ),
        ),
        (
            seen(Served::Newest, one(GatewayProgress::Elsewhere)),
            row(
                State::Unknown,
                "OtherReplicas",
                "generation 4, content c0ffee: no gateway is connected to the replica that writes this; \
                 not known of 1 gateway of other replicas (a)",
            ),
        ),
        (
            StatusInput { generation: None, ..seen(Served::Newest, both(Acknowledged, Acknowledged)) },
            row(State::True, "Programmed", "content c0ffee: acknowledged by 2 gateways (a, b)"),
        ),
    ];
    for (seen, expected) in table {
        assert_eq!(told_of(&seen, ConditionType::Programmed), expected);
    }
}

#[test]
fn ready_is_what_the_gateways_find_healthy() {
    let of = |reports: &[Option<(u32, u32)>]| {
        let names = ["a", "b", "c"];
        let gateways = names.iter().zip(reports).map(|(name, health)| gateway(name, GatewayProgress::Pending, *health));
        seen(Served::Newest, gateways.collect())
    };
    let unknown = row(State::Unknown, "NoReport", "no gateway reports the health of its endpoints");
    let table = [
        (of(&[]), unknown.clone()),
        (of(&[None, None]), unknown),
        (of(&[Some((3, 3)), None]), row(State::True, "EndpointsHealthy", "every endpoint is healthy at 1 gateway")),
        (
            of(&[Some((3, 3)), Some((1, 3)), Some((2, 3))]),
            row(State::True, "SomeUnhealthy", "some endpoints are not healthy at 2 of 3 gateways; b has 1 of 3"),
        ),
        (
            of(&[Some((3, 3)), Some((0, 3))]),
            row(State::False, "NoHealthyEndpoints", "no endpoint is healthy at 1 of 2 gateways (b)"),
        ),
        (
            // It is proposed, and where one gateway alone has no server it would close the others.
            of(&[Some((0, 3)), Some((0, 3))]),
            row(
                State::False,
                "NoHealthyEndpoints",
                "no endpoint is healthy at 2 of 2 gateways (a, b); to bring them back without all clients at once: \
                 portcullis freeze --stage heartbeats",
            ),
        ),
        (of(&[Some((0, 0))]), row(State::False, "NoHealthyEndpoints", "no server is enabled")),
        (
            seen(Served::Nothing, vec![gateway("a", GatewayProgress::Acknowledged, Some((1, 1)))]),
            row(State::False, "NotAccepted", "it is not served, because it is not accepted"),
        ),
    ];
    for (seen, expected) in table {
        assert_eq!(told_of(&seen, ConditionType::Ready), expected);
    }
}

#[test]
fn unhealthy_servers_are_named_and_a_lost_subset_is_not_ready() {
    let server = |server: &str, reason: &str, since| UnhealthyServer {
        server: server.to_owned(),
        reason: reason.to_owned(),
        since: Timestamp::from_seconds(since),
    };
    let (slow, gone) = (server("10.0.0.1:1", "HealthCheckTimedOut", 60), server("10.0.0.2:1", "Ejected", 120));
    let health = |healthy, total, unhealthy: &[&UnhealthyServer]| Health {
        healthy,
        total,
        unhealthy: unhealthy.iter().map(|one| (*one).clone()).collect(),
    };
    let of = |all: Health, lost: &[Health]| {
        let healthy = gateway("a", GatewayProgress::Acknowledged, Some((3, 3)));
        let lame = Gateway {
            health: Some(all),
            lost_subsets: lost.to_vec(),
            ..gateway("b", GatewayProgress::Acknowledged, None)
        };
        seen(Served::Newest, vec![healthy, lame])
    };
    let timed_out = "10.0.0.1:1 (HealthCheckTimedOut since 1970-01-01T00:01:00Z, at 1 of 2 gateways)";
    let ejected = "10.0.0.2:1 (Ejected since 1970-01-01T00:02:00Z, at 1 of 2 gateways)";
    let some = of(health(1, 3, &[&slow, &gone]), &[]);
    let message =
        format!("some endpoints are not healthy at 1 of 2 gateways; b has 1 of 3; unhealthy: {timed_out}, {ejected}");
    assert_eq!(told_of(&some, ConditionType::Ready), row(State::True, "SomeUnhealthy", &message));
    let none = of(health(0, 1, &[&slow]), &[health(0, 1, &[&slow])]);
    let message = format!("no endpoint is healthy at 1 of 2 gateways (b): {timed_out}");
    assert_eq!(told_of(&none, ConditionType::Ready), row(State::False, "NoHealthyEndpoints", &message));
    // The pool of the subset makes checks of its own, so that it may find out before the others.
    let later = UnhealthyServer { since: Timestamp::from_seconds(70), ..slow.clone() };
    let subset = of(health(2, 3, &[&later]), &[health(0, 1, &[&slow])]);
    let message = format!("no server of a policy's upstreamSubset is healthy at 1 of 2 gateways (b): {timed_out}");
    assert_eq!(told_of(&subset, ConditionType::Ready), row(State::False, "SubsetUnhealthy", &message));
    let status = ClusterStatus::of(&subset, &[], &now());
    let listed: Vec<_> = status.gateways.iter().map(|one| one.unhealthy.clone()).collect();
    assert_eq!(listed, [vec![], vec![slow]], "each server once, since it was first unhealthy");
}

#[test]
fn unhealthy_servers_of_all_gateways_are_merged_by_name() {
    let server = |server: &str, reason: &str, since| UnhealthyServer {
        server: server.to_owned(),
        reason: reason.to_owned(),
        since: Timestamp::from_seconds(since),
    };
    let finds = |name, healthy, unhealthy| Gateway {
        health: Some(Health { healthy, total: 3, unhealthy }),
        ..gateway(name, GatewayProgress::Acknowledged, None)
    };
    let (early, late) = (server("10.0.0.1:1", "Ejected", 60), server("10.0.0.1:1", "HealthCheckFailed", 90));
    let other = server("10.0.0.2:1", "NotChecked", 70);
    let seen = seen(
        Served::Newest,
        vec![finds("a", 2, vec![late]), finds("b", 1, vec![early, other]), finds("c", 3, Vec::new())],
    );
    let message = "some endpoints are not healthy at 2 of 3 gateways; b has 1 of 3; unhealthy: \
                   10.0.0.1:1 (Ejected since 1970-01-01T00:01:00Z, at 2 of 3 gateways), \
                   10.0.0.2:1 (NotChecked since 1970-01-01T00:01:10Z, at 1 of 3 gateways)";
    assert_eq!(told_of(&seen, ConditionType::Ready), row(State::True, "SomeUnhealthy", message));
}

#[test]
fn subset_without_an_enabled_server_is_not_ready() {
    let all = gateway("a", GatewayProgress::Acknowledged, Some((3, 3)));
    let seen = seen(Served::Newest, vec![Gateway { lost_subsets: vec![Health::default()], ..all }]);
    let message = "no server of a policy's upstreamSubset is enabled";
    assert_eq!(told_of(&seen, ConditionType::Ready), row(State::False, "SubsetUnhealthy", message));
}

#[test]
fn time_moves_only_when_the_status_flips() {
    let ready = |health| seen(Served::Newest, vec![gateway("a", GatewayProgress::Acknowledged, Some(health))]);
    let first = ClusterStatus::of(&ready((3, 3)), &[], &now());
    let same = ClusterStatus::of(&ready((3, 3)), &first.conditions, &later());
    assert_eq!(first, same, "nothing but time has changed");
    let newer = StatusInput { generation: Some(5), ..ready((2, 3)) };
    let other = ClusterStatus::of(&newer, &first.conditions, &later());
    assert_eq!(other.observed_generation, Some(5));
    for (before, after) in first.conditions.iter().zip(&other.conditions) {
        assert_eq!(after.last_transition_time, before.last_transition_time, "another reason is no transition");
        assert_eq!(after.observed_generation, Some(5));
    }
    let down = ClusterStatus::of(&ready((0, 3)), &first.conditions, &later());
    let times: Vec<_> = down.conditions.iter().map(|one| one.last_transition_time.clone()).collect();
    assert_eq!(times, [now(), now(), later()]);
}

#[test]
fn gateways_are_listed_up_to_a_bound_the_worst_first() {
    let names: Vec<String> = (0..40).map(|n| format!("envoy-{n:02}")).collect();
    let mut gateways: Vec<_> = names.iter().map(|name| gateway(name, GatewayProgress::Acknowledged, None)).collect();
    gateways[30].progress = refused();
    gateways[20].progress = GatewayProgress::Pending;
    // A node that reconnects has two streams for a moment.
    gateways.push(gateway("envoy-20", GatewayProgress::Acknowledged, None));
    let status = ClusterStatus::of(&seen(Served::Newest, gateways), &[], &now());
    let listed: Vec<&str> = status.gateways.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(listed[..3], ["envoy-30", "envoy-20", "envoy-00"]);
    assert_eq!((listed.len(), status.more_gateways), (MAX_GATEWAYS, 40 - 16));
    let all = GatewayProgress::Acknowledged;
    let gateways = names.iter().map(|name| gateway(name, all.clone(), None)).collect();
    let (_, _, message) = told_of(&seen(Served::Newest, gateways), ConditionType::Programmed);
    assert!(message.ends_with("40 gateways (envoy-00, envoy-01, envoy-02, envoy-03 and 36 more)"), "{message}");
}

#[test]
fn envoys_message_is_bounded_and_holds_no_key() {
    let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "canary".repeat(20));
    let message = format!("{key} {}", "no ".repeat(2_000));
    let progress = GatewayProgress::Refused { message };
    let status = ClusterStatus::of(&seen(Served::Newest, vec![gateway("a", progress, None)]), &[], &now());
    let written = serde_json::to_string(&status).unwrap();
    assert!(!written.contains("canary"), "{written}");
    assert!(status.conditions.iter().all(|one| one.message.chars().count() <= MAX_MESSAGE));
    assert!(written.len() < 4 * MAX_MESSAGE, "{}", written.len());
}

#[test]
fn status_is_written_as_kubernetes_has_it() {
    let status = ClusterStatus::of(&seen(Served::Newest, vec![gateway("a", refused(), Some((1, 3)))]), &[], &now());
    let written = serde_json::to_value(&status).unwrap();
    assert_eq!(
        written["conditions"][0],
        serde_json::json!({
            "type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
            "lastTransitionTime": "2023-11-14T22:13:20Z", "observedGeneration": 4,
        })
    );
    assert_eq!(
        written["gateways"][0],
        serde_json::json!({
            "name": "a", "state": "Refused", "message": "no such cipher", "healthyEndpoints": 1, "endpoints": 3,
        })
    );
    assert_eq!((&written["observedGeneration"], &written["contentHash"]), (&4.into(), &"c0ffee".into()));
    assert_eq!(serde_json::from_value::<ClusterStatus>(written).unwrap(), status);
}

/// A reader may wait for the condition of the generation that it wrote.
#[test]
fn condition_of_an_older_shadow_is_not_of_the_newest() {
    let shadow = |served| StatusInput {
        shadow: Some(ShadowFacts { gateways: 1, judged: 30, ..ShadowFacts::default() }),
        ..seen(served, vec![gateway("a", GatewayProgress::Acknowledged, None)])
    };
    let text = "no difference among 20+ requests, by reports of 1 gateway";
    let older = format!("the version that was accepted last (generation 3) is served: {text}");
    let table = [
        (Served::Newest, row(State::False, "NoDifference", text)),
        (Served::Older(Some(3)), row(State::Unknown, "OlderVersion", &older)),
    ];
    for (served, expected) in table {
        assert_eq!(told_of(&shadow(served), ConditionType::ShadowDiffers), expected);
    }
}

#[test]
fn gateways_that_do_not_report_are_numbered() {
    let gateways = ["a", "a", "b", "c"].map(|name| gateway(name, GatewayProgress::Acknowledged, None));
    let table = [(1, "1 of 3 gateways"), (3, "3 gateways"), (4, "4 gateways")];
    for (reporting, words) in table {
        let shadow = Some(ShadowFacts { gateways: reporting, judged: 10, ..ShadowFacts::default() });
        let seen = StatusInput { shadow, ..seen(Served::Newest, gateways.to_vec()) };
        let message = format!("no difference among 10+ requests, by reports of {words}");
        assert_eq!(told_of(&seen, ConditionType::ShadowDiffers), row(State::False, "NoDifference", &message));
    }
}
