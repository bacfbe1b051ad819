use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, Config};
use portcullis_api::SlicePort;
use portcullis_attach::ObjectName;
use portcullis_sources::{Input, ObjectSet, read_inputs};
use portcullis_translate::ServicePort;
use serde_json::{Value, json};

use super::super::super::metrics::ControlPlaneMetrics;
use super::super::super::reconciler::Reconciler;
use super::super::answers::Answers;
use super::super::discoverer::Discoverer;
use super::super::documents::DiscoveredDocuments;
use super::super::report::{Reporter, SourceReport, TaskReport};
use super::super::service::{FollowedService, follow_in_sessions};
use super::super::srv::Nameservers;
use super::super::want::{Want, WantedSource, Wants};
use super::{document, key, servers, settings};

/// The want of an upstream, and that of its object after an edit.
fn wants_around(edit: impl Fn(&mut Value)) -> [Wants; 2] {
    let before = document(&json!({"kubernetesService": true}));
    let mut after = before.as_ref().clone();
    edit(&mut after);
    [before, Arc::new(after)].map(|mut document| {
        let want = DiscoveredDocuments::default().put(&mut document, &settings()).unwrap();
        [(want.name().to_owned(), want)].into()
    })
}

#[test]
fn answers_of_another_upstream_are_dropped() {
    let other_authority = document(&Value::Null)["spec"]["clientConfig"]["caData"].clone();
    let endpoint = |ip: &str| json!({"endpoint": format!("https://{ip}:6443")});
    for (path, value, stays) in [
        ("/spec/dispatchPolicies", json!([{"rules": [{"verbs": ["get"]}]}]), true),
        ("/spec/servers", json!([endpoint("10.0.0.8"), endpoint("10.0.0.9")]), true),
        ("/spec/servers", json!([endpoint("10.0.0.8")]), false),
        ("/spec/clientConfig/caData", other_authority, false),
        ("/spec/clientConfig/bearerToken", json!("Yg=="), false),
        ("/spec/clientConfig/serverName", json!("b.test"), false),
        ("/metadata/uid", json!("v"), false),
    ] {
        let [before, after] = wants_around(|document| {
            let (parent, member) = path.rsplit_once('/').unwrap();
            document.pointer_mut(parent).unwrap()[member] = value.clone();
        });
        let mut answers = Answers::of_wants(&before, 1);
        let has_servers = |answers: &Answers| {
            answers.of(Some(&after["a.test"])) != Some(portcullis_api::Discovered::Servers(Vec::new()))
        };
        assert_eq!(has_servers(&answers), stays, "{path} {value}, before the discoverer knows");
        answers.follow(&after, SystemTime::now());
        assert_eq!(has_servers(&answers), stays, "{path} {value}");
        assert_eq!(answers.by_name["a.test"].servers.is_empty(), !stays, "{path} {value}");
    }
}

#[tokio::test]
async fn reports_of_an_ended_task_are_not_taken() {
    // Without servers to ask, no task reports.
    let [wants, _] = wants_around(|_| {});
    let by_user = |user: &str| -> Wants {
        let mut want = wants["a.test"].as_ref().clone();
        let WantedSource::Upstream(access) = &mut want.source else { unreachable!() };
        access.servers.clear();
        access.user = Some(("X-Remote-User".to_owned(), user.to_owned()));
        [("a.test".to_owned(), Arc::new(want))].into()
    };
    let key = wants["a.test"].key.clone();
    let (_handle, mut discoverer) =
        Discoverer::new(None, Nameservers::System, None, Arc::new(ControlPlaneMetrics::default()));
    let (sender, _reports) = tokio::sync::mpsc::channel(1);
    discoverer.follow(&by_user("one"), &sender);
    discoverer.follow(&by_user("another"), &sender);
    for (start, found) in [(1, 0), (2, 1)] {
        let servers = SourceReport::Servers(servers(&["10.0.0.1"]));
        discoverer.take(TaskReport { key: key.clone(), start, found: servers });
        assert_eq!(discoverer.answers.by_name["a.test"].servers.len(), found, "of run {start}");
    }
}

/// The wants of ports of a Service behind a Gateway's route.
fn gateway_wants(ports: &[u16]) -> Wants {
    let service = ObjectName::new("team", "web");
    let want = |port: &u16| {
        let port = ServicePort { service: service.clone(), port: *port };
        Arc::new(Want::of_service(&port, "u", "", &settings()))
    };
    ports.iter().map(want).map(|want| (want.name().to_owned(), want)).collect()
}

#[tokio::test]
async fn answers_for_gateways_stay_until_services_are_wanted() {
    let (_handle, mut discoverer) =
        Discoverer::new(None, Nameservers::System, None, Arc::new(ControlPlaneMetrics::default()));
    let (sender, _reports) = tokio::sync::mpsc::channel(1);
    let [of_cluster, _] = wants_around(|_| {});
    discoverer.answers.by_name.extend(Answers::of_wants(&gateway_wants(&[443]), 1).by_name);
    discoverer.answers.by_name.extend(Answers::of_wants(&of_cluster, 1).by_name);
    let mut names = |is_whole: bool| -> Vec<String> {
        discoverer.is_whole = is_whole;
        discoverer.follow(&Wants::new(), &sender);
        discoverer.answers.by_name.keys().cloned().collect()
    };
    assert_eq!(names(false), ["team/web:443"], "no verdict about a Gateway yet");
    assert_eq!(names(true), [""; 0]);
}

#[test]
fn ports_of_a_service_share_one_task() {
    let wants = gateway_wants(&[443, 8443]);
    let tasks: BTreeSet<&str> = wants.values().map(|want| want.key.task()).collect();
    assert_eq!((wants.len(), tasks), (2, BTreeSet::from(["team/web"])));
    assert_eq!(key("s").task(), "a.test");
}

/// The want of an object whose servers are found by a Service alone.
fn sole_want() -> Arc<Wants> {
    let mut document = document(&json!({"service": {"namespace": "ns", "name": "tenant", "port": 6443}}));
    Arc::make_mut(&mut document)["spec"]["servers"] = json!([]);
    let want = DiscoveredDocuments::default().put(&mut document, &settings()).unwrap();
    assert!(want.is_sole);
    Arc::new([(want.name().to_owned(), want)].into())
}

/// A control plane without a memory starts while a source is away for a moment.
#[tokio::test]
async fn failure_of_a_source_is_no_answer_at_the_start() {
    let wants = sole_want();
    let (mut handle, mut discoverer) =
        Discoverer::new(None, Nameservers::System, None, Arc::new(ControlPlaneMetrics::default()));
    discoverer.answers.has_kubernetes = true;
    discoverer.answers.follow(&wants, SystemTime::now());
    discoverer.published.send_replace(Arc::new(discoverer.answers.clone()));
    let waiting = async {
        assert!(handle.want(&wants, true).await);
        handle.answers.borrow().by_name["a.test"].servers.len()
    };
    let answering = async {
        let mut answers = discoverer.answers.clone();
        answers.by_name.get_mut("a.test").unwrap().fail("away".to_owned(), SystemTime::now());
        discoverer.published.send_replace(Arc::new(answers));
        // Until the waiting one has seen it, in whatever order the two are run.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        discoverer.published.send_replace(Arc::new(Answers::of_wants(&wants, 1)));
    };
    assert_eq!(tokio::join!(waiting, answering).0, 1, "gateways keep what they have until a server is known");
    let [beside_written, _] = wants_around(|_| {});
    assert!(!handle.want(&Arc::new(beside_written), true).await, "an object with other servers waits for no source");
    let mut renewed = wants["a.test"].as_ref().clone();
    renewed.allow_loopback = true;
    handle.want(&wants, true).await;
    discoverer.published.send_replace(Arc::new(discoverer.answers.clone()));
    let renewed = Arc::new([("a.test".to_owned(), Arc::new(renewed))].into());
    assert!(!handle.want(&renewed, true).await, "nor does one whose source is known");
}

/// A Kubernetes API whose connections open and that says nothing.
#[tokio::test]
async fn silent_kubernetes_api_is_a_failed_source() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let slices: Api<EndpointSlice> =
        Api::namespaced(Client::try_from(Config::new(url.parse().unwrap())).unwrap(), "ns");
    let (sender, mut reports) = tokio::sync::mpsc::channel(1);
    let to = Reporter::new(key("s"), 1, sender);
    let service = FollowedService { name: "tenant".to_owned(), uid: None, ports: vec![(SlicePort::Only, to)] };
    let following = follow_in_sessions(Duration::from_millis(20), &slices, &service);
    let found = tokio::select! {
        () = following => None,
        report = tokio::time::timeout(Duration::from_secs(10), reports.recv()) => report.unwrap(),
    };
    let SourceReport::Failed(why) = found.unwrap().found else { panic!("it has answered") };
    assert!(why.contains("no answer in time"), "{why}");
}

#[test]
fn wants_are_those_of_accepted_documents() {
    let service = |name: &str| json!({"service": {"namespace": "ns", "name": name, "port": 6443}});
    let serving = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let encoded = |text: String| STANDARD.encode(text);
    let named = |name: &str, discovery: &Value| {
        let mut document = document(discovery).as_ref().clone();
        document["metadata"] = json!({"name": name});
        document["spec"]["secureServing"] = json!({
            "certData": encoded(serving.cert.pem()), "keyData": encoded(serving.signing_key.serialize_pem()),
        });
        document
    };
    let mut refused = named("b.test", &service("refused"));
    refused["spec"]["secureServing"] = json!({});
    let mut documents = vec![json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "a"}, "spec": {},
    })];
    documents.extend([named("a.test", &service("first")), named("a.test", &service("second")), refused]);
    let text: Vec<_> = documents.iter().map(Value::to_string).collect();
    let input = Input::Text { name: "f.yaml".to_owned(), bytes: text.join("\n---\n").into() };
    let set: ObjectSet = read_inputs(&[input]).unwrap();
    let mut reconciler = Reconciler::resume(None, Duration::ZERO);
    reconciler.discover(Arc::new(Answers { has_kubernetes: true, ..Answers::default() }));
    let reconciled = reconciler.reconcile(&set, &BTreeSet::new(), Instant::now()).unwrap();
    let accepted: Vec<_> = reconciled.diagnoses.iter().filter(|one| one.accepted).map(|one| &one.name).collect();
    let sources: Vec<_> = reconciled.wants.values().map(|want| want.key.source.as_str()).collect();
    assert_eq!(sources, ["Service ns/first port 6443"], "{accepted:?}");
}
