use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_attach::ObjectName;
use portcullis_sources::{Input, ObjectSet, read_inputs};
use portcullis_translate::ServicePort;
use portcullis_xds::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::super::super::gateway_views::{GatewayClaims, GatewayDemand, GatewayEnvoys, ServiceIdentity};
use super::super::super::metrics::ControlPlaneMetrics;
use super::super::super::reconcile_loop::{Outputs, ReconcileLoop};
use super::super::super::state::LastGood;
use super::super::super::wanted_views::WantedViews;
use super::super::super::watchdog::Watchdog;
use super::super::answers::Answers;
use super::super::discoverer::Discoverer;
use super::super::srv::Nameservers;
use super::document;

/// The patience of a test.
const SOON: Duration = Duration::from_secs(30);

/// Settings, and a cluster whose servers a Service alone has.
fn objects() -> ObjectSet {
    let serving = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let mut cluster =
        document(&json!({"service": {"namespace": "ns", "name": "tenant", "port": 6443}})).as_ref().clone();
    cluster["metadata"] = json!({"name": "a.test"});
    cluster["spec"]["servers"] = json!([]);
    cluster["spec"]["secureServing"] = json!({
        "certData": STANDARD.encode(serving.cert.pem()),
        "keyData": STANDARD.encode(serving.signing_key.serialize_pem()),
    });
    let settings = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "a"}, "spec": {},
    });
    let text: Vec<_> = [settings, cluster].iter().map(Value::to_string).collect();
    let input = Input::Text { name: "f.yaml".to_owned(), bytes: text.join("\n---\n").into() };
    read_inputs(&[input]).unwrap()
}

fn outputs() -> Outputs {
    Outputs {
        snapshots: watch::Sender::new(None),
        diagnoses: watch::Sender::new(Arc::default()),
        served: watch::Sender::new(Arc::default()),
        doors_served: watch::Sender::new(0),
        instances: watch::Sender::new(Arc::default()),
        metrics: Arc::new(ControlPlaneMetrics::default()),
        watchdog: Arc::new(Watchdog::new(Instant::now())),
        state: None,
        traces: None,
    }
}

#[tokio::test]
async fn service_of_a_route_made_while_sources_answer_is_wanted() {
    let (handle, discoverer) =
        Discoverer::new(None, Nameservers::System, None, Arc::new(ControlPlaneMetrics::default()));
    let silent = Answers { has_kubernetes: true, ..Answers::default() };
    discoverer.published.send_replace(Arc::new(silent));
    let claims = watch::Sender::new(GatewayClaims::default());
    let (envoys, link) = GatewayEnvoys::new(&claims.subscribe(), Arc::new(Registry::default()));
    let reconcile_loop = ReconcileLoop::new(outputs(), LastGood::default(), false, Duration::ZERO, handle, link);
    let (_objects, followed) = watch::channel(Arc::new(objects()));
    let (_filters, filters) = watch::channel(WantedViews::default());
    let running = tokio::spawn(reconcile_loop.run(followed, filters));

    let mut demanded = discoverer.demanded.clone();
    let first = timeout(SOON, demanded.wait_for(|demanded| !demanded.wants.is_empty())).await;
    let wants = Arc::clone(&first.expect("the cluster's Service is wanted").unwrap().wants);
    let port = ServicePort { service: ObjectName::new("team", "web"), port: 443 };
    envoys.demand(GatewayDemand { services: [(port, ServiceIdentity::default())].into(), ..GatewayDemand::default() });
    discoverer.published.send_replace(Arc::new(Answers::of_wants(&wants, 1)));
    let both = demanded.wait_for(|demanded| demanded.wants.contains_key("team/web:443"));
    assert_eq!(timeout(SOON, both).await.expect("the route's Service is wanted").unwrap().wants.len(), 2);
    running.abort();
}
