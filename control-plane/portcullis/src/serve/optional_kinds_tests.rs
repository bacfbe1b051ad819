//! Kinds without which `UpstreamCluster`s are served, at an API that does not answer for some of them.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use portcullis_sources::{KubernetesAccess, KubernetesSets, WatchOptions, WatchedKind, watch_kubernetes};
use serde_json::{Value, json};

/// The patience of a test, below the time limit of lists.
const SOON: Duration = Duration::from_secs(15);

/// An API with one object of each kind. While it is ill it answers nothing to lists of `HTTPRoute`s, and 500 for Gateways; no one may
/// watch `TLSRoute`s.
#[derive(Default)]
struct PartialApi {
    is_ill: AtomicBool,
}

fn json_response(code: StatusCode, body: &Value) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn refusal(code: StatusCode) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "no",
        "code": code.as_u16()});
    json_response(code, &body)
}

async fn answer(State(api): State<Arc<PartialApi>>, uri: Uri) -> Response {
    let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
    let is_ill = api.is_ill.load(Ordering::Acquire);
    match uri.path().rsplit('/').next().unwrap_or_default() {
        "httproutes" if is_ill => pending().await,
        "gateways" if is_ill => refusal(StatusCode::INTERNAL_SERVER_ERROR),
        "tlsroutes" if is_watch => refusal(StatusCode::FORBIDDEN),
        "referencegrants" => refusal(StatusCode::NOT_FOUND),
        _ if is_watch => pending().await,
        "secrets" => {
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []});
            json_response(StatusCode::OK, &list)
        }
        _ => {
            let items = json!([{"metadata": {"name": "a.test", "uid": "u"}, "spec": {}}]);
            let list =
                json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
            json_response(StatusCode::OK, &list)
        }
    }
}

async fn watched(api: &Arc<PartialApi>) -> KubernetesSets {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let app = Router::new().fallback(answer).with_state(Arc::clone(api));
    tokio::spawn(async { axum::serve(listener, app).await });
    let client = kube::Client::try_from(kube::Config::new(uri)).unwrap();
    let access = KubernetesAccess { client, namespace: "portcullis".to_owned() };
    watch_kubernetes(&access, WatchOptions { gateway_api: true, ..WatchOptions::default() })
}

#[tokio::test]
async fn kinds_that_fail_or_hang_hold_no_cluster_up() {
    let api = Arc::new(PartialApi { is_ill: AtomicBool::new(true) });
    let mut sets = watched(&api).await;
    let objects = tokio::time::timeout(SOON, sets.objects.wait_for(Option::is_some)).await;
    let count = objects.expect("clusters are listed").unwrap().as_ref().map(|set| set.clusters.len());
    assert_eq!(count, Some(1));
    let is_current = tokio::time::timeout(SOON, sets.health.wait_for(|health| health.stale_since.is_none())).await;
    is_current.expect("the source is current").unwrap();
    let has_services = |all: &Arc<portcullis_sources::GatewayApiObjects>| all.of(WatchedKind::Service).count() == 1;
    let others = tokio::time::timeout(SOON, sets.gateway_api.wait_for(has_services)).await;
    assert!(!others.expect("other kinds are listed").unwrap().is_listed());

    api.is_ill.store(false, Ordering::Release);
    let healed = sets.gateway_api.wait_for(|all| all.of(WatchedKind::Gateway).count() == 1);
    tokio::time::timeout(SOON, healed).await.expect("the kind that failed is listed").unwrap();
    let statuses = sets.statuses.wait_for(|all| all.of(WatchedKind::Gateway).count() == 1);
    let statuses = tokio::time::timeout(SOON, statuses).await.unwrap().unwrap();
    assert_eq!(statuses.of(WatchedKind::UpstreamCluster).count(), 1);
    assert!(!statuses.is_listed(WatchedKind::ReferenceGrant), "that there is no such kind was said but for a moment");
    assert_eq!(statuses.of(WatchedKind::TlsRoute).count(), 1, "it may be listed and not watched");
    assert_eq!(sets.health.borrow().stale_since, None);
}
