//! Messages of many small fields, which are structures of hundreds of bytes once they are decoded, and large ones that stay in part.

use std::time::Duration;

use bytes::Bytes;
use portcullis_xds::Limits;
use prost::Message;

use crate::site::{CDS, Caller, Site, request, snapshot};

const DISCOVERY: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const HEALTH: &str = "envoy.service.health.v3.HealthDiscoveryService/StreamHealthCheck";

/// A message as gRPC sends it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// A stream that sends these bytes, and more if there are any to come.
struct Raw {
    answer: h2::client::ResponseFuture,
    body: h2::SendStream<Bytes>,
    _client: h2::client::SendRequest<Bytes>,
}

impl Raw {
    async fn open(caller: &Caller, method: &str) -> Self {
        let stream = caller.connect().await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut client = client.ready().await.unwrap();
        let post = tonic::codegen::http::Request::post(format!("http://xds.internal/{method}"));
        let post = post.header("content-type", "application/grpc").body(()).unwrap();
        let (answer, body) = client.send_request(post, false).unwrap();
        Self { answer, body, _client: client }
    }

    /// Whether all was taken before the stream ended.
    async fn send(&mut self, data: &Bytes) -> bool {
        for piece in data.chunks(16 << 10) {
            self.body.reserve_capacity(piece.len());
            let mut room = 0;
            while room < piece.len() {
                match std::future::poll_fn(|context| self.body.poll_capacity(context)).await {
                    Some(Ok(more)) => room = more,
                    Some(Err(_)) | None => return false,
                }
            }
            if self.body.send_data(data.slice_ref(piece), false).is_err() {
                return false;
            }
        }
        true
    }

    /// Waits for a part of the answer, which goes on.
    async fn heard(&mut self) -> h2::RecvStream {
        let mut content = (&mut self.answer).await.unwrap().into_body();
        content.data().await.unwrap().unwrap();
        content
    }

    /// Waits for the end of the stream.
    async fn ended(self) {
        if let Ok(answer) = self.answer.await {
            let mut content = answer.into_body();
            while let Some(Ok(data)) = content.data().await {
                let _ = content.flow_control().release_capacity(data.len());
            }
        }
    }
}

#[test]
fn fields_are_bounded_before_they_are_decoded() {
    run_alone("fields::many_small_fields");
}

#[test]
fn memory_of_large_messages_is_given_back() {
    run_alone("fields::large_messages_that_are_read");
}

/// Runs a test in a process of its own, as other tests need memory, too.
fn run_alone(test: &str) {
    let alone = ["--exact", test, "--ignored", "--nocapture"];
    let output = std::process::Command::new(std::env::current_exe().unwrap()).args(alone).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, trouble) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}{trouble}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the memory of its process, and is run in one of its own"]
async fn many_small_fields() {
    const BYTES: usize = 7 << 20;
    let site = Site::start("fields", Limits::default(), snapshot(1, 1)).await;
    let hostile = site.caller(&site.identity("hostile"));
    // Locators, names, nodes' extensions, and entries of versions, then clusters and endpoints of a health report.
    let node = |field: &[u8]| field.repeat((1 << 20) / field.len());
    let within = |outer: u8, content: Vec<u8>| {
        let mut message = vec![outer];
        prost::encoding::encode_varint(content.len() as u64, &mut message);
        [message, content].concat()
    };
    let flood = |field: &[u8]| field.repeat(BYTES / field.len());
    let cases = [
        (DISCOVERY, flood(&[0x42, 0])),
        (DISCOVERY, flood(&[0x1a, 0])),
        (DISCOVERY, flood(&[0x2a, 2, 0x0a, 0])),
        (DISCOVERY, within(0x0a, node(&[0x4a, 0]))),
        (HEALTH, within(0x12, node(&[0x12, 0])[..200_000].to_vec())),
        (HEALTH, within(0x12, within(0x12, within(0x12, node(&[0x12, 0])[..200_000].to_vec())))),
    ];
    let before = peak();
    for (number, (method, message)) in cases.into_iter().enumerate() {
        let message = Bytes::from(framed(&message));
        for _ in 0..4 {
            let mut stream = Raw::open(&hostile, method).await;
            stream.send(&message).await;
            let end = tokio::time::timeout(crate::site::SOON, stream.ended()).await;
            assert!(end.is_ok(), "case {number} goes on");
        }
    }
    let grown = peak().saturating_sub(before);
    assert!(grown < 100 << 20, "{} MiB for messages of 7", grown >> 20);
    assert!(site.rejected("message") >= 8);
    // Others are served.
    site.caller(&site.identity("other")).delta().await.unwrap().introduce("other").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the memory of its process, and is run in one of its own"]
async fn large_messages_that_are_read() {
    const BYTES: usize = 7 << 20;
    let site = Site::start("fields-read", Limits::default(), snapshot(1, 1)).await;
    let caller = site.caller(&site.identity("large"));
    // Names that are given up are not kept.
    let mut first = request("large", CDS);
    first.resource_names_unsubscribe = (0..BYTES / 1_000).map(|number| format!("{number:0>1000}")).collect();
    let message = Bytes::from(framed(&first.encode_to_vec()));
    let (before, mut open) = (peak(), Vec::new());
    for _ in 0..16 {
        let mut stream = Raw::open(&caller, DISCOVERY).await;
        assert!(stream.send(&message).await);
        let answer = tokio::time::timeout(crate::site::SOON, stream.heard()).await.expect("it is read");
        open.push((stream, answer));
    }
    let grown = peak().saturating_sub(before);
    assert!(grown < 50 << 20, "{} MiB for 16 messages of 7", grown >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_those_that_wait_for_a_snapshot_are_bounded() {
    let limits = Limits { name_bytes: 1 << 20, ..Limits::default() };
    let site = Site::start("fields-waiting", limits, snapshot(1, 1)).await;
    site.snapshots.send_replace(None);
    let caller = site.caller(&site.identity("early"));
    let mut first = request("early", CDS);
    first.resource_names_subscribe = (0..5_000).map(|number| format!("{number:0>90}")).collect();
    let (mut one, mut other) = (caller.delta().await.unwrap(), caller.delta().await.unwrap());
    for stream in [&one, &other] {
        stream.says.send(first.clone()).await.unwrap();
    }
    // Whichever is read later.
    let (refused, waiting) = tokio::select! {
        answer = one.hear() => (answer, &mut other),
        answer = other.hear() => (answer, &mut one),
    };
    assert_eq!(refused.unwrap_err().code(), tonic::Code::ResourceExhausted);
    site.snapshots.send_replace(Some(snapshot(1, 1)));
    assert!(waiting.hear().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn large_message_that_stays_in_part_is_given_up() {
    let limits = Limits { message_time: Duration::from_millis(300), ..Limits::default() };
    let site = Site::start("fields-part", limits, snapshot(1, 1)).await;
    let caller = site.caller(&site.identity("slow"));
    let mut stream = Raw::open(&caller, DISCOVERY).await;
    stream.send(&Bytes::from(framed(&request("slow", CDS).encode_to_vec()))).await;
    site.until("it is let in", |site| site.registry.nodes().iter().any(|node| node.connected)).await;
    let whole = framed(&vec![0; 1 << 20]);
    stream.send(&Bytes::copy_from_slice(&whole[..whole.len() / 2])).await;
    site.until("it is given up", |site| site.rejected("message") == 1).await;
    site.until("nothing is left of it", |site| !site.registry.nodes().iter().any(|node| node.connected)).await;
}

/// The largest number of bytes of this process's memory that were in use.
fn peak() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1_024
}
