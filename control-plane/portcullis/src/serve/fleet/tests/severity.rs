use portcullis_api::CertificateDates;
use portcullis_api::status::{ConditionType, Health, State};
use portcullis_filter_config::activity::{ClusterActivity, ServerActivity};

use super::super::activity::GatewayActivity;
use super::super::rates::Rates;
use super::super::served_objects::ServedObject;
use super::super::severity::{assess, of_error_ratio, of_health};
use super::super::view::Severity;
use super::{Agent, Clock, START, activity, object, take};

#[test]
fn conditions_lead_to_a_severity_and_the_first_message() {
    use ConditionType::{Accepted, Programmed, Ready};
    let now = Clock::new().moment(0);
    let no_server = (Ready, State::False, "NoHealthyEndpoints", "dead");
    for (others, severity, message) in [
        (vec![], Severity::Good, ""),
        (vec![(Ready, State::True, "SomeUnhealthy", "one")], Severity::Warning, "one"),
        (vec![no_server], Severity::Critical, "dead"),
        (vec![(Ready, State::Unknown, "NoReport", "none")], Severity::Unknown, "none"),
        (vec![(Programmed, State::False, "Pending", "waits")], Severity::Warning, "waits"),
        (vec![(Programmed, State::False, "NoGateways", "none")], Severity::Unknown, "none"),
        (vec![(Accepted, State::False, "Invalid", "bad")], Severity::Warning, "bad"),
        (vec![(Accepted, State::False, "Invalid", "bad"), no_server], Severity::Critical, "bad"),
    ] {
        let found = assess(&object("a", &others), None, &Rates::default(), now);
        assert_eq!((found.severity, found.message.as_str()), (severity, message), "{others:?}");
    }
    let mut nothing = object("a", &[(Accepted, State::False, "Invalid", "bad")]);
    nothing.status.content_hash = None;
    assert_eq!(assess(&nothing, None, &Rates::default(), now).severity, Severity::Critical, "nothing is served");
}

#[test]
fn errors_are_judged_by_their_ratio_if_they_are_not_few() {
    let now = Clock::new().moment(0);
    for (answers, errors, severity) in [
        (0.0, 0.0, Severity::Good),
        (0.1, 0.09, Severity::Good),
        (100.0, 0.9, Severity::Good),
        (100.0, 2.0, Severity::Warning),
        (100.0, 25.0, Severity::Critical),
    ] {
        let rates = Rates { answers, errors, conclusive: answers, ..Rates::default() };
        assert_eq!(assess(&object("a", &[]), None, &rates, now).severity, severity, "{errors} of {answers}");
    }
}

/// A server with its answers: none, and 1xx to 5xx.
type ServerAnswers = (&'static str, [u64; 6]);

/// The rates of a cluster that had these answers in half a minute.
fn rates_of(servers: &[ServerAnswers]) -> Rates {
    let counted = |turn: u64| {
        let server = |(server, answers): &ServerAnswers| ServerActivity {
            server: (*server).to_owned(),
            answers: answers.map(|count| count * turn),
            ..ServerActivity::default()
        };
        let servers = servers.iter().map(server).collect();
        ClusterActivity { cluster: "a".to_owned(), servers, ..ClusterActivity::default() }
    };
    let (clock, mut agent) = (Clock::new(), Agent::default());
    let mut memory = GatewayActivity::default();
    take(&mut memory, "n", agent.parts(&activity(1, vec![counted(1)])), clock.at(0));
    take(&mut memory, "n", agent.parts(&activity(1, vec![counted(2)])), clock.at(30));
    super::rates::rates(&memory, clock, 30, "n", "a")
}

/// Clients that no gateway and no server has let in make neither an error nor the impression that all is well.
#[test]
fn refused_clients_have_no_part_in_severity() {
    let cases: &[(&str, &[ServerAnswers], Severity)] = &[
        ("loops of strangers", &[("-", [0, 0, 0, 0, 0, 5_000]), ("s:1", [0, 0, 100, 0, 0, 0])], Severity::Good),
        ("only loops of strangers", &[("-", [0, 0, 0, 0, 0, 5_000])], Severity::Good),
        ("refusals beside errors", &[("-", [0, 0, 0, 0, 5_000, 0]), ("s:1", [0, 0, 0, 0, 0, 10])], Severity::Critical),
        ("answers of 401 beside errors", &[("s:1", [0, 0, 0, 0, 5_000, 10])], Severity::Critical),
        ("requests taken back amid a review", &[("-", [300, 0, 0, 0, 0, 0])], Severity::Good),
        ("requests taken back from a server", &[("s:1", [300, 0, 10, 0, 0, 0])], Severity::Good),
        ("requests taken back beside errors", &[("s:1", [5_000, 0, 0, 0, 0, 10])], Severity::Critical),
        ("no server", &[("-", [0, 0, 0, 0, 5_000, 0]), ("none", [0, 0, 0, 0, 0, 10])], Severity::Critical),
        ("few errors of many", &[("s:1", [0, 0, 1_000, 0, 0, 20])], Severity::Warning),
    ];
    for (name, servers, severity) in cases {
        let rates = rates_of(servers);
        assert_eq!(of_error_ratio(&rates), *severity, "{name}: {rates:?}");
    }
}

#[test]
fn certificates_near_their_end_are_a_warning() {
    let now = Clock::new().moment(0);
    let day = 86_400;
    for (usage, end, severity, message) in [
        ("serving", START + 8 * day, Severity::Good, ""),
        ("serving", START + 6 * day, Severity::Warning, "the certificate serving (CN=a) expires in 6 days"),
        ("serving", START + 60, Severity::Warning, "the certificate serving (CN=a) expires in less than a day"),
        ("serving", START - 1, Severity::Critical, "the certificate serving (CN=a) has expired"),
        ("upstreamCA", START - 1, Severity::Warning, "the certificate upstreamCA (CN=a) has expired"),
    ] {
        let certificates = vec![CertificateDates { usage, subject: "CN=a".to_owned(), not_after: end }];
        let served = ServedObject { certificates, ..ServedObject::default() };
        let found = assess(&object("a", &[]), Some(&served), &Rates::default(), now);
        assert_eq!((found.severity, found.message.as_str()), (severity, message));
    }
}

#[test]
fn gateway_without_a_healthy_server_is_critical() {
    let health = |healthy, total| Health { healthy, total, unhealthy: Vec::new() };
    let found = [health(3, 3), health(2, 3), health(0, 3), health(0, 0)].map(|health| of_health(&health));
    assert_eq!(found, [Severity::Good, Severity::Warning, Severity::Critical, Severity::Critical]);
}
