//! Servers that EndpointSlices name: of a Service where the objects are stored, and of the upstream itself.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_e2e::Manifest;
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::{ClientPool, H2Client, LoadProfile, OpenLoopLoad, Outcome, Protocol, TlsTarget};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::kube::{KubeOptions, RequestHeader};
use portcullis_harness::process::Signal;
use portcullis_harness::{ports, wait, write_private};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use super::control_plane::{ControlPlaneUnderTest, SOON, object, text};
use super::fixture::{NAMESPACE, SourceFixture, USER, printed};

const NAME: &str = "a.example.com";
const TENANTS: &str = "tenants";
const CONDITION: &str = "ServersDiscovered";

/// An address of this machine that an EndpointSlice may hold, which no loopback address may be. Packets to it do not leave the
/// machine.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the kernel chooses the address from which it would be.
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    if ip.is_loopback() || ip.is_unspecified() {
        eprintln!("left out: this machine has loopback addresses only");
        return None;
    }
    Some(ip)
}

/// A kube-apiserver's address that comes and goes.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    open: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl Relay {
    pub(super) fn start(ip: IpAddr, server: SocketAddr) -> Self {
        let address = SocketAddr::new(ip, ports::free().unwrap());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let open = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&open);
        runtime.spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let open = Arc::clone(&counted);
                open.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(server).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, open, _runtime: runtime }
    }
}

fn slice(name: &str, servers: &[SocketAddr], conditions: &Value) -> Value {
    let endpoints: Vec<Value> =
        servers.iter().map(|one| json!({"addresses": [one.ip().to_string()], "conditions": conditions})).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": TENANTS, "labels": {"kubernetes.io/service-name": "tenant"}},
        "ports": [{"name": "https", "port": servers.first().map_or(6443, SocketAddr::port), "protocol": "TCP"}],
        "endpoints": endpoints,
    })
}

fn ready() -> Value {
    json!({"ready": true, "serving": true, "terminating": false})
}

/// With the rights that are printed for discovery in the tenants' namespace.
fn fixture(test: &str, options: &KubeOptions) -> Option<SourceFixture> {
    let fixture = SourceFixture::without_rights(test, options)?;
    fixture.admin(&["create", "namespace", TENANTS]);
    let rights =
        ["rbac", "--control-plane", "--namespace", NAMESPACE, "--user", USER, "--discovery-namespace", TENANTS];
    fixture.apply(&printed(&rights));
    fixture.apply(&printed(&["rbac", "--user", "portcullis"]));
    Some(fixture)
}

fn discovering(fixture: &SourceFixture) -> Manifest {
    let service = json!({"namespace": TENANTS, "name": "tenant", "portName": "https"});
    let manifest = fixture.manifest(NAME).set("/spec/servers", json!([]));
    manifest.set("/spec/portcullis", json!({"discovery": {"service": service}}))
}

fn condition<'a>(told: &'a Value, kind: &str) -> Option<&'a Value> {
    told["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Waits until the condition about discovery says so.
fn wait_discovered(plane: &ControlPlane, reason: &str, part: &str) -> Value {
    let holds = |status: &Value| {
        let told = object(status, NAME).and_then(|told| condition(told, CONDITION));
        told.is_some_and(|told| {
            told["reason"] == reason && told["message"].as_str().is_some_and(|text| text.contains(part))
        })
    };
    plane.wait_status(&format!("discovery is {reason}, with {part:?}"), SOON, holds).unwrap()
}

fn wait_accepted(plane: &ControlPlane, part: &str) {
    let holds = |status: &Value| {
        let accepted = object(status, NAME).and_then(|told| condition(told, "Accepted"));
        accepted.is_some_and(|accepted| accepted["message"].as_str().is_some_and(|text| text.contains(part)))
    };
    plane.wait_status(&format!("Accepted has {part:?}"), SOON, holds).unwrap();
}

fn target(fixture: &SourceFixture) -> TlsTarget {
    let target = TlsTarget::new(fixture.address).sni(NAME).trust(&fixture.serving_ca).timeout(Duration::from_secs(40));
    target.identity(fixture.kube.admin())
}

fn wait_served(fixture: &SourceFixture) {
    let target = target(fixture);
    let answers = || H2Client::connect(&target)?.get("/version", &[]).map(|one| one.status);
    wait::until("the gateway serves", SOON, || answers().is_ok_and(|status| status == 200).then_some(())).unwrap();
}

/// The requests that Envoy has sent to a server, in all pools; `None` if it does not have it.
fn requests_to(side: &ControlPlaneUnderTest, server: SocketAddr) -> Option<u64> {
    let page = side.envoy.admin().json("/clusters?format=json").unwrap();
    let hosts = page["cluster_statuses"].as_array().unwrap().iter().flat_map(|one| one["host_statuses"].as_array());
    let of_server = hosts.flatten().filter(|host| {
        let address = &host["address"]["socket_address"];
        address["address"] == server.ip().to_string() && address["port_value"] == server.port()
    });
    let total = |host: &Value| {
        let stats = host["stats"].as_array().into_iter().flatten();
        let total = stats.filter(|stat| stat["name"] == "rq_total").filter_map(|stat| stat["value"].as_str());
        total.filter_map(|value| value.parse::<u64>().ok()).sum::<u64>()
    };
    let counts: Vec<u64> = of_server.map(total).collect();
    (!counts.is_empty()).then(|| counts.into_iter().sum())
}

fn start_load(fixture: &SourceFixture) -> OpenLoopLoad {
    let target = target(fixture);
    let lanes = [Protocol::Http2, Protocol::Http1].map(|one| LoadProfile::new(format!("{one:?}"), &target, one));
    let paths = ["/api/v1/namespaces/default/configmaps", "/version", "/api/v1/nodes"];
    ClientPool::new(2).unwrap().steady(&lanes, &paths, 40.0).unwrap()
}

/// Applies slices, and waits until the server gets requests. Returns how long that takes after the API has answered.
fn wait_used(fixture: &SourceFixture, side: &ControlPlaneUnderTest, slices: &[Value], server: SocketAddr) -> Duration {
    assert_eq!(requests_to(side, server), None, "it is not there before");
    slices.iter().for_each(|slice| drop(fixture.apply(&slice.to_string())));
    let edited = Instant::now();
    wait::until("the new server is used", SOON, || requests_to(side, server).filter(|count| *count > 0)).unwrap();
    edited.elapsed()
}

#[test]
fn rolling_servers_of_a_service_fail_no_request() {
    let Some(ip) = own_address() else { return };
    let options = KubeOptions { apiservers: 2, ..KubeOptions::default() };
    let Some(fixture) = fixture("discovery-rolling", &options) else { return };
    let relay = |index: usize| Relay::start(ip, fixture.kube.address(index).unwrap());
    let first = relay(0);
    fixture.apply(&slice("one", &[first.address], &ready()).to_string());
    fixture.apply(&discovering(&fixture).to_text());
    let side = fixture.kubernetes_side("plane");
    wait_discovered(&side.plane, "Current", "1 server of Service tenants/tenant");
    wait_served(&fixture);
    let load = start_load(&fixture);
    wait::until("the load runs", SOON, || requests_to(&side, first.address).filter(|count| *count > 50)).unwrap();
    let generations = pools(&side);

    // The new server comes, the old one ends and goes.
    let second = relay(1);
    let took = wait_used(&fixture, &side, &[slice("two", &[second.address], &ready())], second.address);
    eprintln!("the second server got its first request {took:?} after the edit");
    let ending = json!({"ready": false, "serving": true, "terminating": true});
    fixture.apply(&slice("one", &[first.address], &ending).to_string());
    wait_gone(&side, &first);
    fixture.admin(&["delete", "endpointslice", "one", "-n", TENANTS]);
    drop(first);

    // One step: a new server in the place of the only one.
    let third = relay(0);
    let took = wait_used(&fixture, &side, &[slice("two", &[third.address], &ready())], third.address);
    eprintln!("the third server got its first request {took:?} after the edit");
    wait_gone(&side, &second);
    drop(second);

    // An empty list changes nothing.
    fixture.apply(&slice("two", &[], &ready()).to_string());
    wait_discovered(&side.plane, "Empty", "the last ones are kept");
    let after = || requests_to(&side, third.address).filter(|count| *count > 0);
    let before = after().unwrap();
    wait::until("it is used still", SOON, || after().filter(|count| *count > before + 20)).unwrap();
    fixture.apply(&slice("two", &[third.address], &ready()).to_string());
    wait_discovered(&side.plane, "Current", "1 server of");

    let outcome: Outcome = load.stop().unwrap();
    eprintln!("{outcome}");
    assert!(outcome.good() > 200, "{outcome}");
    assert_eq!(outcome.failed, 0, "{outcome}");
    assert_eq!(pools(&side), generations, "endpoints change alone");
    let page = portcullis_harness::client::plain::get(side.plane.http_address(), "/metrics").unwrap().text();
    assert!(page.contains("portcullis_discovery_sources{state=\"current\"} 1"), "{page}");
}

/// Names of Envoy's clusters, which hold the generation, and how often one was changed.
fn pools(side: &ControlPlaneUnderTest) -> (Vec<String>, u64) {
    let page = side.envoy.admin().json("/clusters?format=json").unwrap();
    let names = page["cluster_statuses"].as_array().unwrap().iter().map(|one| one["name"].to_string());
    let mut names: Vec<String> = names.filter(|name| name.contains('@')).collect();
    names.sort();
    assert!(!names.is_empty(), "{page}");
    (names, side.envoy.admin().stat("cluster_manager.cluster_modified").unwrap())
}

/// Waits until Envoy has let go of a server, and every connection to it has ended by itself.
fn wait_gone(side: &ControlPlaneUnderTest, relay: &Relay) {
    let is_gone = || requests_to(side, relay.address).is_none().then_some(());
    wait::until("Envoy drops the old server", SOON, is_gone).unwrap();
    let is_closed = || (relay.open.load(Ordering::Relaxed) == 0).then_some(());
    wait::until("its connections end", SOON, is_closed).unwrap();
}

#[test]
fn discovered_addresses_are_judged_and_outages_survived() {
    let Some(ip) = own_address() else { return };
    let options = KubeOptions { apiservers: 2, ..KubeOptions::default() };
    let Some(mut fixture) = fixture("discovery-judged", &options) else { return };
    // The API itself refuses loopback and link-local addresses, and knows nothing of clouds.
    for address in ["127.0.0.1", "169.254.169.254"] {
        let bad = slice("bad", &[SocketAddr::new(address.parse().unwrap(), 6443)], &ready()).to_string();
        let file = fixture.run.next("refused");
        write_private(&file, bad.as_bytes()).unwrap();
        assert!(!fixture.kubectl(&["create", "-f", text(&file)]).run().unwrap().success(), "{address}");
    }
    let upstream = Relay::start(ip, fixture.kube.address(1).unwrap());
    let metadata: Vec<SocketAddr> =
        ["100.100.100.200:80", "168.63.129.16:80"].iter().map(|one| one.parse().unwrap()).collect();
    fixture.apply(&slice("metadata", &metadata, &ready()).to_string());
    fixture.apply(&discovering(&fixture).to_text());
    let state = fixture.run.join("state");
    let mut side = fixture.kubernetes_side_with("plane", &["--state-dir", text(&state)]);
    // Alone they are no answer.
    wait_discovered(&side.plane, "Empty", "100.100.100.200:80 may not be a server");
    fixture.apply(&slice("good", &[upstream.address], &ready()).to_string());
    wait_discovered(&side.plane, "Current", "3 servers of Service tenants/tenant");
    // The answer is in status before the configuration that is made of it.
    for address in &metadata {
        wait_accepted(&side.plane, &format!("spec.portcullis.discovery: {address} is not used"));
    }
    wait_served(&fixture);
    for address in &metadata {
        assert_eq!(requests_to(&side, *address), None);
    }

    // The API that stores objects and slices goes away: the last answer stays, and survives the control plane.
    let load = start_load(&fixture);
    fixture.kube.apiserver(0).unwrap().process().signal(Signal::Kill).unwrap();
    side.wait_current(false);
    wait_discovered(&side.plane, "Unavailable", "3 servers of");
    side.plane.restart().unwrap();
    let served = |status: &Value| !status["snapshot"].as_str().unwrap_or_default().is_empty();
    side.plane.wait_status("what was served before is served", SOON, served).unwrap();
    // The slices are gone when the API is back: those of the last run are kept.
    fixture.kube.restart(0).unwrap();
    side.wait_current(true);
    wait_discovered(&side.plane, "Current", "3 servers of");
    fixture.admin(&["delete", "endpointslices", "--all", "-n", TENANTS]);
    wait_discovered(&side.plane, "Empty", "the last ones are kept");
    side.plane.restart().unwrap();
    wait_discovered(&side.plane, "Empty", "the last ones are kept");
    wait_served(&fixture);
    assert!(requests_to(&side, upstream.address).is_some());
    let outcome: Outcome = load.stop().unwrap();
    assert!(outcome.good() > 100 && outcome.failed == 0, "{outcome}");
}

/// Options of a kube-apiserver that writes its address into its own EndpointSlice.
fn self_listing(ip: IpAddr) -> KubeOptions {
    // Loopback addresses are no endpoints of the Service "kubernetes".
    let advertised = format!("--advertise-address={ip}");
    let flags = ["--bind-address=0.0.0.0", "--endpoint-reconciler-type=lease", &advertised];
    KubeOptions { flags: flags.map(String::from).to_vec(), ..KubeOptions::default() }
}

/// The certificate of a front proxy is for no user of RBAC: the slice is asked for as the user of the gateway's own requests.
#[test]
fn front_proxy_finds_the_upstreams_servers() {
    let Some(ip) = own_address() else { return };
    let ca = Ca::new("front proxy authority").unwrap();
    let proxy = ca.issue(&CertSpec::client("front-proxy", [""; 0])).unwrap();
    let request_header = Some(RequestHeader { ca, allowed_names: vec!["front-proxy".to_owned()] });
    let options = KubeOptions { request_header, ..self_listing(ip) };
    let Some(fixture) = SourceFixture::of("discovery-front-proxy", &options) else { return };
    let manifest = fixture.manifest(NAME).upstream(&proxy, fixture.kube.server_ca(), "kubernetes.default.svc").set(
        "/spec/portcullis",
        json!({
            "upstreamIdentity": "RequestHeader", "requestHeader": {"user": "portcullis"},
            "discovery": {"kubernetesService": true},
        }),
    );
    let file = fixture.run.next("front-proxy");
    write_private(&file, manifest.to_text().as_bytes()).unwrap();
    fixture.apply(&printed(&["rbac", "--user", "portcullis", "-f", text(&file)]));
    fixture.apply(&manifest.to_text());
    let side = fixture.kubernetes_side("plane");
    wait_discovered(&side.plane, "Current", "1 server of EndpointSlice default/kubernetes of the upstream");
    wait_served(&fixture);
    let found = SocketAddr::new(ip, fixture.kube.address(0).unwrap().port());
    assert!(requests_to(&side, found).is_some(), "beside the written one");
}

#[test]
fn upstream_names_its_own_servers() {
    let Some(ip) = own_address() else { return };
    let options = self_listing(ip);
    let Some(fixture) = SourceFixture::of("discovery-upstream", &options) else { return };
    let seed = fixture.kube.address(0).unwrap();
    let found = SocketAddr::new(ip, seed.port());
    let servers = json!([{"endpoint": format!("https://{seed}"), "disabled": true}]);
    let manifest = fixture.manifest(NAME).set("/spec/servers", servers);
    let manifest = manifest.set("/spec/portcullis", json!({"discovery": {"kubernetesService": true}}));
    let directory = fixture.run.make_dir("manifests").unwrap();
    let file = directory.join("a.yaml");
    write_private(&file, manifest.to_text().as_bytes()).unwrap();
    std::fs::copy(&fixture.settings, directory.join("settings.yaml")).unwrap();
    let side = ControlPlaneUnderTest::start(&fixture.run, "plane", &["--config", text(&directory)]);
    wait_discovered(&side.plane, "Unavailable", "403");
    // With exactly the rights that are printed for the object.
    fixture.apply(&printed(&["rbac", "--user", "portcullis", "-f", text(&file)]));
    wait_discovered(&side.plane, "Current", "1 server of EndpointSlice default/kubernetes of the upstream");
    wait_served(&fixture);
    wait::until("it is used", SOON, || requests_to(&side, found).filter(|count| *count > 0)).unwrap();
    assert_eq!(requests_to(&side, seed), None, "the written one is disabled");

    // Files have no Kubernetes in which a Service could be.
    let service = json!({"discovery": {"service": {"namespace": "a", "name": "b"}}});
    write_private(&file, manifest.set("/spec/portcullis", service).to_text().as_bytes()).unwrap();
    let refused = |status: &Value| {
        object(status, NAME).is_some_and(|told| {
            let message = told["message"].as_str().unwrap_or_default();
            told["accepted"] == false
                && message.contains("needs a control plane that reads its objects from a Kubernetes API")
        })
    };
    side.plane.wait_status("the source is refused", SOON, refused).unwrap();
    wait_served(&fixture);
    assert!(requests_to(&side, found).is_some(), "the version that was accepted last is served with its servers");
}
