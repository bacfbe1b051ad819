use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

const DAY: i64 = 86_400;

/// A certificate of the year 2000.
fn certificate() -> String {
    let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}

fn warnings(spec: &Value, now: i64) -> Vec<(String, String)> {
    let mut warnings = lint_cluster(&cluster(spec.clone()), now);
    warnings.retain(|warnings| warnings.code == ProblemCode::Expiry);
    warnings.into_iter().map(|warnings| (warnings.path, warnings.message)).collect()
}

#[test]
fn certificates_are_told_before_their_end() {
    let (start, end) = (946_684_800, 978_307_200);
    let spec = json!({"secureServing": {"certData": STANDARD.encode(certificate())}});
    for (now, message) in [
        (start - 2 * DAY, Some("the certificate is valid only in 2 days")),
        (start, None),
        (end - 30 * DAY, None),
        (end - 30 * DAY + 1, Some("the certificate expires in 29 days")),
        (end - 1, Some("the certificate expires in less than a day")),
        (end, Some("the certificate expired less than a day ago")),
        (end + DAY, Some("the certificate expired 1 day ago")),
    ] {
        let wanted = message.map(|message| ("spec.secureServing.certData".to_owned(), message.to_owned()));
        assert_eq!(warnings(&spec, now), wanted.into_iter().collect::<Vec<_>>(), "{now}");
    }
    let two = STANDARD.encode(format!("{}{}", certificate(), certificate()));
    for (spec, count) in [
        (json!({"clientConfig": {"certData": two}}), 1),
        (json!({"clientConfig": {"caData": two}}), 2),
        (json!({"secureServing": {"clientCAData": two}}), 2),
    ] {
        assert_eq!(warnings(&spec, end).len(), count, "{spec}");
    }
}

#[test]
fn entry_of_an_access_list_is_reported_when_it_has_ended() {
    let entry = |until: &str| json!({"users": ["mallory"], "until": until});
    let access = json!({"deny": [entry("2001-01-01T00:00:00Z"), entry(""), entry("2001-01-01T00:00:01Z")]});
    let spec = json!({"portcullis": {"access": access}});
    let path = "spec.portcullis.access.deny[0].until".to_owned();
    let message = "is over: the entry matches nothing".to_owned();
    assert_eq!(warnings(&spec, 978_307_200), [(path, message)]);
    assert_eq!(warnings(&spec, 978_307_199), []);
}
