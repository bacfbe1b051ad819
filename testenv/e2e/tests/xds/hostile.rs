//! Peers that lie, send too much and never acknowledge: no other peer notices, and none receives another's resources.

use std::collections::HashMap;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use envoy_types::pb::envoy::service::health::v3::health_check_request_or_endpoint_health_response::RequestType;
use envoy_types::pb::envoy::service::health::v3::health_discovery_service_client::HealthDiscoveryServiceClient;
use envoy_types::pb::envoy::service::health::v3::{
    ClusterEndpointsHealth, EndpointHealthResponse, HealthCheckRequest, HealthCheckRequestOrEndpointHealthResponse,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_xds::Limits;
use tokio::io::AsyncWriteExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::site::{CDS, Delta, SDS, Site, request, snapshot};

/// Checks that another peer is served as before.
async fn others_are_served(site: &Site) {
    let mut stream = site.caller(&site.identity("honest")).delta().await.unwrap();
    assert_eq!(stream.introduce("honest").await.unwrap().resources.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn state_of_the_world_stream_is_refused_with_the_remedy() {
    let site = Site::start("hostile-sotw", Limits::default(), snapshot(3, 10)).await;
    let channel = site.caller(&site.identity("old")).channel().await.unwrap();
    let node = Some(Node { id: "old".to_owned(), ..Default::default() });
    let requests = tokio_stream::iter([DiscoveryRequest { node, type_url: CDS.to_owned(), ..Default::default() }]);
    let refused = AggregatedDiscoveryServiceClient::new(channel).stream_aggregated_resources(requests).await;
    let status = refused.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    for part in ["api_type: DELTA_GRPC", "dynamic_resources.ads_config", "portcullis bootstrap"] {
        assert!(status.message().contains(part), "{status}");
    }
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_with_another_nodes_id_gets_nothing() {
    let site = Site::start("hostile-names", Limits::default(), snapshot(3, 10)).await;
    let stranger = Ca::new("somebody else").unwrap().issue(&CertSpec::client("victim", [""; 0])).unwrap();
    assert!(site.caller(&stranger).delta().await.is_err(), "a certificate of somebody else's CA");
    let thief = site.caller(&site.identity("thief"));
    for node in ["victim", "THIEF", "thief ", "", "thief\0", "x".repeat(10_000).as_str()] {
        let refused = thief.delta().await.unwrap().introduce(node).await.unwrap_err();
        assert!([Code::PermissionDenied, Code::InvalidArgument].contains(&refused.code()), "{node:.20}: {refused}");
    }
    // Nor does anybody become another one later.
    let mut stream = thief.delta().await.unwrap();
    stream.introduce("thief").await.unwrap();
    assert_eq!(stream.ask(request("victim", SDS)).await.unwrap_err().code(), Code::InvalidArgument);
    // Nor is anybody let in who does not say who he is.
    let mut nobody = thief.delta().await.unwrap();
    let request = DeltaDiscoveryRequest { type_url: CDS.to_owned(), ..Default::default() };
    assert_eq!(nobody.ask(request).await.unwrap_err().code(), Code::InvalidArgument);
    assert!(site.registry.nodes().iter().all(|node| node.id != "victim"));
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_only_its_own_connection() {
    let site = Site::start("hostile-garbage", Limits::default(), snapshot(3, 10)).await;
    let caller = site.caller(&site.identity("noise"));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let frames: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 4_000],
        // A frame that says to be 16 MiB, headers of nothing, a window of nothing.
        &[0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0],
        &[0, 0, 4, 1, 4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
        &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    for frame in frames {
        for greeting in [&preface[..], b""] {
            let mut stream = caller.connect().await.unwrap();
            // It may have been closed already.
            let _ = stream.write_all(greeting).await;
            let _ = stream.write_all(frame).await;
            let _ = stream.flush().await;
        }
    }
    // Messages that are none.
    for body in [&[0, 0, 0, 0, 3, 0xff, 0xff, 0xff][..], &[1, 0, 0, 0, 1, 0], &[0, 0xff, 0xff, 0xff, 0xff, 0]] {
        let stream = caller.connect().await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let uri = "http://xds.internal/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
        let post = tonic::codegen::http::Request::post(uri).header("content-type", "application/grpc");
        let (response, mut sender) = client.ready().await.unwrap().send_request(post.body(()).unwrap(), false).unwrap();
        let _ = sender.send_data(bytes::Bytes::copy_from_slice(body), true);
        let _ = response.await;
    }
    assert!(site.registry.nodes().is_empty());
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_words_change_nothing() {
    let site = Site::start("hostile-words", Limits::default(), snapshot(3, 10)).await;
    let caller = site.caller(&site.identity("odd"));
    // A node with much metadata.
    let text = |size: usize| Value { kind: Some(Kind::StringValue("x".repeat(size))) };
    let fields: HashMap<_, _> = (0..1_000).map(|number| (format!("k{number}"), text(1_000))).collect();
    let node = Node { id: "odd".to_owned(), metadata: Some(Struct { fields }), ..Default::default() };
    let mut stream = caller.delta().await.unwrap();
    let first = DeltaDiscoveryRequest { node: Some(node), type_url: CDS.to_owned(), ..Default::default() };
    let heard = stream.ask(first).await.unwrap();
    assert_eq!(heard.resources.len(), 3);
    // Nonces that were never sent, of other types, twice; refusals of nothing.
    for (type_url, nonce) in [(CDS, "999"), (SDS, heard.nonce.as_str()), (CDS, "\u{202e}1"), ("", ""), (CDS, "-1")] {
        for error_detail in [None, Some(envoy_types::pb::google::rpc::Status::default())] {
            let said = DeltaDiscoveryRequest {
                type_url: type_url.to_owned(),
                response_nonce: nonce.to_owned(),
                error_detail,
                ..Default::default()
            };
            stream.says.send(said).await.unwrap();
        }
    }
    // Names of all kinds, which are not there, again and again.
    let names: Vec<String> = ["\u{0}", "\u{202e}", "../../s", "s\u{0}", "*\u{0}", "'", "é\u{301}"]
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    for round in 0..200 {
        let mut said = request("odd", SDS);
        if round % 2 == 0 {
            said.resource_names_subscribe.clone_from(&names);
        } else {
            said.resource_names_unsubscribe.clone_from(&names);
        }
        stream.says.send(said).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_millis(1), stream.hears.message()).await;
        assert!(ended.is_err() || matches!(ended, Ok(Ok(Some(_)))), "{ended:?}");
    }
    let node = site.registry.nodes().into_iter().find(|node| node.id == "odd").unwrap();
    assert!(node.connected && !node.in_sync, "what it never acknowledged, it does not have: {node:#?}");
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_that_claims_100000_resources_is_served_or_refused() {
    for (count, is_good) in [(90_000, true), (110_000, false)] {
        let limits = Limits { introduction: 16 << 20, ..Limits::default() };
        let site = Site::start("hostile-claims", limits, snapshot(3, 10)).await;
        let mut stream = site.caller(&site.identity("boast")).delta().await.unwrap();
        let mut said = request("boast", CDS);
        said.initial_resource_versions =
            (0..count).map(|number| (format!("gone/{number}"), format!("{number:032x}"))).collect();
        let heard = stream.ask(said).await;
        assert_eq!(heard.is_ok(), is_good, "{count}");
        others_are_served(&site).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_of_foreign_clusters_or_nodes_does_not_count() {
    let site = Site::start("hostile-health", Limits::default(), snapshot(3, 10)).await;
    let channel = site.caller(&site.identity("liar")).channel().await.unwrap();
    let introduction = |id: &str| {
        RequestType::HealthCheckRequest(HealthCheckRequest {
            node: Some(Node { id: id.to_owned(), ..Default::default() }),
            ..Default::default()
        })
    };
    let about = |names: Vec<String>| {
        let one = |cluster_name| ClusterEndpointsHealth { cluster_name, ..Default::default() };
        RequestType::EndpointHealthResponse(EndpointHealthResponse {
            cluster_endpoints_health: names.into_iter().map(one).collect(),
            ..Default::default()
        })
    };
    let lies: Vec<String> = (0..30_000).map(|number| format!("lie{number}")).chain(["c1".to_owned()]).collect();
    let say = async |messages: Vec<RequestType>| {
        let (says, receiver) = tokio::sync::mpsc::channel(8);
        let mut client = HealthDiscoveryServiceClient::new(channel.clone());
        for message in messages {
            let message = HealthCheckRequestOrEndpointHealthResponse { request_type: Some(message) };
            says.send(message).await.unwrap();
        }
        let answers = client.stream_health_check(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        (says, answers)
    };
    // With another node's name, first and later.
    for messages in
        [vec![introduction("victim"), about(vec!["c0".to_owned()])], vec![introduction("liar"), introduction("victim")]]
    {
        let (_says, mut answers) = say(messages).await;
        let mut ended = answers.message().await;
        while let Ok(Some(_)) = ended {
            ended = answers.message().await;
        }
        assert_eq!(ended.unwrap_err().code(), Code::PermissionDenied);
    }
    let _kept = say(vec![introduction("liar"), about(vec!["c0".to_owned()]), about(lies)]).await;
    site.until("it has reported", |site| site.health.reporting(std::time::Instant::now()) == ["liar"]).await;
    let reports = site.health.reports(std::time::Instant::now());
    let known: Vec<&String> = reports.values().flat_map(|report| report.clusters.keys()).collect();
    assert!(known.iter().all(|cluster| cluster.starts_with('c')), "{:?}", known.iter().take(3).collect::<Vec<_>>());
    others_are_served(&site).await;
}

/// An ordinary client in the middle of all kinds of others.
#[tokio::test(flavor = "multi_thread")]
async fn churn_of_streams_leaves_nothing_behind() {
    let limits = Limits { stream_burst: 20, ..Limits::default() };
    let site = Site::start("hostile-churn", limits, snapshot(3, 10)).await;
    let caller = site.caller(&site.identity("restless"));
    let mut refused = 0;
    for _ in 0..30 {
        let channel = caller.channel().await.unwrap();
        for _ in 0..8 {
            match Delta::open(channel.clone()).await {
                Ok(mut stream) => refused += u32::from(stream.introduce("restless").await.is_err()),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 0, "more streams than may be opened at once");
    others_are_served(&site).await;
    site.until("nothing is left", |site| {
        site.registry.nodes().iter().filter(|node| node.connected && node.id == "restless").count() == 0
    })
    .await;
}
