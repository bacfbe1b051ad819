use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use portcullis_filter_config::NODE_GATEWAY;
use portcullis_report::{EnvoyOfGateway, ReportRequest};
use tokio::sync::mpsc;
use tonic::Code;

use super::service::GatewayStream;
use super::{GatewayReport, ReportSink, UnreadableReport};
use crate::admission::Admission;
use crate::limits::Limits;
use crate::membership::Membership;
use crate::node::{NodeInfo, OneView, ReportScope, Unserved, View, Views};

/// Remembers every report; `bad` cannot be read.
#[derive(Default)]
struct Witness(Mutex<Vec<GatewayReport>>);

impl ReportSink for Witness {
    fn take(&self, report: GatewayReport) -> Result<(), UnreadableReport> {
        if report.content == "bad" {
            return Err(UnreadableReport("no report".to_owned()));
        }
        self.0.lock().unwrap().push(report);
        Ok(())
    }

    fn divide(&self, report: GatewayReport) -> BoxFuture<'_, Result<Bytes, UnreadableReport>> {
        let answer = report.content.clone();
        Box::pin(async move { self.take(report).map(|()| answer) })
    }
}

fn message(node: &str, instance: &str, content: &str) -> ReportRequest {
    let content = Bytes::copy_from_slice(content.as_bytes());
    ReportRequest { node: node.to_owned(), instance: instance.to_owned(), content, ..ReportRequest::default() }
}

fn limits() -> Limits {
    let short = Duration::from_millis(20);
    Limits { report_pause: Duration::ZERO, idle: short, reading: short, ..Limits::default() }
}

/// The outcome of a stream of these messages whose acknowledgements are read, and the reports that were taken.
async fn stream_of(messages: Vec<ReportRequest>) -> (Option<Code>, Vec<(String, String, Bytes)>) {
    let witness = Arc::new(Witness::default());
    let (responses, mut queued) = mpsc::channel(1);
    let stream = GatewayStream {
        sink: witness.clone(),
        views: Arc::new(OneView),
        admission: Admission::local(limits()),
        responses,
    };
    let reader = tokio::spawn(async move { while queued.recv().await.is_some() {} });
    let ended = stream.listen(stream::iter(messages.into_iter().map(Ok))).await;
    drop(stream);
    reader.await.unwrap();
    let taken = witness.0.lock().unwrap().drain(..).map(|one| (one.node, one.instance, one.content)).collect();
    (ended.err().map(|status| status.code()), taken)
}

#[tokio::test]
async fn report_is_that_of_the_node_in_the_first_message() {
    let taken =
        |node: &str, content: &'static str| (node.to_owned(), String::new(), Bytes::from_static(content.as_bytes()));
    let table = [
        (vec![message("one", "", "a"), message("", "", "b")], None, vec![taken("one", "a"), taken("one", "b")]),
        (vec![message("one", "", ""), message("one", "", "b")], None, vec![taken("one", "b")]),
        (vec![message("", "", "a")], Some(Code::InvalidArgument), vec![]),
        (vec![message(&"x".repeat(257), "", "a")], Some(Code::InvalidArgument), vec![]),
        (vec![message("one", &"x".repeat(64), "a")], Some(Code::InvalidArgument), vec![]),
        (vec![message("one", "", "a"), message("two", "", "b")], Some(Code::InvalidArgument), vec![taken("one", "a")]),
        (vec![message("one", "", "bad"), message("", "", "b")], Some(Code::InvalidArgument), vec![]),
    ];
    for (messages, code, expected) in table {
        assert_eq!(stream_of(messages.clone()).await, (code, expected), "{messages:?}");
    }
}

#[tokio::test]
async fn exchange_takes_one_report_of_limits_alone() {
    let limited = |limits: &str| ReportRequest {
        node: "one".to_owned(),
        limits: Bytes::copy_from_slice(limits.as_bytes()),
        ..ReportRequest::default()
    };
    let both = ReportRequest { limits: Bytes::from_static(b"a"), ..message("one", "", "a") };
    let table = [
        (vec![limited("a"), limited("b")], None, Some("a")),
        (vec![limited("bad")], Some(Code::InvalidArgument), None),
        (vec![ReportRequest { node: String::new(), ..limited("a") }], Some(Code::InvalidArgument), None),
        (vec![message("one", "", "a")], Some(Code::InvalidArgument), None),
        (vec![both], Some(Code::InvalidArgument), None),
        (vec![], None, None),
    ];
    for (messages, code, expected) in table {
        let (responses, mut queued) = mpsc::channel(1);
        let sink = Arc::new(Witness::default());
        let exchange =
            GatewayStream { sink, views: Arc::new(OneView), admission: Admission::local(limits()), responses };
        let ended = exchange.exchange(stream::iter(messages.clone().into_iter().map(Ok))).await;
        drop(exchange);
        let answer = queued.recv().await.map(|response| response.content.unwrap().limits);
        assert_eq!((ended.err().map(|status| status.code()), answer.as_deref()), (code, expected.map(str::as_bytes)));
    }
}

/// Judges as a control plane with Gateways does: by the certificate, and of a process of this machine by its metadata.
struct ByGateway;

impl Views for ByGateway {
    fn view(&self, _: &NodeInfo) -> Result<View, Unserved> {
        Ok(View::default())
    }

    fn reported(&self, node: &NodeInfo) -> Result<ReportScope, Unserved> {
        let named = node.metadata.get(NODE_GATEWAY).cloned();
        let membership = match (named, node.membership.clone()) {
            (Some(named), Membership::Local) => Membership::Bound([named].into()),
            (_, of_certificate) => of_certificate,
        };
        Ok(ReportScope { membership, views: None })
    }
}

/// Messages of an Envoy of a Gateway: activity and limits.
fn of_gateway(node: &str, gateway: &str) -> [ReportRequest; 2] {
    let named = EnvoyOfGateway { node: node.to_owned(), gateway: gateway.to_owned() };
    let [activity, limits] = [message("", "", "a"), ReportRequest { limits: "a".into(), ..message("", "", "") }];
    [activity, limits].map(|message| ReportRequest { of_gateway: Some(named.clone()), ..message })
}

/// The outcome of both kinds of streams of one peer; its reports by node and Gateway.
async fn both_streams(peer: Option<&[&str]>, messages: [ReportRequest; 2]) -> Result<(String, Option<String>), Code> {
    let witness = Arc::new(Witness::default());
    let (responses, _queued) = mpsc::channel(8);
    let admission =
        || peer.map_or_else(|| Admission::local(limits()), |names| Admission::of_certificate(names, limits()));
    let stream = || GatewayStream {
        sink: witness.clone(),
        views: Arc::new(ByGateway),
        admission: admission(),
        responses: responses.clone(),
    };
    let [activity, use_of_limits] = messages;
    let listened = stream().listen(stream::iter([Ok(activity)])).await.map_err(|status| status.code());
    let exchanged = stream().exchange(stream::iter([Ok(use_of_limits)])).await.map_err(|status| status.code());
    assert_eq!(listened, exchanged);
    let taken = std::mem::take(&mut *witness.0.lock().unwrap());
    assert_eq!(taken.len(), if listened.is_ok() { 2 } else { 0 });
    listened.map(|()| {
        let origins: Vec<_> = taken.iter().map(|one| (one.node.clone(), one.gateway().map(str::to_owned))).collect();
        assert_eq!(origins[0], origins[1]);
        origins[0].clone()
    })
}

#[tokio::test]
async fn report_of_a_gateways_envoy_is_of_one_that_it_may_be_of() {
    let one = "edge.infra.gateway.portcullis.dev";
    let two = ["one", one, "own.team.gateway.portcullis.dev"];
    let no_gateway = || [message("one", "", "a"), ReportRequest { limits: "a".into(), ..message("one", "", "") }];
    let twice = || of_gateway("one", "infra/edge").map(|message| ReportRequest { node: "one".to_owned(), ..message });
    let node_of_both = "gateway:infra/edge+team/own/one";
    for (peer, messages, expected) in [
        (Some(&["one", one][..]), of_gateway("one", "infra/edge"), Ok(("gateway:infra/edge/one", Some("infra/edge")))),
        (Some(&two), of_gateway("one", "team/own"), Ok((node_of_both, Some("team/own")))),
        (None, of_gateway("one", "infra/edge"), Ok(("gateway:infra/edge/one", Some("infra/edge")))),
        (None, no_gateway(), Ok(("one", None))),
        (Some(&["one"]), no_gateway(), Ok(("one", None))),
        (Some(&["one", one]), no_gateway(), Err(Code::PermissionDenied)),
        (Some(&["one", one]), of_gateway("one", "team/own"), Err(Code::PermissionDenied)),
        (Some(&["one", one]), of_gateway("other", "infra/edge"), Err(Code::PermissionDenied)),
        (Some(&["one", one]), of_gateway("one", &"x".repeat(318)), Err(Code::InvalidArgument)),
        (
            Some(&["one", "*.infra.gateway.portcullis.dev"]),
            of_gateway("one", "infra/edge"),
            Err(Code::PermissionDenied),
        ),
        (Some(&["one"]), of_gateway("one", "infra/edge"), Err(Code::PermissionDenied)),
        (Some(&["one", "a.instance.portcullis.dev"]), of_gateway("one", "infra/edge"), Err(Code::PermissionDenied)),
        (None, twice(), Err(Code::InvalidArgument)),
        (None, of_gateway("", "infra/edge"), Err(Code::InvalidArgument)),
    ] {
        let found = both_streams(peer, messages.clone()).await;
        let expected = expected.map(|(node, gateway)| (node.to_owned(), gateway.map(str::to_owned)));
        assert_eq!(found, expected, "{peer:?} {messages:?}");
    }
}

#[tokio::test]
async fn gateway_of_a_stream_stays_the_same() {
    let [first, _] = of_gateway("one", "infra/edge");
    let [other, _] = of_gateway("one", "team/own");
    for (next, code) in [
        (first.clone(), None),
        (message("", "", "b"), None),
        (other, Some(Code::InvalidArgument)),
        (message("one", "", "b"), Some(Code::InvalidArgument)),
    ] {
        let (responses, _queued) = mpsc::channel(8);
        let (sink, admission) = (Arc::new(Witness::default()), Admission::local(limits()));
        let stream = GatewayStream { sink, views: Arc::new(ByGateway), admission, responses };
        let ended = stream.listen(stream::iter([Ok(first.clone()), Ok(next.clone())])).await;
        assert_eq!(ended.err().map(|status| status.code()), code, "{next:?}");
    }
}

#[tokio::test]
async fn report_of_an_instances_envoy_says_whose_it_is() {
    let (responses, _queued) = mpsc::channel(8);
    let witness = Arc::new(Witness::default());
    let names = ["one", "a.instance.portcullis.dev"];
    let admission = Admission::of_certificate(&names, limits());
    let stream = GatewayStream { sink: witness.clone(), views: Arc::new(OneView), admission, responses };
    let limited = ReportRequest { limits: Bytes::from_static(b"a"), ..message("one", "", "a") };
    stream.listen(stream::iter([Ok(limited)])).await.unwrap();
    let taken: Vec<_> = witness.0.lock().unwrap().drain(..).map(|one| (one.node, one.membership)).collect();
    let of_a = ("a/one".to_owned(), Membership::Instances(["a".to_owned()].into()));
    assert_eq!(taken, [of_a.clone(), of_a], "of its activity and of its limits");
}

#[tokio::test]
async fn report_stream_ends_when_its_peer_is_silent_or_deaf() {
    let stream = |responses| GatewayStream {
        sink: Arc::new(Witness::default()),
        views: Arc::new(OneView),
        admission: Admission::local(limits()),
        responses,
    };
    let (responses, _queued) = mpsc::channel(1);
    let silent = stream(responses.clone()).listen(stream::pending()).await;
    assert_eq!(silent.unwrap_err().code(), Code::DeadlineExceeded);
    let silent = stream(responses).exchange(stream::pending()).await;
    assert_eq!(silent.unwrap_err().code(), Code::DeadlineExceeded);
    let (responses, _queued) = mpsc::channel(1);
    let endless = stream::repeat_with(|| Ok(message("one", "", "a")));
    let deaf = stream(responses).listen(endless).await;
    assert_eq!(deaf.unwrap_err().code(), Code::DeadlineExceeded);
}
