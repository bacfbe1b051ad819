use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::plain;
use portcullis_harness::process::{Process, Signal, Spec};
use portcullis_harness::{deps, ports};
use serde_json::json;

use crate::fixture::{Pki, ROBOT};

/// The number of connections that may wait until a server takes them.
const BACKLOG: usize = 16;

/// How a server can be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Its process was killed: connections break, new ones are refused.
    Killed,
    /// Its process is frozen: the kernel takes connections and data, and nothing answers.
    Frozen,
    /// The same, and packets of new connections are dropped: what a port behind a firewall is.
    Blackholed,
    /// It serves, and its health check gets no answer.
    Hanging,
    /// Its certificate has expired, and its connections were closed.
    Expired,
}

/// A stub in a process of its own, always at the same address.
pub(super) struct Server {
    process: Process,
    /// The connections that fill the queue.
    queued: Mutex<Vec<TcpStream>>,
    pub(super) address: SocketAddr,
    admin: SocketAddr,
    certificate: Identity,
    expired: Identity,
}

impl Server {
    pub(super) fn start(pki: &Pki, dir: &Path, number: usize) -> Self {
        let name = format!("server-{number}");
        let (address, admin) = (ports::free_address().unwrap(), ports::free_address().unwrap());
        let server = CertSpec::server(&name, ["kubernetes"]);
        let certificate = pki.server_ca.issue(&server).unwrap();
        let expired = pki.server_ca.issue(&server.expired()).unwrap();
        let file = |end: &str| dir.join(format!("{name}.{end}"));
        certificate.write_pem(&file("crt"), &file("key")).unwrap();
        pki.client_ca.write_pem(&file("ca")).unwrap();
        let tokens = json!({ROBOT: {"user": "robot"}}).to_string();
        portcullis_harness::write_private(&file("tokens"), tokens.as_bytes()).unwrap();
        let spec = Spec::new(&name, deps::stub_apiserver().unwrap(), dir)
            .flag("address", address.to_string())
            .flag("admin-address", admin.to_string())
            .flag("tls-cert", file("crt"))
            .flag("tls-key", file("key"))
            .flag("client-ca", file("ca"))
            .flag("tokens", file("tokens"))
            .flag("impersonators", "portcullis")
            .flag("name", &name)
            .flag("backlog", BACKLOG.to_string());
        let process = Process::start(spec).unwrap();
        let server = Server { process, queued: Mutex::default(), address, admin, certificate, expired };
        server.wait_listening();
        server
    }

    fn wait_listening(&self) {
        let listening = || plain::get(self.admin, "/_stub/counters");
        self.process.wait_ready("the server listens", Duration::from_secs(20), listening).unwrap();
    }

    pub(super) fn fail(&self, how: Failure) {
        match how {
            Failure::Killed => self.process.kill(),
            Failure::Frozen => self.process.signal(Signal::Stop).unwrap(),
            Failure::Blackholed => {
                self.process.signal(Signal::Stop).unwrap();
                self.fill();
            }
            Failure::Hanging => {
                let fault = json!({"pathPrefix": "/readyz", "action": {"type": "hang"}});
                self.ask("POST", "faults", &fault.to_string());
            }
            Failure::Expired => {
                self.show(&self.expired);
                self.ask("DELETE", "connections", "");
            }
        }
    }

    pub(super) fn recover(&mut self, from: Failure) {
        match from {
            Failure::Killed => {
                self.process.start_again().unwrap();
                self.wait_listening();
            }
            Failure::Frozen => self.process.signal(Signal::Cont).unwrap(),
            Failure::Blackholed => {
                self.queued.lock().unwrap().clear();
                self.process.signal(Signal::Cont).unwrap();
            }
            Failure::Hanging => self.ask("DELETE", "faults", ""),
            Failure::Expired => self.show(&self.certificate),
        }
    }

    /// Connects until the queue is full, from where on the kernel drops what asks for a connection.
    fn fill(&self) {
        let connect = || TcpStream::connect_timeout(&self.address, Duration::from_millis(300));
        let queued: Vec<_> = std::iter::from_fn(|| connect().ok()).take(10 * BACKLOG).collect();
        assert!(queued.len() < 10 * BACKLOG, "the queue is never full");
        *self.queued.lock().unwrap() = queued;
    }

    fn show(&self, identity: &Identity) {
        let shown = json!({"certificate": identity.pem(), "key": identity.key_pem()});
        self.ask("PUT", "certificate", &shown.to_string());
    }

    fn ask(&self, method: &str, page: &str, body: &str) {
        let answer = plain::request(self.admin, method, &format!("/_stub/{page}"), &[], body.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}
