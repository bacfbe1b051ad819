//! A gateway whose way of saying who a user is changes, in front of servers that believe it in both ways.

use std::net::{SocketAddr, TcpListener};

use portcullis_e2e::{Gateway, GatewayOptions, Manifest};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{LoadProfile, Protocol, TlsTarget};
use portcullis_harness::rundir::RunDir;
use portcullis_stub_apiserver::{SharedStore, StubServer};
use serde_json::json;

use super::site::{PATIENCE, servers};
use crate::fixture::{NAME, Pki, ROBOT};

/// The names under which the servers let the gateway impersonate, and take it for a front proxy.
const IMPERSONATOR: &str = "portcullis";
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
        let mut motion = Motion {
            gateway,
            stubs,
            front_proxy: proxies.issue(&CertSpec::client(FRONT_PROXY, [""; 0])).unwrap(),
            manifest,
            pki,
            mute: TcpListener::bind("127.0.0.1:0").unwrap(),
            _run: run,
        };
        motion.edit(Edit { by_headers: true, has_mute: false });
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
        self.manifest = self
            .manifest
            .clone()
            .upstream(identity, &self.pki.server_ca, "kubernetes")
            .set("/spec/servers", servers(&addresses, &[]))
            .set("/spec/portcullis", json!({"upstreamIdentity": mode}));
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Edit {
    /// `RequestHeader`, or `Impersonate`.
    pub(super) by_headers: bool,
    /// Whether the server that says nothing is among the servers.
    pub(super) has_mute: bool,
}

fn stub(pki: &Pki, proxies: &Ca, store: &SharedStore, number: usize) -> StubServer {
    let mut options = pki.stub_options(&format!("stub-{number}"));
    options.store = store.clone();
    options.impersonators = vec![IMPERSONATOR.to_owned()];
    options.requestheader_ca = Some(proxies.pem());
    options.requestheader_names = vec![FRONT_PROXY.to_owned()];
    StubServer::start(options).unwrap()
}
