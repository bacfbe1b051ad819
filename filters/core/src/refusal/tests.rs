use super::*;

/// An alert goes by `review_failed`.
#[test]
fn strangers_bring_about_no_failed_review() {
    let of_strangers =
        [Refusal::token_not_reviewed(), Refusal::certificate_not_readable(), Refusal::too_many_reviews()];
    assert!(of_strangers.iter().all(|refusal| refusal.cause == Cause::Unchecked));
    assert_eq!(Refusal::review_failed().cause, Cause::ReviewFailed);
}

#[test]
fn body_is_a_kubernetes_status() {
    assert_eq!(
        Refusal::unauthorized().body(),
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Unauthorized\",\
         \"reason\":\"Unauthorized\",\"code\":401}\n"
    );
    let info = RequestInfo {
        is_resource: true,
        api_group: b"apps",
        resource: b"deployments",
        name: b"a\"b".as_slice().into(),
        ..RequestInfo::default()
    };
    let details = r#""reason":"Forbidden","details":{"name":"a\"b","group":"apps","kind":"deployments"},"code":403}"#;
    assert!(Refusal::no_policy(&info).body().trim_end().ends_with(details), "{}", Refusal::no_policy(&info).body());
    let plain = Refusal::no_policy(&RequestInfo::default()).body();
    assert!(plain.contains(r#""details":{},"code":403"#), "{plain}");
    let part = ResourceAttributes {
        verb: "impersonate".into(),
        group: "authentication.k8s.io".into(),
        version: "".into(),
        resource: "userextras".into(),
        subresource: "scopes".into(),
        namespace: String::new(),
        name: "view".into(),
    };
    let refusal = Refusal::may_not_impersonate("alice", &(&part).into(), "");
    assert!(
        refusal.message.starts_with(
            "userextras.authentication.k8s.io \"view\" is forbidden: User \"alice\" cannot impersonate resource \
             \"userextras/scopes\" in API group \"authentication.k8s.io\" at the cluster scope"
        ),
        "{}",
        refusal.message
    );
    assert!(
        refusal.body().contains(r#""details":{"name":"view","group":"authentication.k8s.io","kind":"userextras"}"#)
    );
    let odd = Refusal { retry_after: Some(1), ..Refusal::bad_request("a \"b\" \\ \n") };
    assert!(
        odd.body().contains(r#""message":"a \"b\" \\ \u000a","reason":"BadRequest","details":{"retryAfterSeconds":1}"#)
    );
}

/// client-go comes back after exactly as many seconds as the header says.
#[test]
fn clients_that_are_refused_together_come_back_apart() {
    let seconds = |nanos: u32| {
        let mut refused = Refusal::too_many_requests(b"pods");
        refused.spread(Duration::new(7, nanos));
        refused.retry_after
    };
    let mut seen: Vec<_> = (0..100).map(|number| seconds(number * 1_001)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [1, 2, 3, 4].map(Some));
    let mut denied = Refusal::denied();
    denied.spread(Duration::new(7, 3));
    assert_eq!(denied.retry_after, None, "it need not come back");
}
