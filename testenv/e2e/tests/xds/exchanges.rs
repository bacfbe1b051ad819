//! Exchanges about limits over mutual TLS, each a request of its own, as a gateway without an agent sends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use portcullis_report::{EXCHANGE_LIMITS, ReportRequest, ReportResponse};
use portcullis_xds::{GatewayReport, Limits, ReportSink, UnreadableReport};
use tokio::sync::Semaphore;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::site::{SOON, Site, snapshot};

/// Answers each report with itself, once it may.
struct Echo {
    may_answer: Semaphore,
    taken: AtomicUsize,
}

impl Echo {
    fn new() -> Arc<Self> {
        Arc::new(Self { may_answer: Semaphore::new(Semaphore::MAX_PERMITS), taken: AtomicUsize::new(0) })
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}

impl ReportSink for Echo {
    fn take(&self, _: GatewayReport) -> Result<(), UnreadableReport> {
        panic!("only limits are reported");
    }

    fn divide(&self, report: GatewayReport) -> BoxFuture<'_, Result<Bytes, UnreadableReport>> {
        self.taken.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let _permit = self.may_answer.acquire().await;
            Ok(report.content)
        })
    }
}

async fn site(test: &str, limits: Limits) -> (Site, Arc<Echo>) {
    let echo = Echo::new();
    (Site::with_reports(test, limits, snapshot(1, 1), Some(echo.clone())).await, echo)
}

async fn channel(site: &Site, name: &str) -> Channel {
    site.caller(&site.identity(name)).channel().await.unwrap()
}

/// Sends a report of that many bytes, and returns the length of the answer.
async fn exchange(channel: &Channel, node: &str, bytes: usize) -> Result<usize, Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let limits = vec![b'x'; bytes].into();
    let request = Request::new(ReportRequest { node: node.to_owned(), limits, ..ReportRequest::default() });
    let path = PathAndQuery::from_static(EXCHANGE_LIMITS);
    let codec = ProstCodec::<ReportRequest, ReportResponse>::default();
    let answered = tokio::time::timeout(SOON, client.unary(request, path, codec)).await;
    let answer = answered.map_err(|_| Status::deadline_exceeded("no answer came"))??;
    Ok(answer.into_inner().limits.len())
}

fn code<T>(answer: Result<T, Status>) -> Option<Code> {
    answer.err().map(|status| status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn exchange_is_that_of_a_node_of_the_certificate() {
    let (site, echo) = site("exchanges-names", Limits::default()).await;
    let own = channel(&site, "honest").await;
    assert_eq!(exchange(&own, "honest", 3).await.unwrap(), 3);
    for node in ["thief", "", "HONEST", &"x".repeat(10_000)] {
        let refused = code(exchange(&own, node, 3).await).unwrap();
        assert!([Code::PermissionDenied, Code::InvalidArgument].contains(&refused), "{node:.20}: {refused}");
    }
    assert_eq!(code(exchange(&own, "honest", 0).await), Some(Code::InvalidArgument));
    assert_eq!((echo.taken(), site.rejected("node") >= 3), (1, true));
}

/// Many more than streams that a peer may open: they have a bound of their own, and no pause.
#[tokio::test(flavor = "multi_thread")]
async fn exchanges_are_no_streams_of_their_peer() {
    let limits = Limits { stream_burst: 1, streams_per_peer: 1, ..Limits::default() };
    let (site, echo) = site("exchanges-apart", limits).await;
    let own = channel(&site, "gw").await;
    let mut stream = site.caller(&site.identity("gw")).delta().await.unwrap();
    stream.introduce("gw").await.unwrap();
    for _ in 0..100 {
        exchange(&own, "gw", 10).await.unwrap();
    }
    assert_eq!((echo.taken(), site.rejected("streams"), site.rejected("exchanges")), (100, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn exchanges_of_a_peer_are_bounded_in_number() {
    let limits = Limits { exchanges_per_peer: 3, ..Limits::default() };
    let (site, echo) = site("exchanges-number", limits).await;
    let (own, other) = (channel(&site, "greedy").await, channel(&site, "other").await);
    echo.may_answer.forget_permits(usize::MAX);
    let (wait, again) = (Arc::clone(&echo), channel(&site, "greedy").await);
    let three = tokio::spawn(async move { join_all((0..3).map(|_| exchange(&own, "greedy", 1))).await });
    site.until("three are under way", |_| wait.taken() == 3).await;
    assert_eq!(code(exchange(&again, "greedy", 1).await), Some(Code::ResourceExhausted));
    assert_eq!(site.rejected("exchanges"), 1);
    let others = tokio::spawn(async move { exchange(&other, "other", 1).await });
    site.until("another peer has its own", |_| wait.taken() == 4).await;
    echo.may_answer.add_permits(100);
    assert!(three.await.unwrap().iter().all(Result::is_ok));
    others.await.unwrap().unwrap();
    let mut left = 500;
    while exchange(&again, "greedy", 1).await.is_err() {
        left -= 1;
        assert!(left > 0, "they are over");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exchanges_without_end_end_the_connection() {
    let limits = Limits { exchange_burst: 20, ..Limits::default() };
    let (site, echo) = site("exchanges-rate", limits).await;
    let own = channel(&site, "rapid").await;
    let (mut begun, mut refused) = (0, None);
    while refused.is_none() && begun < 10_000 {
        refused = code(exchange(&own, "rapid", 1).await);
        begun += 1;
    }
    assert!((21..1_000).contains(&begun), "{begun}");
    assert!([Code::ResourceExhausted, Code::Unknown, Code::Unavailable].contains(&refused.unwrap()), "{refused:?}");
    assert!(site.rejected("exchanges") >= 1);
    // Ten make up for each second.
    site.until("time makes up for them", |_| echo.taken() >= 20).await;
    let again = async {
        loop {
            let Ok(channel) = site.caller(&site.identity("rapid")).channel().await else { continue };
            if exchange(&channel, "rapid", 1).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, again).await.unwrap();
    exchange(&channel(&site, "other").await, "other", 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn exchanges_of_a_peer_are_bounded_in_bytes() {
    let limits = Limits { exchange_bytes: 100_000, activity: 80_000, ..Limits::default() };
    let (site, echo) = site("exchanges-bytes", limits).await;
    let own = channel(&site, "loud").await;
    assert!(exchange(&own, "loud", 90_000).await.is_err(), "one report is too long");
    assert_eq!((echo.taken(), site.rejected("message")), (0, 1));
    let mut taken = 0;
    while exchange(&own, "loud", 70_000).await.is_ok() {
        taken += 1;
        assert!(taken < 100, "more than there is for them");
    }
    assert!(taken >= 2 && site.rejected("exchanges") >= 1, "{taken}");
    assert_eq!(exchange(&channel(&site, "other").await, "other", 70_000).await.unwrap(), 70_000);
    let mut left = 500;
    while exchange(&own, "loud", 1).await.is_err() {
        left -= 1;
        assert!(left > 0, "time makes up for them");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// As the filter of a gateway without an agent exchanges.
#[tokio::test(flavor = "multi_thread")]
async fn connection_is_kept_between_exchanges() {
    let (site, _) = site("exchanges-idle", Limits { idle: Duration::from_secs(1), ..Limits::default() }).await;
    let own = channel(&site, "calls").await;
    exchange(&own, "calls", 1).await.unwrap();
    let mute = site.caller(&site.identity("mute")).connect().await.unwrap();
    site.until("the connection that names no node is closed", |site| site.rejected("idle") > 0).await;
    assert_eq!(site.rejected("idle"), 1, "the other one is kept");
    exchange(&own, "calls", 1).await.unwrap();
    drop(mute);
}
