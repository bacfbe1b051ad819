use clap::{Args, FromArgMatches};
use serde_json::json;

use super::*;

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 7,
    })
}

fn answer() -> Value {
    json!({
        "objects": [
            {"kind": "GatewaySettings", "name": "gateway", "accepted": true, "reason": "Accepted", "message": "",
             "warnings": [], "conditions": [condition("Accepted", "True", "Accepted", "")]},
            {"kind": "File", "name": "x.yaml", "at": "x.yaml:3", "accepted": false, "reason": "Invalid",
             "message": "no YAML", "warnings": [], "conditions": [condition("Accepted", "False", "Invalid", "no YAML")]},
            {"kind": "UpstreamCluster", "name": "good.test", "at": "good.yaml:1", "accepted": true, "reason": "Accepted",
             "message": "", "warnings": ["hardly meant"], "observedGeneration": 7, "contentHash": "0123456789abcdef",
             "conditions": [
                condition("Accepted", "True", "Accepted", "warning: hardly meant"),
                condition("Programmed", "True", "Programmed", "acknowledged"),
                condition("Ready", "Unknown", "NoReport", "nobody reports"),
             ],
             "gateways": [{"name": "envoy-0", "state": "Acknowledged", "healthyEndpoints": 1, "endpoints": 3,
                 "unhealthy": [{"server": "10.0.0.9:6443", "reason": "HealthCheckTimedOut", "since": "2026-01-02T03:04:05Z"}]}],
             "moreGateways": 2},
            {"kind": "UpstreamCluster", "name": "bad.test", "accepted": false, "reason": "Conflicted",
             "message": "the name a\u{1b}[2J belongs to b", "warnings": [], "newer": {"field": 1},
             "conditions": [condition("Accepted", "False", "Conflicted", "the name a belongs to b")]},
        ],
        "nodes": [
            {"id": "envoy-0", "connected": true, "inSync": true, "types": {}},
            {"id": "envoy-1", "connected": false, "inSync": false, "types": {}},
        ],
        "snapshot": "0123",
        "source": {"kind": "kubernetes", "staleSince": "2026-01-02T03:04:06Z", "reason": "no answer", "leader": true},
    })
}

fn report() -> StatusReport {
    serde_json::from_value(answer()).unwrap()
}

#[test]
fn table_is_as_kubectl_would_print_it() {
    let expected = "\
NAME        ACCEPTED   PROGRAMMED   READY     MESSAGE
good.test   True       True         Unknown   nobody reports
bad.test    False      -            -         the name a\u{fffd}[2J belongs to b

KIND   NAME       ACCEPTED   MESSAGE
File   x.yaml:3   False      no YAML

Gateways: 1 connected, 1 with everything acknowledged
The source is stale since 2026-01-02T03:04:06Z: no answer
";
    assert_eq!(text::table(&report(), false), expected);
    let wide = text::table(&report(), true);
    for found in ["Accepted,Programmed,NoReport", "0123456789ab ", "good.yaml:1", "GatewaySettings", "envoy-1 gone"] {
        assert!(wide.contains(found), "{found}: {wide}");
    }
}

#[test]
fn one_object_is_told_in_full() {
    let mut answer = answer();
    keep(&mut answer, "Good.test").unwrap();
    let report: StatusReport = serde_json::from_value(answer.clone()).unwrap();
    let expected = "\
Name:        good.test
At:          good.yaml:1
Generation:  7
Content:     0123456789abcdef
Conditions:
  Accepted    True     Accepted           since 2026-01-02T03:04:05Z
  Programmed  True     Programmed         since 2026-01-02T03:04:05Z
    acknowledged
  Ready       Unknown  NoReport           since 2026-01-02T03:04:05Z
    nobody reports
Gateways:
  envoy-0: Acknowledged, 1 of 3 endpoints healthy
    10.0.0.9:6443: HealthCheckTimedOut since 2026-01-02T03:04:05Z
  and 2 more
Warnings:
  hardly meant
";
    assert_eq!(text::detail(&report.objects[0]), expected);
    assert!(keep(&mut answer, "gateway").is_none(), "settings are no cluster");
}

#[test]
fn status_succeeds_only_if_all_are_accepted_and_programmed() {
    let well: Vec<bool> = report().objects.iter().map(report::Object::is_well).collect();
    assert_eq!(well, [true, false, true, false], "ready or not");
}

#[test]
fn part_of_the_status_is_asked_for_by_name() {
    let parsed = |words: &[&str]| {
        let command = Status::augment_args(clap::Command::new("status"));
        let matches = command.try_get_matches_from([&["status"], words].concat()).unwrap();
        Status::from_arg_matches(&matches).unwrap()
    };
    for (words, expected) in [
        (&[][..], "/status"),
        (&["Prod.test"], "/status?cluster=prod.test"),
        (&["--instance", "team-a"], "/status?instance=team-a"),
        (&["--instance", "a&cluster=b"], "/status?instance=a%26cluster%3Db"),
    ] {
        assert_eq!(path(&parsed(words)), expected, "{words:?}");
    }
    let not_found = || AskError::NotFound("127.0.0.1:9080".to_owned());
    assert!(matches!(unknown(&parsed(&["a"]), not_found()), StatusError::Unknown(name) if name == "a"));
    let of_instance = unknown(&parsed(&["--instance", "a"]), not_found());
    assert!(matches!(of_instance, StatusError::UnknownInstance(name) if name == "a"));
    assert!(matches!(unknown(&parsed(&[]), not_found()), StatusError::Ask(_)));
}
