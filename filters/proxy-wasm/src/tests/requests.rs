use portcullis_core::x509::hex_digest;
use portcullis_filter_config::{CONFIG_VERSION, names};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::json;

use super::host::Fake;
use portcullis_core::exchange::Next;

use crate::vm::Vm;

/// Envoy numbers roots and streams together.
const ROOT: u32 = 1;

pub(super) struct Ca {
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

pub(super) fn ca() -> Ca {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "clients");
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Ca { pem: certificate.pem(), issuer: Issuer::new(params, key) }
}

pub(super) fn digest_of(text: &[u8]) -> Vec<u8> {
    hex_digest(text).to_vec()
}

/// A certificate's digest and header, as Envoy writes them.
fn client(ca: &Ca, name: &str) -> (Vec<u8>, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    let certificate = params.signed_by(&KeyPair::generate().unwrap(), &ca.issuer).unwrap();
    let escaped = certificate.pem().replace('\n', "%0A").replace(' ', "%20").replace('+', "%2B").replace('=', "%3D");
    (digest_of(certificate.der()), format!("Chain=\"{escaped}\""))
}

fn cluster(ca: &Ca) -> String {
    String::from_utf8(named(ca, "prod")).unwrap()
}

/// The configuration of a cluster that answers to this host name alone.
pub(super) fn named(ca: &Ca, authority: &str) -> Vec<u8> {
    json!({
        "version": CONFIG_VERSION, "name": format!("i/-/{authority}"), "identity": "x", "authorities": [authority],
        "allowAnonymous": true,
        "clientCa": ca.pem, "reviews": {"cluster": "reviewer"}, "upstreamIdentity": "Impersonate",
        "policies": [{"group": "all", "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
            "nonResourceURLs": ["*"]}]}],
    })
    .to_string()
    .into_bytes()
}

#[test]
fn configuration_that_wants_reports_of_activity_is_refused() {
    let mut vm = Vm::new(Fake::default());
    let config = json!({
        "version": CONFIG_VERSION, "instance": "i", "peerSource": "ForwardedClientCert",
        "activity": {"clusters": ["control-plane-0"], "node": "n"},
    });
    assert!(!vm.configure(ROOT, config.to_string().as_bytes()));
}

pub(super) fn vm(host: &Fake, ca: &Ca) -> Vm<Fake> {
    let mut vm = Vm::new(host.clone());
    let config = json!({"version": CONFIG_VERSION, "instance": "i", "peerSource": "ForwardedClientCert"}).to_string();
    assert!(vm.configure(ROOT, config.as_bytes()));
    let text = cluster(ca).into_bytes();
    let mut state = host.state();
    state.properties.insert(names::wasm::DIGEST.to_owned(), digest_of(&text));
    state.properties.insert(names::wasm::CONFIG.to_owned(), text);
    drop(state);
    vm
}

pub(super) fn request(host: &Fake, digest: Option<&[u8]>, more: &[(&str, &str)]) {
    let mut state = host.state();
    let usual = [(":method", "GET"), (":path", "/api/v1/pods"), (":authority", "prod")];
    state.headers = usual.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let key = "connection\0sha256_peer_certificate_digest".to_owned();
    match digest {
        Some(digest) => _ = state.properties.insert(key, digest.to_vec()),
        None => _ = state.properties.remove(&key),
    }
    state.filter_state.clear();
    state.replies.clear();
}

pub(super) fn judge(vm: &mut Vm<Fake>, stream: u32) -> Next {
    vm.new_stream(stream, ROOT);
    vm.request_headers(stream)
}

/// Names and values.
type Headers<'a> = &'a [(&'a str, &'a str)];

#[test]
fn certificate_counts_only_if_header_and_connection_agree() {
    let (host, ca) = (Fake::default(), ca());
    let mut vm = vm(&host, &ca);
    let (alice, header) = client(&ca, "alice");
    let (mallory, _) = client(&ca, "mallory");
    let forwarded = [("x-forwarded-client-cert", header.as_str()), ("impersonate-extra-x", "")];
    for round in 0..2 {
        request(&host, Some(&alice), &forwarded[..1]);
        assert_eq!(judge(&mut vm, 10 + round), Next::Continue, "{:?}", host.state().replies);
        assert_eq!(host.header_values("impersonate-user"), ["alice"]);
        assert!(host.header_values("x-forwarded-client-cert").is_empty());
        assert_eq!(host.state().filter_state[names::DESTINATION], b"all.h2.read");
    }
    // The last one: the header is known by then, and the connection another one's.
    let forged: [(Option<&[u8]>, Headers<'_>); 4] = [
        (None, &forwarded[..1]),
        (Some(&alice), &[]),
        (Some(&alice), &[forwarded[0], forwarded[0]]),
        (Some(&mallory), &forwarded[..1]),
    ];
    for (number, (digest, headers)) in (20..).zip(forged) {
        request(&host, digest, headers);
        assert_eq!(judge(&mut vm, number), Next::Stop, "{number}");
        assert!(host.state().filter_state.is_empty(), "{number}");
        assert!(host.header_values("impersonate-user").is_empty(), "{number}");
        assert_eq!(host.state().replies.len(), 1, "{number}");
    }
}

#[test]
fn request_attributes_are_exported_for_refusals_too() {
    let (host, ca) = (Fake::default(), ca());
    let mut vm = vm(&host, &ca);
    let written = || host.state().filter_state.keys().filter(|key| key.starts_with("portcullis.request.")).count();
    request(&host, None, &[]);
    assert_eq!((judge(&mut vm, 2), written()), (Next::Continue, 0));
    let mut config: serde_json::Value = serde_json::from_str(&cluster(&ca)).unwrap();
    config["requestInfo"] = json!({});
    for (number, policies, next) in [(3, json!("All"), Next::Continue), (4, json!([]), Next::Stop)] {
        config["policies"] = policies;
        let text = config.to_string().into_bytes();
        host.state().properties.insert(names::wasm::DIGEST.to_owned(), digest_of(&text));
        host.state().properties.insert(names::wasm::CONFIG.to_owned(), text);
        request(&host, None, &[("portcullis.request.verb", "delete")]);
        assert_eq!((judge(&mut vm, number), written()), (next, 9));
        assert_eq!(host.state().filter_state["portcullis.request.verb"], b"list");
        assert_eq!(host.state().filter_state["portcullis.request.subresource"], b"");
    }
}

#[test]
fn vm_without_a_whole_configuration_lets_no_request_through() {
    let (host, ca) = (Fake::default(), ca());
    let mut vm = vm(&host, &ca);
    let changed = |key: &str, value: Option<Vec<u8>>| {
        let mut state = host.state();
        match value {
            Some(value) => _ = state.properties.insert(key.to_owned(), value),
            None => _ = state.properties.remove(key),
        }
    };
    let text = cluster(&ca).into_bytes();
    let cases = [
        (None, None),
        (Some(b"not json".to_vec()), Some(digest_of(b"not json"))),
        (Some(text.clone()), Some(digest_of(b"another one"))),
    ];
    for (number, (config, digest)) in (2..).zip(cases) {
        changed(names::wasm::CONFIG, config);
        changed(names::wasm::DIGEST, digest);
        request(&host, None, &[]);
        assert_eq!(judge(&mut vm, number), Next::Stop, "{number}");
        assert_eq!(host.state().replies, [(503, "portcullis_not_configured".to_owned())], "{number}");
    }
    changed(names::wasm::CONFIG, Some(text));
    changed(names::wasm::DIGEST, None);
    request(&host, None, &[]);
    assert_eq!(judge(&mut vm, 9), Next::Continue, "a digest is no must");
}

#[test]
fn request_of_a_refused_configuration_fails_and_is_logged_so() {
    let host = Fake::default();
    let mut vm = Vm::new(host.clone());
    assert!(!vm.configure(ROOT, b"{}"));
    request(&host, None, &[]);
    assert_eq!(judge(&mut vm, 2), Next::Stop);
    assert_eq!(host.state().replies, [(500, "portcullis_internal".to_owned())]);
    vm.complete(2);
    let line = String::from_utf8(host.state().filter_state[names::wasm::LOG_MEMBERS].clone()).unwrap();
    assert!(line.contains(r#""reason":"internal""#), "{line}");
}

/// A callout that Envoy cannot send is reported after the call, under an id that was never registered.
#[test]
fn failure_of_an_unknown_callout_answers_no_later_one() {
    let (host, ca) = (Fake::default(), ca());
    let mut vm = vm(&host, &ca);
    vm.callout_done(ROOT, 1, true);
    request(&host, None, &[("authorization", "Bearer the-token-of-the-robot")]);
    assert_eq!(judge(&mut vm, 11), Next::Pause, "the callout of this id has no response");
    assert_eq!(host.state().callouts.len(), 1);
}

#[test]
fn token_is_reviewed_once_for_all_workers_and_not_shared() {
    let (host, ca) = (Fake::default(), ca());
    let mut first = vm(&host, &ca);
    let mut second = vm(&host, &ca);
    let token = [("authorization", "Bearer the-token-of-the-robot")];
    request(&host, None, &token);
    assert_eq!(judge(&mut first, 11), Next::Pause);
    assert_eq!(judge(&mut first, 12), Next::Pause, "waits for the same answer");
    let asked = host.state().callouts.clone();
    assert_eq!((asked.len(), asked[0].0.as_str()), (1, "reviewer"));
    {
        let mut state = host.state();
        state.callout_status = "201".to_owned();
        state.callout_body = json!({"kind": "TokenReview", "spec": {"token": "the-token-of-the-robot"},
            "status": {"authenticated": true, "user": {"username": "robot"}}})
        .to_string()
        .into_bytes();
    }
    // The one that asked first is gone by then.
    first.complete(11);
    first.delete(11);
    first.callout_done(ROOT, 1, true);
    let replies = host.state().replies.clone();
    assert_eq!((host.state().continued, replies), (1, Vec::new()));
    assert_eq!(host.header_values("impersonate-user"), ["robot"]);
    request(&host, None, &token);
    assert_eq!(judge(&mut second, 11), Next::Continue);
    assert_eq!(host.header_values("impersonate-user"), ["robot"]);
    assert_eq!(host.state().callouts.len(), 1);
    let needle = b"the-token-of-the-robot";
    let has = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(host.state().shared.iter().all(|(key, (value, _))| !has(key) && !has(value)));
    host.state().seconds += 3_600;
    request(&host, None, &token);
    assert_eq!(judge(&mut vm(&host, &ca), 11), Next::Pause, "what is too old is asked again");
    assert_eq!(host.state().callouts.len(), 2);
}
