//! `listener.tunnel`: HTTP CONNECT whose header names the cluster, as an apiserver-proxy on the nodes of a cluster sends it. Pods ask
//! for `kubernetes.default.svc`, whichever their cluster is.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, Response, TlsTarget, plain};
use portcullis_harness::{Result, deps, ports, wait};
use portcullis_stub_apiserver::{Record, StubServer};
use serde_json::{Value, json};

use crate::access_log::lines;
use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const SOON: Duration = Duration::from_secs(20);
pub(crate) const INSIDE: &str = "kubernetes.default.svc";
const OTHER: &str = "other.example.com";
const CLIENT: &str = "127.0.0.1";

/// A cluster whose clients come through tunnels.
pub(crate) struct Shoot {
    pub(crate) name: &'static str,
    stub: StubServer,
    /// The authority of the certificate that it shows.
    pub(crate) serving_ca: Ca,
    client_ca: Ca,
    /// A user of this cluster alone.
    pub(crate) user: Identity,
}

impl Shoot {
    fn new(fixture: &StubFixture, name: &'static str) -> Self {
        let (serving_ca, client_ca) = (Ca::new("serving").unwrap(), Ca::new("clients").unwrap());
        let user = client_ca.issue(&CertSpec::client(format!("user of {name}"), ["dev"])).unwrap();
        Self { name, stub: fixture.pki.stub(name), serving_ca, client_ca, user }
    }

    pub(crate) fn manifest(&self, fixture: &StubFixture) -> Manifest {
        let serving = self.serving_ca.issue(&CertSpec::server(self.name, [self.name, INSIDE])).unwrap();
        Manifest::new(self.name, [self.stub.address()])
            .upstream(&fixture.pki.gateway, &fixture.pki.server_ca, "kubernetes")
            .serving(&serving, &self.client_ca)
            .set("/spec/portcullis", json!({"extraAuthorities": [INSIDE], "auditAttribution": true}))
            .set("/spec/logging", json!({"mode": "on"}))
    }

    pub(crate) fn came(&self) -> Vec<Record> {
        self.stub.records_for(PODS)
    }
}

/// Two such clusters behind one gateway.
pub(crate) struct Site {
    pub(crate) fixture: StubFixture,
    pub(crate) door: SocketAddr,
    pub(crate) shoots: [Shoot; 2],
    /// The client's address as servers hear it of a connection without a tunnel: in the place of a loopback address Envoy puts its
    /// own machine's.
    client: String,
}

impl Site {
    fn start(test: &str, version: Option<String>, listener: Value) -> Self {
        Self::with(test, GatewayOptions { envoy_version: version, listener, ..GatewayOptions::default() })
    }

    pub(crate) fn with(test: &str, mut options: GatewayOptions) -> Self {
        let port = ports::free_address().unwrap().port();
        options.listener["tunnel"]["port"] = json!(port);
        let fixture = StubFixture::without_cluster(test, &options);
        let door = SocketAddr::new(fixture.gateway.address().ip(), port);
        let shoots = [NAME, OTHER].map(|name| Shoot::new(&fixture, name));
        let mut site = Self { fixture, door, shoots, client: String::new() };
        for shoot in &site.shoots {
            site.fixture.gateway.apply(&shoot.manifest(&site.fixture)).unwrap();
            site.wait_for(shoot.name, &shoot.serving_ca);
        }
        let [shoot, _] = &site.shoots;
        let direct = TlsTarget::new(site.fixture.gateway.address()).sni(NAME).identity(&shoot.user);
        assert_eq!(get(&direct, NAME, "User-Agent: direct\r\n").unwrap().status, 200);
        site.client = shoot.came().remove(0).header("x-forwarded-for").unwrap();
        site
    }

    /// A pod's connection through a tunnel to there, which takes only that authority's certificates.
    pub(crate) fn pod(&self, destination: &str, ca: &Ca) -> TlsTarget {
        let connect = connect(&format!("X-Gardener-Destination: {destination}\r\n"));
        TlsTarget::new(self.door).sni(INSIDE).trust(ca).tunnel(connect.as_bytes()).timeout(Duration::from_secs(5))
    }

    /// Routes come by themselves, to one worker after the other.
    pub(crate) fn wait_for(&self, destination: &str, ca: &Ca) {
        let opens = || (0..8).try_for_each(|_| self.pod(destination, ca).connect().map(drop));
        wait::until_ok("the tunnel opens", SOON, opens).unwrap();
    }

    /// Sends what is no TLS to the port and reads until it is closed, or the head of an answer is there.
    fn answer(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.door).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
            answer.push(byte[0]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The status with which a CONNECT with these header lines is answered.
    fn status(&self, lines: &str) -> u16 {
        status_of(&self.answer(&connect(lines)))
    }

    /// The one request that came, with the client's address in every place that shows it.
    pub(crate) fn one(&self, shoot: &Shoot, case: &str) -> Record {
        let mut records = shoot.came();
        assert_eq!(records.len(), 1, "{case}");
        let record = records.remove(0);
        for name in ["x-forwarded-for", "impersonate-extra-portcullis.dev%2fclient-address"] {
            assert_eq!(record.header_all(name), [self.client.as_str()], "{case}: {name}");
        }
        record
    }

    /// The lines of the log about users' requests in tunnels.
    pub(crate) fn logged(&self) -> Vec<Value> {
        let all = lines(&self.fixture).into_iter();
        all.filter(|line| line["user"].is_string() && line["userAgent"] != "direct").collect()
    }

    pub(crate) fn clear(&self) {
        self.shoots.iter().for_each(|shoot| shoot.stub.clear());
    }
}

pub(crate) fn connect(lines: &str) -> String {
    format!("CONNECT {INSIDE}:443 HTTP/1.1\r\nHost: {INSIDE}:443\r\n{lines}\r\n")
}

fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
}

pub(crate) fn get(target: &TlsTarget, host: &str, lines: &str) -> Result<Response> {
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {host}\r\n{lines}Connection: close\r\n\r\n");
    target.raw_request(request.as_bytes())
}

#[test]
fn tunnel_leads_to_the_cluster_that_its_header_names() {
    for version in deps::envoy_versions() {
        every_way_leads_to_the_cluster_of_the_header(&Site::start("tunnels", Some(version), json!({})));
    }
}

fn every_way_leads_to_the_cluster_of_the_header(site: &Site) {
    for (own, others) in [(0, 1), (1, 0)] {
        let (shoot, other) = (&site.shoots[own], &site.shoots[others]);
        for destination in [shoot.name.to_owned(), format!("outbound|443||{}", shoot.name)] {
            let pod = site.pod(&destination, &shoot.serving_ca);
            let token = format!("Authorization: Bearer {ROBOT}\r\n");
            // The name asked for by SNI chooses nothing, the other cluster's own included.
            let elsewhere = |sni: &str| {
                TlsTarget::new(site.door)
                    .sni(sni)
                    .tunnel(connect(&format!("X-Gardener-Destination: {destination}\r\n")).as_bytes())
            };
            let ways = [
                ("a certificate", pod.clone().identity(&shoot.user), "", format!("user of {}", shoot.name)),
                ("a token", pod.clone(), token.as_str(), "robot".to_owned()),
                ("the other's SNI", elsewhere(other.name).identity(&shoot.user), "", format!("user of {}", shoot.name)),
                ("an unknown SNI", elsewhere("unheard.of"), token.as_str(), "robot".to_owned()),
            ];
            for (way, target, lines, user) in ways {
                site.clear();
                let case = format!("{destination}, {way}");
                let answer = get(&target, INSIDE, lines).unwrap();
                assert_eq!(answer.status, 200, "{case}: {}", answer.text());
                assert_eq!(site.one(shoot, &case).effective.unwrap().username, user, "{case}");
                assert_eq!(other.came().len(), 0, "{case}");
            }
            site.clear();
            let h2 = H2Client::connect(&pod.clone().identity(&shoot.user)).unwrap();
            assert_eq!(h2.get(PODS, &[]).unwrap().status, 200, "{destination}");
            site.one(shoot, &destination);

            // Another cluster's name inside, or its user.
            assert_eq!(get(&pod, other.name, &token).unwrap().status, 421, "{destination}");
            assert_eq!(h2.authority(other.name).get(PODS, &[]).unwrap().status, 421, "{destination}");
            let stranger = get(&pod.clone().identity(&other.user), INSIDE, "").unwrap();
            assert_eq!(stranger.status, 401, "{destination}");
            assert_eq!(other.came().len(), 0, "{destination}");
        }
    }
    // Those that docs/operations.md names.
    for place in
        ["http.-tunnel.downstream_rq", "listener.e2e-tunnel.downstream_cx", "cluster.e2e/-/-/tunnel.upstream_cx"]
    {
        assert!(site.fixture.gateway.envoy().admin().stat(&format!("{place}_total")).unwrap() > 0, "{place}");
    }
    assert!(site.fixture.gateway.envoy().admin().stat("listener.e2e-tunnelled.downstream_cx_total").unwrap() > 0);
    let logged = || Some(site.logged()).filter(|all| all.len() > 10);
    let logged = wait::until("tunnelled requests are logged", SOON, logged).unwrap();
    assert!(logged.iter().all(|line| line["client"] == CLIENT), "{logged:?}");
}

#[test]
fn tunnel_is_opened_for_owned_names_alone() {
    let site = Site::start("tunnels-names", None, json!({}));
    let wild = site.shoots[1].manifest(&site.fixture).set("/spec/secureServing/serverNames", json!(["*.example.org"]));
    site.fixture.gateway.apply(&wild).unwrap();
    site.wait_for(OTHER, &site.shoots[1].serving_ca);
    let to = |name: &str| format!("X-Gardener-Destination: {name}\r\n");
    site.clear();
    assert_eq!(site.status(&to(NAME)), 200);
    let both = format!("{}{}", to(NAME), to(NAME));
    for refused in [
        String::new(),
        to(""),
        to("unheard.of"),
        to(INSIDE),
        to("PROD.example.com"),
        to(&format!("{NAME}:443")),
        to(&format!("{NAME}.")),
        to(&format!("outbound|6443||{NAME}")),
        to("outbound|443||"),
        to("*.example.org"),
        to("a.example.org"),
        to("e2e/-/-/tunnel"),
        to("-"),
        to(&format!("{NAME}, {OTHER}")),
        both,
        format!("X-Destination: {NAME}\r\nHost: {NAME}\r\n"),
    ] {
        let answer = site.answer(&connect(&refused));
        let status = status_of(&answer);
        // Two of Host are no acceptable HTTP.
        assert!(status == 404 || (status == 400 && refused.contains("Host")), "{refused}: {answer}");
        assert!(answer.contains("content-length: 0\r\n") || status == 400, "{answer}");
    }
    for request in [
        format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n{}\r\n", to(NAME)),
        format!("GET https://{NAME}/api HTTP/1.1\r\nHost: {NAME}\r\n{}\r\n", to(NAME)),
        format!("POST {PODS} HTTP/1.1\r\nHost: {NAME}\r\n{}Content-Length: 0\r\n\r\n", to(NAME)),
        format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{}\r\n", to(NAME)),
        format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n{}\r\n", to(NAME)),
        format!("OPTIONS * HTTP/1.1\r\nHost: {NAME}\r\n{}\r\n", to(NAME)),
    ] {
        // https in the clear is refused before there is a route.
        assert!(matches!(status_of(&site.answer(&request)), 403 | 404), "{request}");
    }
    let preface = site.answer("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(!preface.contains("200"), "HTTP/2: {preface}");
    let find = || lines(&site.fixture).into_iter().find(|line| line["tunnel"] == true);
    let refusal = wait::until("a line of a tunnel that was not opened", SOON, find).unwrap();
    assert_eq!((&refusal["client"], &refusal["reason"]), (&json!(CLIENT), &json!("not_served")), "{refusal}");
    assert!(site.shoots.iter().all(|shoot| shoot.came().is_empty()));
}

const FORGED: &str = "X-Forwarded-For: 192.0.2.66\r\nX-Real-Ip: 192.0.2.66\r\nForwarded: for=192.0.2.66\r\n\
    X-Envoy-External-Address: 192.0.2.66\r\nX-Envoy-Original-Dst-Host: 192.0.2.66:443\r\nX-Envoy-Internal: true\r\n\
    X-Gardener-Destination: other.example.com\r\nPortcullis.tunnel: [fd00::1]:443\r\nX-Remote-User: admin\r\n";

#[test]
fn forged_lines_change_neither_cluster_nor_address() {
    // The proxies that are trusted elsewhere see nothing of what is inside a tunnel.
    let mut site = Site::start("tunnels-forged", None, json!({"trustedHops": 1}));
    site.clear();
    let honest = site.pod(NAME, &site.shoots[0].serving_ca).identity(&site.shoots[0].user);
    assert_eq!(get(&honest, INSIDE, "").unwrap().status, 200);
    site.client = site.shoots[0].came().remove(0).header("x-forwarded-for").unwrap();
    let shoot = &site.shoots[0];
    let outside = FORGED.replace(OTHER, NAME);
    for (case, head) in [("inside", format!("X-Gardener-Destination: {NAME}\r\n")), ("both", outside)] {
        site.clear();
        let target = TlsTarget::new(site.door).sni(INSIDE).trust(&shoot.serving_ca).identity(&shoot.user);
        let target = target.tunnel(connect(&head).as_bytes());
        let answer = get(&target, INSIDE, FORGED).unwrap();
        assert_eq!(answer.status, 200, "{case}: {}", answer.text());
        let record = site.one(shoot, case);
        assert_eq!(record.effective.unwrap().username, format!("user of {NAME}"), "{case}");
    }
    let logged = || Some(site.logged()).filter(|all| all.len() == 3);
    let logged = wait::until("three tunnelled requests are logged", SOON, logged).unwrap();
    assert!(logged.iter().all(|line| line["client"] == CLIENT), "{logged:?}");
    site.clear();
    let head = connect(&format!("X-Gardener-Destination: {NAME}\r\n"));
    for (what, bytes) in [
        (
            "a PROXY header",
            format!("PROXY TCP4 192.0.2.66 127.0.0.1 4711 443\r\nGET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n\r\n"),
        ),
        ("no TLS", format!("GET {PODS} HTTP/1.1\r\nHost: {INSIDE}\r\nAuthorization: Bearer {ROBOT}\r\n\r\n")),
        ("a tunnel in the tunnel", connect(&format!("X-Gardener-Destination: {OTHER}\r\n"))),
    ] {
        assert!(plain::tunnel(site.door, head.as_bytes(), bytes.as_bytes()).is_err(), "{what}");
    }
    // A session of one cluster is nothing to another.
    let resuming = site.pod(NAME, &shoot.serving_ca).resuming().unwrap();
    for _ in 0..2 {
        let connection = resuming.connect().unwrap();
        assert!(!connection.is_resumed() && connection.tickets() == 0);
    }
    assert!(site.shoots.iter().all(|shoot| shoot.came().is_empty()));
}

#[test]
fn address_that_may_not_connect_gets_no_handshake_inside() {
    let site = Site::start("tunnels-addresses", None, json!({}));
    let shoot = &site.shoots[0];
    let only = |range: &str| {
        let manifest = shoot.manifest(&site.fixture).set("/spec/portcullis/clientAddresses", json!({"allow": [range]}));
        site.fixture.gateway.apply(&manifest).unwrap();
    };
    only("192.0.2.0/24");
    let opens = || site.pod(NAME, &shoot.serving_ca).connect().is_ok();
    wait::until("the client may not connect", SOON, || (!opens()).then_some(())).unwrap();
    assert!(!opens() && site.pod(OTHER, &site.shoots[1].serving_ca).connect().is_ok());
    assert_eq!(site.status(&format!("X-Gardener-Destination: {NAME}\r\n")), 200, "the chain judges, not the route");
    only("127.0.0.1/32");
    site.wait_for(NAME, &shoot.serving_ca);

    let trust = |ranges: Value| move |spec: &mut Value| spec["listener"]["tunnel"]["trustedSources"] = ranges;
    site.fixture.gateway.change_settings(trust(json!(["192.0.2.0/24"]))).unwrap();
    let is_closed = || site.answer(&connect(&format!("X-Gardener-Destination: {NAME}\r\n"))).is_empty().then_some(());
    wait::until("the port is closed to others", SOON, is_closed).unwrap();
    site.fixture.gateway.change_settings(trust(json!(["127.0.0.0/8"]))).unwrap();
    site.wait_for(NAME, &shoot.serving_ca);
}

/// A connection to the listener inside may be there before its client has gone.
#[test]
fn tunnel_that_was_given_up_leaves_nothing_to_the_next() {
    let site = Site::start("tunnels-given-up", None, json!({}));
    let [one, other] = &site.shoots;
    let head = connect(&format!("X-Gardener-Destination: {}\r\n", one.name));
    for _ in 0..50 {
        for _ in 0..4 {
            TcpStream::connect(site.door).unwrap().write_all(head.as_bytes()).unwrap();
        }
        site.pod(other.name, &other.serving_ca).connect().expect("the certificate of its own cluster");
    }
}

#[test]
fn upgrades_pass_through_a_tunnel() {
    let site = Site::start("tunnels-upgrades", None, json!({}));
    let shoot = &site.shoots[1];
    let target = site.pod(OTHER, &shoot.serving_ca).identity(&shoot.user);
    for (method, kind) in [("POST", "SPDY/3.1"), ("GET", "websocket")] {
        let mut stream = target.connect().unwrap();
        let head = format!(
            "{method} /api/v1/namespaces/default/pods/p/exec?command=x HTTP/1.1\r\nHost: {INSIDE}\r\n\
             Connection: Upgrade\r\nUpgrade: {kind}\r\n\r\n"
        );
        stream.write(head.as_bytes()).unwrap();
        assert_eq!(stream.read_head().unwrap().status, 101, "{kind}");
        stream.write(b"through").unwrap();
        assert_eq!(stream.read_exact(7).unwrap(), b"through", "{kind}");
    }
}

#[test]
fn edit_and_removal_end_tunnels_of_their_own_cluster_alone() {
    let site = Site::start("tunnels-edits", None, json!({}));
    let [own, other] = &site.shoots;
    let watch = "/api/v1/namespaces/default/pods?watch=true";
    let client =
        |shoot: &Shoot| H2Client::connect(&site.pod(shoot.name, &shoot.serving_ca).identity(&shoot.user)).unwrap();
    let theirs = client(other);

    // A name more is a chain of its own to Envoy, whose connections drain.
    let more = "more.example.com";
    let edit = own.manifest(&site.fixture).set("/spec/secureServing/serverNames", json!([more]));
    site.fixture.gateway.apply(&edit).unwrap();
    site.wait_for(more, &own.serving_ca);
    assert_eq!(theirs.get(PODS, &[]).unwrap().status, 200);
    assert!(!theirs.is_closed());

    // The name goes to the other one, and a new tunnel with it.
    site.fixture.gateway.apply(&own.manifest(&site.fixture)).unwrap();
    let taken = other.manifest(&site.fixture).set("/spec/secureServing/serverNames", json!([more]));
    site.fixture.gateway.apply(&taken).unwrap();
    site.wait_for(more, &other.serving_ca);

    let edit = own.manifest(&site.fixture).merge(&json!({"spec": {"portcullis": {"drainPeriod": "1s"}}}));
    site.fixture.gateway.apply(&edit).unwrap();
    let last = client(own);
    let mut begun = last.open("GET", watch, &[], b"").unwrap();
    site.fixture.gateway.remove(NAME).unwrap();
    let to_nothing = || (site.status(&format!("X-Gardener-Destination: {NAME}\r\n")) == 404).then_some(());
    wait::until("no cluster has the name", SOON, to_nothing).unwrap();
    let ended = || matches!(begun.next_chunk(Duration::from_millis(100)), Ok(None)).then_some(());
    wait::until("the watch of the removed cluster ends", SOON, ended).unwrap();
    assert_eq!(client(other).get(PODS, &[]).unwrap().status, 200);
}
