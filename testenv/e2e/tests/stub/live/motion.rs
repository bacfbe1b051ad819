//! A gateway whose way of saying who a user is changes, in front of servers that believe it in both ways.

use std::net::{SocketAddr, TcpListener};

use portcullis_e2e::{Gateway, GatewayOptions, Manifest, encode};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{LoadProfile, Protocol, TlsTarget};
use portcullis_harness::rundir::RunDir;
use portcullis_stub_apiserver::{SharedStore, StubServer};
use serde_json::json;

use super::site::{PATIENCE, servers};
use super::slow_server::SlowServer;
use crate::fixture::{NAME, Pki, ROBOT};

/// The names under which the servers let the gateway impersonate, and take it for a front proxy.
const IMPERSONATORS: [&str; 2] = ["portcullis", "portcullis-next"];
const FRONT_PROXY: &str = "front-proxy";

/// A gateway in front of two servers that know it in both modes, by a certificate for each.
pub(super) struct Motion {
    pub(super) gateway: Gateway,
    pub(super) stubs: Vec<StubServer>,
    front_proxy: Identity,
    pub(super) manifest: Manifest,
    pub(super) pki: Pki,
    /// A server that takes connections and says nothing.
    mute: TcpListener,
    /// The first server, by a way that takes long.
    pub(super) slow: SlowServer,
    /// The gateway's credential by which it impersonates, under two subjects.
    impersonators: [Identity; 2],
    /// Another authority that the gateway believes now and then.
    other_ca: Ca,
    _run: RunDir,
}

impl Motion {
    pub(super) fn start(test: &str) -> Self {
        let run = RunDir::new(test).unwrap();
        let pki = Pki::new();
        let proxies = Ca::new("front proxies").unwrap();
        let store = SharedStore::default();
        let stubs = (0..2).map(|number| stub(&pki, &proxies, &store, number)).collect::<Vec<_>>();
        let gateway = Gateway::start(&run, &GatewayOptions::default()).unwrap();
        let manifest = Manifest::new(NAME, stubs.iter().map(StubServer::address))
            .serving(&gateway.serving_identity(NAME).unwrap(), &pki.client_ca);
        let next = pki.client_ca.issue(&CertSpec::client(IMPERSONATORS[1], [""; 0])).unwrap();
        let mut motion = Motion {
            gateway,
            slow: SlowServer::start(stubs[0].address()),
            impersonators: [pki.gateway.clone(), next],
            other_ca: Ca::new("servers").unwrap(),
            stubs,
            front_proxy: proxies.issue(&CertSpec::client(FRONT_PROXY, [""; 0])).unwrap(),
            manifest,
            pki,
            mute: TcpListener::bind("127.0.0.1:0").unwrap(),
            _run: run,
        };
        motion.edit(Edit { by_headers: true, ..Edit::default() });
        motion.gateway.apply(&motion.manifest).unwrap();
        motion
    }

    /// Changes the manifest without applying it.
    pub(super) fn edit(&mut self, edit: Edit) {
        let (mode, identity) = match edit.by_headers {
            true => ("RequestHeader", &self.front_proxy),
            false => ("Impersonate", &self.pki.gateway),
        };
        let mut addresses: Vec<SocketAddr> = self.stubs.iter().map(StubServer::address).collect();
        addresses.extend(edit.has_mute.then(|| self.mute.local_addr().unwrap()));
        addresses.extend(edit.has_slow.then(|| self.slow.address()));
        self.manifest = self
            .manifest
            .clone()
            .upstream(identity, &self.pki.server_ca, "kubernetes")
            .set("/spec/servers", servers(&addresses, &[]))
            .set("/spec/portcullis", json!({"upstreamIdentity": mode}));
    }

    /// Changes one of the facts that identity depends on beside the mode: the object, as if it was deleted and made anew, the
    /// authorities of the servers, or the subject of the gateway's credential.
    pub(super) fn succeed(&mut self, number: usize) {
        let turn = number / 3 % 2;
        let manifest = self.manifest.clone();
        self.manifest = match number % 3 {
            0 => manifest.set("/metadata/uid", json!(format!("object-{number}"))),
            1 => {
                let more = if turn == 0 { self.other_ca.pem() } else { String::new() };
                manifest.set("/spec/clientConfig/caData", json!(encode(&(self.pki.server_ca.pem() + &more))))
            }
            _ => {
                let ca = manifest.get("/spec/clientConfig/caData");
                let next = &self.impersonators[1 - turn];
                manifest.upstream(next, &self.pki.server_ca, "kubernetes").set("/spec/clientConfig/caData", ca)
            }
        };
    }

    pub(super) fn target(&self) -> TlsTarget {
        self.gateway.target(NAME).timeout(PATIENCE)
    }

    pub(super) fn lanes(&self) -> Vec<LoadProfile> {
        let alice = self.target().identity(&self.pki.alice);
        let of = |protocol| {
            [
                LoadProfile::new(format!("certificate, {protocol:?}"), &alice, protocol),
                LoadProfile::new(format!("token, {protocol:?}"), &self.target(), protocol).token(ROBOT),
            ]
        };
        [Protocol::Http2, Protocol::Http1].into_iter().flat_map(of).collect()
    }

    /// The requests that were handled as a user who did not send them, and the number of all that were handled.
    pub(super) fn believed(&self) -> (Vec<String>, usize) {
        let records: Vec<_> = self.stubs.iter().flat_map(StubServer::records).collect();
        let of_clients = records.iter().filter(|record| record.path().contains("/namespaces/"));
        let handled: Vec<_> = of_clients.filter_map(|record| Some((record, record.effective.as_ref()?))).collect();
        let owner = |path: &str| if path.contains("/alice") { "alice" } else { "robot" };
        let of_others = handled.iter().filter(|(record, user)| user.username != owner(record.path()));
        let told = |(record, user): &(&_, &portcullis_stub_apiserver::User)| {
            let record: &portcullis_stub_apiserver::Record = record;
            let by = record.peer_common_name.as_deref().unwrap_or("-");
            format!("{} {} as {} {:?} by {by}", record.method, record.target, user.username, record.status)
        };
        (of_others.map(told).collect(), handled.len())
    }
}

/// The edits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edit {
    /// `RequestHeader`, or `Impersonate`.
    pub(super) by_headers: bool,
    /// Whether the server that says nothing is among the servers.
    pub(super) has_mute: bool,
    /// Whether the server that is slow to answer handshakes is among them.
    pub(super) has_slow: bool,
}

fn stub(pki: &Pki, proxies: &Ca, store: &SharedStore, number: usize) -> StubServer {
    let mut options = pki.stub_options(&format!("stub-{number}"));
    options.store = store.clone();
    options.impersonators = IMPERSONATORS.map(str::to_owned).to_vec();
    options.requestheader_ca = Some(proxies.pem());
    options.requestheader_names = vec![FRONT_PROXY.to_owned()];
    StubServer::start(options).unwrap()
}
