//! Reports of gateways about themselves, over mutual TLS.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use portcullis_xds::{GatewayReport, Limits, ReportClient, ReportSink, UnreadableReport};
use tonic::Code;

use crate::site::{SOON, Site, snapshot};

/// Remembers the nodes of all reports, and their sizes.
#[derive(Default)]
struct Witness(Mutex<Vec<(String, usize)>>);

impl ReportSink for Witness {
    fn take(&self, report: GatewayReport) -> Result<(), UnreadableReport> {
        self.0.lock().unwrap().push((report.node, report.content.len()));
        Ok(())
    }

    fn divide(&self, report: GatewayReport) -> BoxFuture<'_, Result<Bytes, UnreadableReport>> {
        let answer = report.content.clone();
        Box::pin(async move { self.take(report).map(|()| answer) })
    }
}

impl Witness {
    fn taken(&self) -> Vec<(String, usize)> {
        self.0.lock().unwrap().clone()
    }
}

fn limits() -> Limits {
    Limits { report_pause: Duration::ZERO, activity: 100_000, ..Limits::default() }
}

async fn client(site: &Site, name: &str) -> ReportClient {
    ReportClient::new(site.caller(&site.identity(name)).channel().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_reports_as_itself_only() {
    let witness = Arc::new(Witness::default());
    let site = Site::with_reports("reports-names", limits(), snapshot(1, 1), Some(witness.clone())).await;
    let mut own = client(&site, "honest").await.open("honest", None).await.unwrap();
    own.send("", Bytes::from_static(b"abc")).await.unwrap();
    let thief = client(&site, "thief").await;
    for node in ["honest", "", "THIEF", &"x".repeat(10_000)] {
        let refused = thief.open(node, None).await.map(drop).unwrap_err();
        assert!([Code::PermissionDenied, Code::InvalidArgument].contains(&refused.code()), "{node:.20}: {refused}");
    }
    assert!(site.rejected("node") >= 3);
    assert_eq!(witness.taken(), [("honest".to_owned(), 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn report_that_is_too_large_ends_its_stream_alone() {
    let witness = Arc::new(Witness::default());
    let site = Site::with_reports("reports-size", limits(), snapshot(1, 1), Some(witness.clone())).await;
    let loud = client(&site, "loud").await;
    let mut stream = loud.open("loud", None).await.unwrap();
    let mut other = loud.open("loud", None).await.unwrap();
    assert!(stream.send("", vec![0; 200_000].into()).await.is_err());
    site.until("it is counted", |site| site.rejected("message") == 1).await;
    other.send("", vec![0; 50_000].into()).await.unwrap();
    assert_eq!(witness.taken(), [("loud".to_owned(), 50_000)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_reports_count_among_those_of_a_peer() {
    let witness = Arc::new(Witness::default());
    let limits = Limits { streams_per_peer: 2, ..limits() };
    let site = Site::with_reports("reports-streams", limits, snapshot(1, 1), Some(witness)).await;
    let greedy = client(&site, "greedy").await;
    let kept = [greedy.open("greedy", None).await.unwrap(), greedy.open("greedy", None).await.unwrap()];
    assert_eq!(greedy.open("greedy", None).await.map(drop).unwrap_err().code(), Code::ResourceExhausted);
    client(&site, "other").await.open("other", None).await.unwrap();
    drop(kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_read_one_after_the_other() {
    let witness = Arc::new(Witness::default());
    let limits = Limits { report_pause: Duration::from_secs(600), ..limits() };
    let site = Site::with_reports("reports-pace", limits, snapshot(1, 1), Some(witness.clone())).await;
    let mut hasty = client(&site, "hasty").await.open("hasty", None).await.unwrap();
    hasty.send("", Bytes::from_static(b"a")).await.unwrap();
    let second = tokio::time::timeout(Duration::from_millis(300), hasty.send("", Bytes::from_static(b"b"))).await;
    assert!(second.is_err(), "it waits for its turn");
    assert_eq!(witness.taken().len(), 1);
}

/// As the filter of a gateway without an agent reports: a stream for each report, with pauses.
#[tokio::test(flavor = "multi_thread")]
async fn connection_is_kept_between_streams_of_its_node() {
    let witness = Arc::new(Witness::default());
    let limits = Limits { idle: Duration::from_secs(1), ..limits() };
    let site = Site::with_reports("reports-idle", limits, snapshot(1, 1), Some(witness.clone())).await;
    let calls = client(&site, "calls").await;
    calls.open("calls", None).await.unwrap().send("", Bytes::from_static(b"a")).await.unwrap();
    // Its stream has ended before this connection begins, so it is looked at first.
    let mute = site.caller(&site.identity("mute")).connect().await.unwrap();
    site.until("the connection that names no node is closed", |site| site.rejected("idle") > 0).await;
    assert_eq!(site.rejected("idle"), 1, "the other one is kept");
    site.until("it is closed without another report", |site| site.rejected("idle") > 1).await;
    assert_eq!(witness.taken().len(), 1);
    drop(mute);
}

/// As an agent meets a control plane of an older release.
#[tokio::test(flavor = "multi_thread")]
async fn control_plane_without_the_service_says_so() {
    let site = Site::start("reports-none", limits(), snapshot(1, 1)).await;
    let opened = tokio::time::timeout(SOON, client(&site, "new").await.open("new", None)).await;
    assert_eq!(opened.unwrap().map(drop).unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn use_of_limits_is_answered_on_its_stream() {
    let witness = Arc::new(Witness::default());
    let site = Site::with_reports("reports-limits", limits(), snapshot(1, 1), Some(witness.clone())).await;
    let mut stream = client(&site, "gw-1").await.open("gw-1", None).await.unwrap();
    for content in ["one", "two"] {
        assert_eq!(stream.divide(Bytes::from_static(content.as_bytes())).await.unwrap(), content);
    }
    stream.send("", Bytes::from_static(b"three")).await.unwrap();
    let taken = [3, 3, 5].map(|length| ("gw-1".to_owned(), length));
    assert_eq!(witness.taken(), taken);
}
