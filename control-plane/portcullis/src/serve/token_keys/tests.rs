use std::sync::{LazyLock, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use serde_json::json;
use tokio::sync::oneshot;

use portcullis_api::{Server, shown_keys_of};

use super::servers::round;
use super::*;

static AUTHORITY: LazyLock<String> = LazyLock::new(|| {
    let ca = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap().cert.pem();
    STANDARD.encode(ca)
});

fn document(servers: &[&str]) -> Arc<Value> {
    let servers: Vec<Value> =
        servers.iter().map(|server| json!({"endpoint": format!("https://{server}:6443")})).collect();
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let issuer = json!({
        "url": "https://issuer.example.com", "audiences": ["us"], "serviceAccounts": true, "jwks": {"fromServers": true},
    });
    Arc::new(json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "one.example.com"},
        "spec": {
            "servers": servers,
            "clientConfig": {"bearerToken": "dG9rZW4=", "caData": *AUTHORITY},
            "dispatchPolicies": [{"rules": [everything]}],
            "portcullis": {"tokens": {"issuers": [issuer]}},
        },
    }))
}

fn sets(servers: &[&str]) -> watch::Sender<Arc<ObjectSet>> {
    watch::channel(Arc::new(ObjectSet { clusters: vec![document(servers)], ..ObjectSet::default() })).0
}

fn reader<A, F>(ask: A) -> KeyReader<A>
where
    A: Fn(AskedSource) -> F,
    F: Future<Output = Result<String, String>> + Send + 'static,
{
    KeyReader::new(ask, Duration::from_secs(300), watch::channel(Arc::default()).0)
}

fn keys(set: &ObjectSet) -> Option<String> {
    Some(shown_keys_of(set.clusters[0].get("status"), &KeySource::Servers).keys?.0)
}

#[tokio::test]
async fn first_set_waits_for_the_servers_keys() {
    let sender = sets(&["192.0.2.1"]);
    let ask = |_| async {
        tokio::task::yield_now().await;
        Ok("keys".to_owned())
    };
    let receiver = with_keys_by(reader(ask), Duration::from_secs(60), sender.subscribe()).await;
    assert_eq!(keys(&receiver.borrow()).as_deref(), Some("keys"));
}

#[tokio::test]
async fn first_set_waits_no_longer_than_it_may() {
    let sender = sets(&["192.0.2.1"]);
    let (answer, answered) = oneshot::channel::<()>();
    let answered = Mutex::new(Some(answered));
    let ask = move |_| {
        let answered = answered.lock().unwrap().take();
        async move {
            if let Some(answered) = answered {
                let _ = answered.await;
            }
            Ok("keys".to_owned())
        }
    };
    let mut receiver = with_keys_by(reader(ask), Duration::from_millis(10), sender.subscribe()).await;
    assert_eq!(keys(&receiver.borrow_and_update()), None);
    answer.send(()).unwrap();
    receiver.changed().await.unwrap();
    assert_eq!(keys(&receiver.borrow()).as_deref(), Some("keys"));
}

#[tokio::test]
async fn question_to_former_servers_is_ended() {
    let sender = sets(&["192.0.2.1"]);
    let (open, mut ended) = oneshot::channel::<()>();
    let open = Mutex::new(Some(open));
    let ask = move |asked: AskedSource| {
        let is_former = asked.cluster.servers[0].endpoint.to_string().starts_with("192.0.2.1:");
        let open = open.lock().unwrap().take();
        async move {
            if is_former {
                let _open = open;
                std::future::pending::<()>().await;
            }
            Ok("keys".to_owned())
        }
    };
    let mut receiver = with_keys_by(reader(ask), Duration::from_millis(10), sender.subscribe()).await;
    assert!(ended.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
    sender.send_replace(Arc::new(ObjectSet { clusters: vec![document(&["192.0.2.2"])], ..ObjectSet::default() }));
    receiver.wait_for(|set| keys(set).as_deref() == Some("keys")).await.unwrap();
    assert!(ended.await.is_err());
}

#[test]
fn question_goes_to_a_few_servers_and_then_to_the_next_ones() {
    let set = ObjectSet::default();
    let mut reader = reader(|_: AskedSource| async { Ok(String::new()) });
    reader.follow(&set);
    let all = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
    let asked = |servers: &[&str], failures| {
        let cluster = reader.cluster(&document(servers), &set).unwrap();
        let last = |server: &&Server| server.endpoint.to_string().trim_end_matches(":6443")[8..].to_owned();
        round(&cluster.servers, failures).iter().map(last).collect::<Vec<_>>().concat()
    };
    assert_eq!([0, 1, 2].map(|failures| asked(&all, failures)), ["123", "412", "341"]);
    assert_eq!([0, 1].map(|failures| asked(&all[..2], failures)), ["12", "21"]);
}

/// A balancer that is written to be asked, and gets no requests.
#[test]
fn disabled_servers_are_asked_last() {
    let set = ObjectSet::default();
    let mut reader = reader(|_: AskedSource| async { Ok(String::new()) });
    reader.follow(&set);
    let asked = |disabled: &[usize]| {
        let mut document = document(&["192.0.2.1", "192.0.2.2"]).as_ref().clone();
        for number in disabled {
            document["spec"]["servers"][number]["disabled"] = json!(true);
        }
        let cluster = reader.cluster(&Arc::new(document), &set).unwrap();
        round(&cluster.servers, 0).iter().map(|server| server.endpoint.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&[0]), ["192.0.2.2:6443", "192.0.2.1:6443"]);
    assert_eq!(asked(&[0, 1]), ["192.0.2.1:6443", "192.0.2.2:6443"]);
}
