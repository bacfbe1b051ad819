use portcullis_filter_config::limits::LimitPart;
use portcullis_filter_config::{CONFIG_VERSION, names};
use portcullis_report::limits::{ClusterUseMessage, PartsMessage, UseMessage};
use portcullis_report::{ReportRequest, ReportResponse};
use prost::Message;
use serde_json::json;

use super::host::Fake;
use super::requests::{ca, digest_of, request};
use crate::vm::Vm;

const ROOT: u32 = 1;

fn vm(host: &Fake, node: &str) -> Vm<Fake> {
    let mut vm = Vm::new(host.clone());
    let config = json!({
        "version": CONFIG_VERSION, "instance": "i", "peerSource": "ForwardedClientCert",
        "globalLimits": {"clusters": ["control-plane-0"], "node": node},
    });
    assert!(vm.configure(ROOT, config.to_string().as_bytes()));
    let limit = |max: u32| json!({"maxRequestsInflight": max});
    let cluster = json!({
        "version": CONFIG_VERSION, "name": "i/-/prod", "identity": "x", "authorities": ["prod"], "allowAnonymous": true,
        "clientCa": ca().pem, "upstreamIdentity": "Impersonate",
        "flowControlSchemas": [{"name": "few", "limit": limit(1), "global": {"limit": limit(9), "strategy": "Count"}}],
        "policies": [{"group": "all", "flowControlSchema": "few", "rules": [{"verbs": ["*"], "apiGroups": ["*"],
            "resources": ["*"], "nonResourceURLs": ["*"]}]}],
    });
    let text = cluster.to_string().into_bytes();
    let mut state = host.state();
    state.properties.insert(names::wasm::DIGEST.to_owned(), digest_of(&text));
    state.properties.insert(names::wasm::CONFIG.to_owned(), text);
    drop(state);
    vm
}

/// Begins a request. True if it went on.
fn goes_on(vm: &mut Vm<Fake>, host: &Fake, stream: u32) -> bool {
    request(host, None, &[]);
    vm.new_stream(stream, ROOT);
    vm.request_headers(stream);
    host.state().replies.is_empty()
}

/// The node of the callout that was sent last, and the numbers of its report: its own, and the use of its one limit.
fn last_report(host: &Fake) -> (String, u64, Vec<u32>) {
    let (cluster, body) = host.state().callouts.last().unwrap().clone();
    assert_eq!(cluster, "control-plane-0");
    let request = ReportRequest::decode(&body[5..]).unwrap();
    let message = UseMessage::decode(request.limits).unwrap();
    let used = ClusterUseMessage::decode(message.clusters[0].clone()).unwrap();
    assert_eq!((used.cluster.as_str(), used.schemas), ("i/-/prod", vec!["few".to_owned()]));
    (request.node, message.number, used.columns)
}

/// Answers the callout of that number with a part of the limit.
fn answer(vm: &mut Vm<Fake>, host: &Fake, token: u32, number: u64, quota: u32) {
    let mut parts = PartsMessage { number, next_milliseconds: 1_000, ..PartsMessage::default() };
    parts.push(Some(LimitPart { quota, ..LimitPart::default() }));
    let message = ReportResponse { limits: parts.encode_to_vec().into() }.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let mut state = host.state();
    state.callout_status = "200".to_owned();
    state.callout_body = [&[0], &length[..], &message].concat();
    drop(state);
    vm.callout_done(ROOT, token, true);
}

fn advance(vms: &mut [&mut Vm<Fake>], host: &Fake, seconds: u64) {
    host.state().seconds += seconds;
    vms.iter_mut().for_each(|vm| vm.tick(ROOT));
}

#[test]
fn workers_share_one_part_by_one_exchange() {
    let host = Fake::default();
    host.state().properties.insert("xds\0node\0id".to_owned(), b"gateway-7.lab".to_vec());
    let (mut one, mut two) = (vm(&host, "*.gateways.test"), vm(&host, "*.gateways.test"));
    advance(&mut [&mut one, &mut two], &host, 10);
    assert!(host.state().callouts.is_empty(), "there are no limits yet");
    assert!(goes_on(&mut one, &host, 10) && !goes_on(&mut two, &host, 10), "the local limit is that of all workers");
    advance(&mut [&mut one, &mut two], &host, 1);
    assert_eq!(host.state().callouts.len(), 1, "one worker reports");
    let (node, number, used) = last_report(&host);
    assert_eq!((node.as_str(), used), ("gateway-7.gateways.test", vec![0, 0, 1, 2]));
    answer(&mut one, &host, 1, number, 3);
    assert!(goes_on(&mut two, &host, 11) && goes_on(&mut one, &host, 11) && !goes_on(&mut two, &host, 12));
    advance(&mut [&mut two, &mut one], &host, 1);
    assert_eq!(last_report(&host).2, [2, 3, 3, 4], "it holds a lease");
    // No answer comes, and none to the callout before.
    answer(&mut one, &host, 1, number, 9);
    one.callout_done(ROOT, 2, false);
    assert!(!goes_on(&mut two, &host, 13), "the part is as before");
    // Another worker takes over from one that is gone.
    one.delete(ROOT);
    advance(&mut [&mut two], &host, 2);
    assert_eq!(host.state().callouts.len(), 3);
    answer(&mut two, &host, 3, last_report(&host).1, 5);
    assert!(goes_on(&mut two, &host, 14) && goes_on(&mut two, &host, 15) && !goes_on(&mut two, &host, 16));
}

#[test]
fn node_without_a_name_shares_no_limit() {
    let host = Fake::default();
    let mut vm = vm(&host, "*.gateways.test");
    assert!(goes_on(&mut vm, &host, 10));
    advance(&mut [&mut vm], &host, 10);
    assert!(host.state().callouts.is_empty());
}
