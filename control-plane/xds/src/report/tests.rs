use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use portcullis_report::ReportRequest;
use tokio::sync::mpsc;
use tonic::Code;

use super::service::GatewayStream;
use super::{GatewayReport, ReportSink, UnreadableReport};
use crate::admission::Admission;
use crate::limits::Limits;
use crate::membership::Membership;

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
    let stream = GatewayStream { sink: witness.clone(), admission: Admission::local(limits()), responses };
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
        let exchange = GatewayStream { sink, admission: Admission::local(limits()), responses };
        let ended = exchange.exchange(stream::iter(messages.clone().into_iter().map(Ok))).await;
        drop(exchange);
        let answer = queued.recv().await.map(|response| response.content.unwrap().limits);
        assert_eq!((ended.err().map(|status| status.code()), answer.as_deref()), (code, expected.map(str::as_bytes)));
    }
}

#[tokio::test]
async fn envoy_of_a_gateway_reports_no_activity_and_no_use() {
    let of_gateway = ["one", "edge.infra.gateway.portcullis.dev"];
    for (names, expected) in [(&of_gateway[..1], None), (&of_gateway[..], Some(Code::PermissionDenied))] {
        let witness = Arc::new(Witness::default());
        let (responses, _queued) = mpsc::channel(8);
        let stream = || GatewayStream {
            sink: witness.clone(),
            admission: Admission::of_certificate(names, limits()),
            responses: responses.clone(),
        };
        let of_limits = ReportRequest { limits: Bytes::from_static(b"a"), ..message("one", "", "") };
        let listened = stream().listen(stream::iter([Ok(message("one", "", "a"))])).await;
        let exchanged = stream().exchange(stream::iter([Ok(of_limits)])).await;
        for ended in [listened, exchanged] {
            assert_eq!(ended.err().map(|status| status.code()), expected, "{names:?}");
        }
        let taken = witness.0.lock().unwrap().len();
        assert_eq!(taken, if expected.is_none() { 2 } else { 0 }, "{names:?}");
    }
}

#[tokio::test]
async fn report_of_an_instances_envoy_says_whose_it_is() {
    let (responses, _queued) = mpsc::channel(8);
    let witness = Arc::new(Witness::default());
    let names = ["one", "a.instance.portcullis.dev"];
    let admission = Admission::of_certificate(&names, limits());
    let stream = GatewayStream { sink: witness.clone(), admission, responses };
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
