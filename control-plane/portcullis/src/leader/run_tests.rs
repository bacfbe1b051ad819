use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use portcullis_sources::KubernetesAccess;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Leadership, Tenure, Timing, campaign, news, rest};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An API with one Lease, which it may refuse to show.
#[derive(Debug, Default)]
struct LeaseApi {
    refuses: AtomicBool,
    lease: Mutex<(u64, Option<Value>)>,
    /// The times of requests.
    asked: watch::Sender<Vec<Instant>>,
}

fn status(code: StatusCode, message: &str) -> Response {
    let reason = if code == StatusCode::NOT_FOUND { "NotFound" } else { "Forbidden" };
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason,
        "code": code.as_u16()});
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn answer(State(api): State<Arc<LeaseApi>>, method: Method, body: Bytes) -> Response {
    api.asked.send_modify(|asked| asked.push(Instant::now()));
    if api.refuses.load(Ordering::Acquire) {
        return status(StatusCode::FORBIDDEN, "leases are\nforbidden");
    }
    let mut kept = api.lease.lock().unwrap();
    if method != Method::GET {
        let mut lease: Value = serde_json::from_slice(&body).unwrap();
        kept.0 += 1;
        lease["metadata"]["resourceVersion"] = kept.0.to_string().into();
        kept.1 = Some(lease);
    }
    match &kept.1 {
        Some(lease) => ([(header::CONTENT_TYPE, "application/json")], lease.to_string()).into_response(),
        None => status(StatusCode::NOT_FOUND, "no such Lease"),
    }
}

/// A candidate for the Lease of the replica that divides limits, for as long as the sender is there.
async fn candidate(api: &Arc<LeaseApi>) -> (Leadership, watch::Sender<bool>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let app = Router::new().fallback(answer).with_state(Arc::clone(api));
    tokio::spawn(async { axum::serve(listener, app).await });
    let client = kube::Client::try_from(kube::Config::new(uri)).unwrap();
    let access = KubernetesAccess { client, namespace: "portcullis".to_owned() };
    let (sender, wanted) = watch::channel(true);
    (campaign(&access, "limits", Timing::LIMITS, wanted), sender)
}

/// The lines of a log.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn count(&self, words: &str) -> usize {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().matches(words).count()
    }
}

#[tokio::test]
async fn candidate_that_the_api_refuses_says_why_and_asks_less() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let api = Arc::new(LeaseApi { refuses: true.into(), ..LeaseApi::default() });
    let start = Instant::now();
    let (mut leadership, _wanted) = candidate(&api).await;
    let reason = leadership.failure.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(reason.unwrap(), "403 leases are forbidden");
    let mut asked = api.asked.subscribe();
    let third = asked.wait_for(|asked| asked.len() > 2).await.unwrap()[2];
    // 0.6 s after the first answer, and 1.2 after the second; it would be twice 0.3 without a refusal.
    assert!(third - start >= millis(1_800), "{:?}", third - start);
    assert!(!*leadership.leads.borrow());
    assert_eq!(log.count("cannot take part in the election of a leader"), 1, "{log:?}");

    api.refuses.store(false, Ordering::Release);
    assert!(*leadership.leads.wait_for(|leads| *leads).await.unwrap());
    assert_eq!(*leadership.failure.borrow(), None);
    leadership.tenure.wait_for(|tenure| tenure.is_some_and(|tenure| tenure.term == 1)).await.unwrap();
    assert_eq!(log.count("leadership changed"), 1, "{log:?}");
    leadership.release().await;
    let kept = api.lease.lock().unwrap().1.clone();
    assert_eq!(kept.unwrap()["spec"]["holderIdentity"], "", "given up");
}

#[test]
fn pause_counts_from_the_beginning_of_a_round() {
    let rows = [
        (300, 0, None, 300),
        (300, 200, None, 100),
        (300, 400, None, 0),
        (300, 100, Some(50), 50),
        (300, 100, Some(900), 200),
        // It was tried for.
        (300, 100, Some(0), 200),
    ];
    for (pause, took, free_in, wanted) in rows {
        let found = rest(millis(pause), millis(took), free_in.map(millis));
        assert_eq!(found, millis(wanted), "{pause}, {took}, {free_in:?}");
    }
}

#[test]
fn gap_between_late_renewals_is_no_news() {
    let tenure = |term| Some(Tenure { term, until: millis(0), alone_since: millis(0) });
    // The tenure, whether it goes on, and the line of the log, if there is one.
    let rows = [
        (None, false, None),
        (tenure(1), true, Some(true)),
        (tenure(1), true, None),
        // It is over, and then renewed late.
        (tenure(1), false, None),
        (tenure(1), true, None),
        (tenure(2), true, Some(true)),
        (tenure(2), false, None),
        (None, false, Some(false)),
        (None, false, None),
        // It was over before anything could be said of it.
        (tenure(3), false, None),
        (tenure(3), true, Some(true)),
        (tenure(4), false, Some(false)),
    ];
    let mut said = None;
    for (step, (tenure, is_leader, line)) in rows.into_iter().enumerate() {
        assert_eq!(news(&mut said, tenure, is_leader), line, "step {step}");
    }
}
