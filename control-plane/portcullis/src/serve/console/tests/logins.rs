use std::time::Instant;

use super::views::{data, traffic};
use super::*;

const CLUSTERS: [&str; 4] = ["alice.test", "alice-2.test", "bob.test", "-"];
const HTTPS: [(&str, &str); 2] = [("x-forwarded-proto", "https"), ("x-forwarded-for", "127.0.0.1")];

fn site(api: &Arc<FakeApi>) -> Site {
    Site::new(data(&CLUSTERS, "words"), LoginPolicy::Reviewed(Arc::clone(api) as Arc<dyn Reviewer>))
}

async fn log_in(site: &Site, token: &str) -> Answer {
    site.post(NEAR, "/ui/login", &[], &format!("token={token}&to=%2Fui%2Fexplain")).await
}

fn bearer(token: &str) -> [(&'static str, String); 1] {
    [("authorization", format!("Bearer {token}"))]
}

async fn ask(site: &Site, token: &str, path: &str) -> Answer {
    let [(name, value)] = bearer(token);
    site.get(NEAR, path, &[(name, &value)]).await
}

#[tokio::test]
async fn pages_need_a_login_wherever_the_address_is_not_loopback() {
    let site = site(&Arc::default());
    for path in ["/ui/", "/ui/clusters/alice.test", "/ui/explain"] {
        let page = site.get(NEAR, path, &HTTPS).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(
            page.text.contains("name=\"token\"") && page.text.contains(&format!("value=\"{path}\"")),
            "{}",
            page.text
        );
        assert!(!page.text.contains("words"), "{}", page.text);
    }
    for path in ["/ui/api/fleet", "/ui/api/clusters/alice.test", "/ui/api/events", "/status"] {
        let answer = site.get(NEAR, path, &HTTPS).await;
        assert_eq!((answer.status, &answer.json()["code"]), (StatusCode::UNAUTHORIZED, &401.into()), "{path}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"portcullis\"");
    }
    for path in ["/ui/console.js", "/ui/console.css", "/ui/icon.svg"] {
        assert_eq!(site.get(NEAR, path, &[]).await.status, StatusCode::OK, "{path}");
    }
    assert_eq!(site.post(NEAR, "/ui/explain", &[], "text=x").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn tenant_sees_its_own_objects_only() {
    let site = site(&Arc::default());
    let fleet: FleetView = serde_json::from_str(&ask(&site, "alice-token", "/ui/api/fleet").await.text).unwrap();
    let names: Vec<&str> = fleet.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    assert_eq!(names, ["alice.test", "alice-2.test"]);
    assert!(fleet.gateways.is_empty() && fleet.clusters.iter().all(|cluster| cluster.by_gateway.is_empty()));
    let page = ask(&site, "alice-token", "/ui/").await.text;
    for hidden in ["bob.test", "gateway-0", "stale since", ".yaml", "/status"] {
        assert!(!page.contains(hidden), "{hidden}: {page}");
    }
    let status = async |path: &str| ask(&site, "alice-token", path).await.status.as_u16();
    assert_eq!(status("/ui/clusters/alice.test").await, 200);
    for path in
        ["/ui/clusters/bob.test", "/ui/api/clusters/bob.test", "/ui/clusters/-", "/ui/clusters/none.test", "/status"]
    {
        assert_eq!(status(path).await, 403, "{path}");
    }
    let all: FleetView = serde_json::from_str(&ask(&site, "root-token", "/ui/api/fleet").await.text).unwrap();
    assert_eq!((all.clusters.len(), all.gateways.len()), (4, 2));
    assert_eq!(ask(&site, "root-token", "/status").await.status, StatusCode::OK);
    assert_eq!(ask(&site, "root-token", "/ui/clusters/none.test").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn gateways_are_named_to_readers_of_everything() {
    let mut all = data(&CLUSTERS, "words");
    all.clusters.get_mut("alice.test").unwrap().at_gateways = vec![traffic("infra/edge")];
    let site = Site::new(all, LoginPolicy::Reviewed(Arc::<FakeApi>::default()));
    for path in ["/ui/api/clusters/alice.test", "/ui/clusters/alice.test"] {
        let shown = async |token: &str| ask(&site, token, path).await.text.contains("infra/edge");
        assert_eq!((shown("root-token").await, shown("alice-token").await), (true, false), "{path}");
    }
    let path = "/ui/api/clusters/alice.test";
    let view: ClusterView = serde_json::from_str(&ask(&site, "alice-token", path).await.text).unwrap();
    assert_eq!((view.at_gateways.len(), view.at_gateways[0].envoys), (1, 3), "the numbers are the object's");
    let fleet = async |token: &str| ask(&site, token, "/ui/api/fleet").await.json()["atGateways"].clone();
    let lines = async |token: &str| fleet(token).await.as_array().map(Vec::len);
    assert_eq!((lines("root-token").await, lines("alice-token").await), (Some(1), Some(0)));
}

#[tokio::test]
async fn tenant_explains_requests_to_its_own_objects_only() {
    let mut all = data(&CLUSTERS, "words");
    let object = |name: &str| {
        serde_json::json!({"apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": name},
        "spec": {"servers": [{"endpoint": "https://192.0.2.1:6443"}], "dispatchPolicies": []}})
    };
    let clusters = ["alice.test", "bob.test"].map(|name| Arc::new(object(name))).to_vec();
    all.objects = Arc::new(ObjectSet { clusters, ..ObjectSet::default() });
    let site = Site::new(all, LoginPolicy::Reviewed(Arc::<FakeApi>::default()));
    let explain = async |host: &str| {
        let body = serde_json::json!({"text": format!("GET https://{host}/api"), "user": "alice"}).to_string();
        let headers = [("authorization", "Bearer alice-token"), ("content-type", "application/json")];
        site.send(NEAR, "POST", "/ui/api/explain", &headers, &body).await.status.as_u16()
    };
    assert_eq!(explain("alice.test").await, 200);
    assert_eq!((explain("bob.test").await, explain("none.test").await), (403, 403), "whether it exists is not learned");
    let known = || site.console.known_objects()();
    assert!(Arc::ptr_eq(&known(), &known()), "all objects are looked through once");
}

#[tokio::test]
async fn session_begins_by_a_token_and_ends_by_logout() {
    let site = site(&Arc::default());
    let begun = log_in(&site, "alice-token").await;
    assert_eq!((begun.status, begun.headers["location"].to_str().unwrap()), (StatusCode::SEE_OTHER, "/ui/explain"));
    let set = begun.headers["set-cookie"].to_str().unwrap();
    for part in ["__Host-portcullis=", "; Secure", "; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=28800"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("alice") && begun.text.is_empty(), "{set}");
    let cookie = begun.cookie();
    let page = site.get(NEAR, "/ui/", &[("cookie", &cookie)]).await;
    assert!(page.status == StatusCode::OK && page.text.contains("alice.test") && page.text.contains("Log out"));
    let status = async |cookie: &str| site.get(NEAR, "/ui/", &[("cookie", cookie)]).await.status.as_u16();
    assert_eq!(status("__Host-portcullis=wrong").await, 401);
    assert_eq!(status(&format!("{cookie}; {cookie}")).await, 401, "of two cookies none is believed");
    let ended = site.post(NEAR, "/ui/logout", &[("cookie", &cookie)], "").await;
    assert!(ended.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(status(&cookie).await, 401);
}

#[tokio::test]
async fn session_ends_with_its_token_and_while_the_api_is_away() {
    for revoke in [true, false] {
        let api = Arc::<FakeApi>::default();
        let site = site(&api);
        let cookie = log_in(&site, "alice-token").await.cookie();
        let headers = [("cookie", cookie.as_str())];
        let mut events = Box::pin(site.get(NEAR, "/ui/api/events", &headers));
        // The stream is open before the token is revoked.
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut events).await.is_err());
        if revoke {
            api.revoked.lock().unwrap().push("alice-token".to_owned());
        } else {
            *api.is_away.lock().unwrap() = true;
        }
        let session = site.console.access.session_of(&cookie);
        site.console.access.review_all(Instant::now() + Duration::from_secs(61)).await;
        assert!(session && !site.console.access.session_of(&cookie), "revoked: {revoke}");
        assert!(events.await.text.contains("event: open"), "the stream ends with the session");
        *api.is_away.lock().unwrap() = false;
        assert_eq!(site.get(NEAR, "/ui/", &[("cookie", &cookie)]).await.status, StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn failed_reviews_give_no_access() {
    let api = Arc::<FakeApi>::default();
    let site = site(&api);
    let cookie = log_in(&site, "alice-token").await.cookie();
    *api.is_away.lock().unwrap() = true;
    assert_eq!(log_in(&site, "bob-token").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask(&site, "root-token", "/ui/api/fleet").await.status, StatusCode::SERVICE_UNAVAILABLE);
    let page = site.get(NEAR, "/ui/clusters/alice-3.test", &[("cookie", &cookie)]).await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE, "rights cannot be reviewed");
    assert!(!page.text.contains("words") && page.headers.contains_key("retry-after"));
    *api.is_away.lock().unwrap() = false;
    assert_eq!(site.get(NEAR, "/ui/clusters/alice.test", &[("cookie", &cookie)]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn bad_credentials_are_never_downgraded() {
    let site = site(&Arc::default());
    let cookie = log_in(&site, "alice-token").await.cookie();
    for value in ["Bearer wrong", "Bearer ", "Bearer a b", "Basic YTpi", "Bearer \u{e9}", "alice-token"] {
        let headers = [("authorization", value), ("cookie", cookie.as_str())];
        assert_eq!(site.get(NEAR, "/ui/api/fleet", &headers).await.status, StatusCode::UNAUTHORIZED, "{value}");
    }
    let long = format!("Bearer {}", "x".repeat(20_000));
    assert_eq!(site.get(NEAR, "/ui/api/fleet", &[("authorization", &long)]).await.status, StatusCode::UNAUTHORIZED);
    // {"exp":1}: no review could make it good.
    assert_eq!(log_in(&site, "e30.eyJleHAiOjF9.x").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn tokens_are_not_taken_in_plain_text_from_elsewhere() {
    let api = Arc::<FakeApi>::default();
    let site = site(&api);
    let (login, fleet) = ("token=alice-token", "/ui/api/fleet");
    let own = HTTPS;
    assert_eq!(site.post(FAR, "/ui/login", &own, login).await.status, StatusCode::FORBIDDEN);
    let headers =
        [("authorization", "Bearer alice-token"), HTTPS[0], HTTPS[1], ("forwarded", "for=127.0.0.1;proto=https")];
    assert_eq!(site.get(FAR, fleet, &headers).await.status, StatusCode::FORBIDDEN);
    let page = site.get(FAR, "/ui/", &HTTPS).await;
    assert!(
        page.status == StatusCode::FORBIDDEN
            && page.text.contains("--http-tls-cert")
            && !page.text.contains("name=\"token\"")
    );
    assert_eq!(api.token_reviews.load(Ordering::Relaxed), 0, "nothing is reviewed");
    let policy = LoginPolicy::Reviewed(Arc::<FakeApi>::default());
    let behind_proxy = Site::with(data(&CLUSTERS, "words"), policy, true);
    assert_eq!(behind_proxy.get(FAR, fleet, &headers[..1]).await.status, StatusCode::OK);
    assert_eq!(behind_proxy.post(FAR, "/ui/login", &[], login).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn posts_of_other_sites_are_refused() {
    let site = site(&Arc::default());
    let cookie = log_in(&site, "alice-token").await.cookie();
    let form = ("content-type", "application/x-www-form-urlencoded");
    for path in ["/ui/login", "/ui/logout", "/ui/explain", "/ui/api/explain"] {
        for origin in ["https://attacker.test", "null", "http://portcullis.test:81"] {
            let headers = [("origin", origin), ("cookie", cookie.as_str()), form];
            let answer = site.send(NEAR, "POST", path, &headers, "token=bob-token").await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path} {origin}");
        }
        let headers = [("sec-fetch-site", "cross-site"), ("cookie", cookie.as_str()), form];
        assert_eq!(site.send(NEAR, "POST", path, &headers, "").await.status, StatusCode::FORBIDDEN, "{path}");
        let headers = [("cookie", cookie.as_str()), form];
        assert_eq!(
            site.send(NEAR, "POST", path, &headers, "").await.status,
            StatusCode::FORBIDDEN,
            "{path}: no browser"
        );
    }
    assert_eq!(
        site.get(NEAR, "/ui/", &[("cookie", &cookie)]).await.status,
        StatusCode::OK,
        "the session is still there"
    );
    let open = Site::new(data(&CLUSTERS, "words"), LoginPolicy::Open);
    let headers = [("origin", "https://attacker.test"), form];
    assert_eq!(open.send(NEAR, "POST", "/ui/explain", &headers, "").await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn flood_of_wrong_tokens_is_no_flood_of_reviews() {
    let api = Arc::<FakeApi>::default();
    let site = site(&api);
    let cookie = log_in(&site, "alice-token").await.cookie();
    let mut refused = 0;
    for number in 0..200 {
        refused += usize::from(log_in(&site, &format!("wrong-{number}")).await.status == StatusCode::TOO_MANY_REQUESTS);
    }
    let reviews = api.token_reviews.load(Ordering::Relaxed);
    println!("{reviews} reviews, {refused} refused");
    assert!(reviews < 20 && refused > 180);
    assert_eq!(site.get(NEAR, "/ui/", &[("cookie", &cookie)]).await.status, StatusCode::OK, "sessions go on");
}

#[tokio::test]
async fn known_tokens_and_rights_are_not_reviewed_again_at_once() {
    let api = Arc::<FakeApi>::default();
    let site = site(&api);
    for _ in 0..50 {
        assert_eq!(ask(&site, "alice-token", "/ui/api/fleet").await.status, StatusCode::OK);
        assert_eq!(ask(&site, "wrong", "/ui/api/fleet").await.status, StatusCode::UNAUTHORIZED);
    }
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    assert_eq!((count(&api.token_reviews), count(&api.access_reviews)), (2, 1 + 3));
}

#[tokio::test]
async fn directory_source_without_client_ca_is_loopback_only() {
    let site = Site::new(data(&CLUSTERS, "words"), LoginPolicy::Impossible);
    for path in ["/ui/", "/status", "/ui/api/fleet"] {
        let answer = site.get(NEAR, path, &[("authorization", "Bearer x")]).await;
        assert!(answer.status == StatusCode::FORBIDDEN && answer.text.contains("--http-client-ca"), "{path}");
    }
    assert_eq!(site.post(NEAR, "/ui/login", &[], "token=root-token").await.status, StatusCode::FORBIDDEN);
    let certificates = Site::new(data(&CLUSTERS, "words"), LoginPolicy::Certificates);
    assert_eq!(certificates.get(NEAR, "/ui/", &[("authorization", "Bearer x")]).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(certificates.post(NEAR, "/ui/login", &[], "token=root-token").await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn streams_of_events_are_bounded() {
    let site = Site::new(data(&CLUSTERS, "words"), LoginPolicy::Open);
    let held = site.console.streams.clone().acquire_many_owned(32).await.unwrap();
    assert_eq!(site.get(NEAR, "/ui/api/events", &[]).await.status, StatusCode::SERVICE_UNAVAILABLE);
    drop(held);
    assert!(site.console.streams.available_permits() == 32);
}
