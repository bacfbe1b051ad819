//! The bounds of a peer with a certificate.

use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use portcullis_harness::certs::CertSpec;
use portcullis_xds::Limits;
use tokio::io::AsyncReadExt;

use crate::site::{CDS, Caller, Delta, SDS, SOON, Site, request, snapshot};

fn names(count: usize, length: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:0length$}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_has_so_many_connections_and_others_have_theirs() {
    let limits = Limits { connections_per_peer: 2, ..Limits::default() };
    let site = Site::start("bounds-connections", limits, snapshot(1, 1)).await;
    let greedy = site.caller(&site.identity("greedy"));
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut stream = greedy.delta().await.unwrap();
        stream.introduce("greedy").await.unwrap();
        kept.push(stream);
    }
    assert!(greedy.delta().await.is_err());
    assert!(site.rejected("connections") > 0);
    site.caller(&site.identity("other")).delta().await.unwrap().introduce("other").await.unwrap();
    kept.pop();
    let again = || async { greedy.delta().await?.introduce("greedy").await };
    let mut left = 500;
    while again().await.is_err() {
        left -= 1;
        assert!(left > 0, "a connection that went makes room");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_an_instance_leave_room_for_others() {
    let limits = Limits { connections: 2, connections_per_instance: 3, ..Limits::default() };
    let site = Site::start("bounds-instances", limits, snapshot(1, 1)).await;
    let of = |instance: &str, node: &str| {
        let dns = vec![format!("{instance}.instance.portcullis.dev")];
        site.caller(&site.client_ca.issue(&CertSpec { dns, ..CertSpec::client(node, [""; 0]) }).unwrap())
    };
    let mut kept = Vec::new();
    for number in 0..3 {
        let node = format!("a-{number}");
        let mut stream = of("a", &node).delta().await.unwrap();
        stream.introduce(&node).await.unwrap();
        kept.push(stream);
    }
    assert!(of("a", "a-3").delta().await.is_err(), "each is another peer");
    assert!(site.rejected("connections") > 0);
    of("b", "b-0").delta().await.unwrap().introduce("b-0").await.unwrap();
    for node in ["free-0", "free-1"] {
        let mut stream = site.caller(&site.identity(node)).delta().await.unwrap();
        stream.introduce(node).await.unwrap();
        kept.push(stream);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_has_so_many_streams_over_all_its_connections() {
    let limits = Limits { streams_per_peer: 3, ..Limits::default() };
    let site = Site::start("bounds-streams", limits, snapshot(1, 1)).await;
    let greedy = site.caller(&site.identity("greedy"));
    let mut kept = Vec::new();
    let channels = [greedy.channel().await.unwrap(), greedy.channel().await.unwrap()];
    for number in 0..3 {
        let mut stream = Delta::open(channels[number % 2].clone()).await.unwrap();
        stream.introduce("greedy").await.unwrap();
        kept.push(stream);
    }
    let refused = Delta::open(channels[1].clone()).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert_eq!(site.rejected("streams"), 1);
    site.caller(&site.identity("other")).delta().await.unwrap().introduce("other").await.unwrap();
}

/// Streams that are opened and reset, again and again, end the connection.
#[tokio::test(flavor = "multi_thread")]
async fn rapid_resets_end_the_connection() {
    let site = Site::start("bounds-resets", Limits::default(), snapshot(1, 1)).await;
    let stream = site.caller(&site.identity("rapid")).connect().await.unwrap();
    let (mut client, mut connection) = h2::client::handshake(stream).await.unwrap();
    let mut pings = connection.ping_pong().unwrap();
    let ended = tokio::spawn(connection);
    let uri = "http://xds.internal/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
    let mut opened = 0;
    let mut open = async || {
        loop {
            client = client.clone().ready().await?;
            let request = tonic::codegen::http::Request::post(uri).body(()).unwrap();
            let (_, mut body) = client.send_request(request, false)?;
            body.send_reset(h2::Reason::CANCEL);
            opened += 1;
            // No further ahead of the server than this, however busy the machine is.
            if opened % 50 == 0 {
                pings.ping(h2::Ping::opaque()).await?;
            }
        }
        #[allow(unreachable_code, reason = "says the type")]
        Ok::<(), h2::Error>(())
    };
    let result = tokio::time::timeout(SOON, open()).await.expect("the connection ends");
    assert!(result.is_err());
    let _ = tokio::time::timeout(SOON, ended).await.expect("the connection ends");
    assert!(opened < 5_000, "{opened}");
    assert!(site.registry.nodes().is_empty());
}

/// Each is answered, so that no bound of resets ends them.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_no_service_end_the_connection() {
    let site = Site::start("bounds-paths", Limits::default(), snapshot(1, 1)).await;
    let caller = site.caller(&site.identity("rapid"));
    for path in ["/", "/no.Service/Method", "/envoy.service.discovery.v3.AggregatedDiscoveryService"] {
        let before = site.rejected("streams");
        let stream = caller.connect().await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        let ended = tokio::spawn(connection);
        let mut answered = 0;
        let mut ask = async || {
            while answered < 1_000 {
                client = client.clone().ready().await?;
                let request =
                    tonic::codegen::http::Request::post(format!("http://xds.internal{path}")).body(()).unwrap();
                client.send_request(request, true)?.0.await?;
                answered += 1;
            }
            Ok::<(), h2::Error>(())
        };
        let asked = tokio::time::timeout(SOON, ask()).await.expect("the connection ends");
        assert!(asked.is_err(), "{path}: {answered}");
        let _ = tokio::time::timeout(SOON, ended).await.expect("the connection ends");
        assert!(site.rejected("streams") > before, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_on_which_nobody_says_who_it_is_ends() {
    let idle = Duration::from_millis(200);
    let limits = Limits { idle, ..Limits::default() };
    let site = Site::start("bounds-idle", limits, snapshot(1, 1)).await;
    let caller = site.caller(&site.identity("shy"));
    // Without a word of HTTP/2.
    let mut bare = caller.connect().await.unwrap();
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(SOON, bare.read_to_end(&mut rest)).await.expect("it is closed");
    // With a stream that says nothing.
    let mut stream = caller.delta().await.unwrap();
    let ended = tokio::time::timeout(SOON, stream.hears.message()).await.expect("it is ended");
    assert!(ended.is_err(), "{ended:?}");
    site.until("both are counted", |site| site.rejected("idle") >= 2).await;
    // A client that has named its node may be silent. On a busy machine it may be too late to do so; each such rejection is
    // counted.
    let speaks = async || {
        loop {
            let (before, since) = (site.rejected("idle"), Instant::now());
            if let Ok(mut stream) = caller.delta().await
                && stream.introduce("shy").await.is_ok()
            {
                return stream;
            }
            assert!(since.elapsed() >= idle, "turned away after {:?}", since.elapsed());
            site.until("he came too late", |site| site.rejected("idle") > before).await;
        }
    };
    let mut good = tokio::time::timeout(SOON, speaks()).await.expect("he is let in");
    tokio::time::sleep(Duration::from_millis(700)).await;
    site.snapshots.send_replace(Some(snapshot(2, 1)));
    // The first response is not acknowledged; another type shows that the stream is open.
    let request = DeltaDiscoveryRequest {
        type_url: SDS.to_owned(),
        resource_names_subscribe: vec!["s".to_owned()],
        ..Default::default()
    };
    good.ask(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_bounded_before_and_after_a_node_is_let_in() {
    let limits = Limits { introduction: 100_000, message: 1_000_000, ..Limits::default() };
    let site = Site::start("bounds-messages", limits, snapshot(1, 1)).await;
    let caller = site.caller(&site.identity("loud"));
    let said = |count: usize| {
        let mut request = request("loud", CDS);
        request.resource_names_subscribe = names(count, 90);
        request
    };
    let mut loud = caller.delta().await.unwrap();
    assert!(loud.ask(said(2_000)).await.is_err());
    site.until("it is counted", |site| site.rejected("message") == 1).await;
    let mut stream = caller.delta().await.unwrap();
    stream.introduce("loud").await.unwrap();
    let secrets = DeltaDiscoveryRequest { type_url: SDS.to_owned(), ..said(2_000) };
    stream.ask(secrets).await.unwrap();
    assert!(stream.ask(said(20_000)).await.is_err());
    site.until("it is counted", |site| site.rejected("message") == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_bounded_in_number_and_length() {
    let limits = Limits { names: 1_000, ..Limits::default() };
    let site = Site::start("bounds-names", limits, snapshot(1, 1)).await;
    let caller = site.caller(&site.identity("curious"));
    for (count, length, is_good) in [(900, 10, true), (1_100, 10, false), (1, 2_000, false)] {
        let mut stream = caller.delta().await.unwrap();
        stream.introduce("curious").await.unwrap();
        let mut request = request("curious", SDS);
        request.resource_names_subscribe = names(count, length);
        assert_eq!(stream.ask(request).await.is_ok(), is_good, "{count} names of {length} bytes");
    }
    assert_eq!(site.rejected("names"), 2);
    // Types are names, too.
    let mut stream = caller.delta().await.unwrap();
    stream.introduce("curious").await.unwrap();
    for number in 0..40 {
        let _ = stream.says.send(request("curious", &format!("type.googleapis.com/t{number}"))).await;
    }
    assert!(stream.hear().await.is_err());
}

/// Responses to a client that does not read are not kept several times over. In a process of its own, as other tests need
/// memory, too.
#[test]
fn unread_bytes_are_bounded_over_all_streams_of_a_peer() {
    let alone = ["--exact", "bounds::streams_that_nobody_reads", "--ignored", "--nocapture"];
    let output = std::process::Command::new(std::env::current_exe().unwrap()).args(alone).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, trouble) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && told.contains("1 passed"), "{told}{trouble}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the memory of its process, and is run in one of its own"]
async fn streams_that_nobody_reads() {
    const MANY: usize = 8;
    const BYTES: usize = 48 << 20;
    let limits = Limits { unread: BYTES + (1 << 20), ..Limits::default() };
    let site = Site::start("bounds-unread", limits, snapshot(1, BYTES)).await;
    let greedy = site.caller(&site.identity("greedy"));
    let before = resident();
    let mut kept = Vec::new();
    for _ in 0..MANY {
        kept.push(unread(&greedy).await);
    }
    let asked = |site: &Site| site.registry.nodes().iter().filter(|node| node.connected).count() == MANY;
    site.until("all have asked", asked).await;
    let grown = resident().saturating_sub(before);
    // All share the snapshot's bytes, but for what the transport has of each.
    assert!(grown < BYTES / 4, "{grown} bytes for {MANY} streams of {BYTES}");
    // Others are not kept waiting.
    site.caller(&site.identity("other")).delta().await.unwrap().introduce("other").await.unwrap();
}

/// It has room that others may wait for. Looks at connections come as often as those for idle ones.
fn short_reading() -> Limits {
    Limits { reading: Duration::from_secs(1), idle: Duration::from_millis(500), ..Limits::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_that_does_not_read_is_disconnected() {
    let site = Site::start("bounds-unread-time", short_reading(), snapshot(1, 1 << 20)).await;
    let _kept = unread(&site.caller(&site.identity("greedy"))).await;
    is_sent_away(&site, "unread").await;
}

/// Answers with the nonces that the responses would have if these were numbers.
#[tokio::test(flavor = "multi_thread")]
async fn peer_that_answers_unread_responses_is_disconnected() {
    let site = Site::start("bounds-blind", short_reading(), snapshot(1, 1 << 20)).await;
    let mut blind = unread(&site.caller(&site.identity("greedy"))).await;
    let answers = async {
        for number in 0_u64.. {
            blind.say(&DeltaDiscoveryRequest { response_nonce: number.to_string(), ..request("greedy", CDS) });
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = answers => {}
        () = is_sent_away(&site, "unread") => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_that_does_not_answer_is_disconnected() {
    let limits = Limits { answer: Duration::from_secs(1), ..Limits::default() };
    let site = Site::start("bounds-answer", limits, snapshot(1, 1)).await;
    let mut silent = site.caller(&site.identity("greedy")).delta().await.unwrap();
    silent.introduce("greedy").await.unwrap();
    is_sent_away(&site, "answer").await;
}

async fn is_sent_away(site: &Site, reason: &str) {
    site.until("it is sent away", |site| site.rejected(reason) >= 1).await;
    site.until("nothing is left of it", |site| {
        !site.registry.nodes().iter().any(|node| node.id == "greedy" && node.connected)
    })
    .await;
}

/// A stream that has asked for everything, on a connection that takes a byte.
struct UnreadStream {
    _client: h2::client::SendRequest<bytes::Bytes>,
    says: h2::SendStream<bytes::Bytes>,
    _hears: tonic::codegen::http::Response<h2::RecvStream>,
}

impl UnreadStream {
    /// Sends a request, if the connection is open.
    fn say(&mut self, request: &DeltaDiscoveryRequest) {
        say(&mut self.says, request);
    }
}

fn say(says: &mut h2::SendStream<bytes::Bytes>, request: &DeltaDiscoveryRequest) {
    let message = prost::Message::encode_to_vec(request);
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend(message);
    let _ = says.send_data(framed.into(), false);
}

async fn unread(caller: &Caller) -> UnreadStream {
    let stream = caller.connect().await.unwrap();
    let (mut client, connection) =
        h2::client::Builder::new().initial_window_size(1).handshake::<_, bytes::Bytes>(stream).await.unwrap();
    tokio::spawn(connection);
    client = client.ready().await.unwrap();
    let uri = "http://xds.internal/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
    let post = tonic::codegen::http::Request::post(uri).header("content-type", "application/grpc");
    let (response, mut says) = client.send_request(post.body(()).unwrap(), false).unwrap();
    say(&mut says, &request("greedy", CDS));
    UnreadStream { _client: client, says, _hears: response.await.unwrap() }
}

/// Bytes of this process's memory that are in use.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
