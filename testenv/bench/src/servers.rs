//! Stub apiservers in processes of their own, which can be restarted and whose CPU time can be read.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::plain;
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::{deps, ports, write_private};
use serde_json::{Value, json};

use crate::error::BenchError;

const STARTS: Duration = Duration::from_secs(30);
/// Connections that may wait to be taken: thousands of clients come at once.
const BACKLOG: &str = "4096";

/// The authorities of a server.
pub(crate) struct Authorities {
    pub(crate) server: Ca,
    pub(crate) client: Ca,
    pub(crate) front: Ca,
}

impl Authorities {
    pub(crate) fn new() -> Result<Self, BenchError> {
        Ok(Authorities { server: Ca::new("servers")?, client: Ca::new("clients")?, front: Ca::new("front proxies")? })
    }
}

/// A server, always at the same address.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    admin: SocketAddr,
    process: Process,
    /// Answers of its own, by the beginning of a path.
    answers: Value,
}

impl Server {
    /// Starts a server that knows the tokens, an object of users by token.
    pub(crate) fn start(dir: &Path, name: &str, trusts: &Authorities, tokens: &Value) -> Result<Self, BenchError> {
        let (address, admin) = (ports::free_address()?, ports::free_address()?);
        let file = |end: &str| dir.join(format!("{name}.{end}"));
        let certificate = trusts.server.issue(&CertSpec::server(name, ["kubernetes"]))?;
        certificate.write_pem(&file("crt"), &file("key"))?;
        trusts.client.write_pem(&file("ca"))?;
        trusts.front.write_pem(&file("front-ca"))?;
        write_private(&file("tokens"), tokens.to_string().as_bytes())?;
        let program = deps::stub_apiserver().map_err(portcullis_harness::Error::from)?;
        let spec = Spec::new(name, program, dir)
            .flag("address", address.to_string())
            .flag("admin-address", admin.to_string())
            .flag("tls-cert", file("crt"))
            .flag("tls-key", file("key"))
            .flag("client-ca", file("ca"))
            .flag("requestheader-client-ca", file("front-ca"))
            .flag("tokens", file("tokens"))
            .flag("impersonators", "portcullis")
            .flag("name", name)
            .flag("backlog", BACKLOG);
        let process = Process::start(spec)?;
        let server = Server { name: name.to_owned(), address, admin, process, answers: json!([]) };
        server.wait_listening()?;
        Ok(server)
    }

    /// Answers paths that begin so with 200 and that many bytes, also after a restart.
    pub(crate) fn answers(&mut self, paths: &[(&str, usize)]) -> Result<(), BenchError> {
        let answer = |(path, bytes): &(&str, usize)| {
            let action = json!({"type": "respond", "status": 200, "body": "x".repeat(*bytes)});
            json!({"pathPrefix": path, "action": action})
        };
        self.answers = paths.iter().map(answer).collect();
        self.ask("PUT", "faults", &self.answers.to_string())
    }

    /// Ends it as a machine does that fails.
    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// Starts it again.
    pub(crate) fn start_again(&mut self) -> Result<(), BenchError> {
        self.process.start_again()?;
        self.wait_listening()?;
        self.ask("PUT", "faults", &self.answers.to_string())
    }

    /// Has it forget what it was asked.
    pub(crate) fn forget(&self) -> Result<(), BenchError> {
        self.ask("DELETE", "requests", "")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn ask(&self, method: &str, page: &str, body: &str) -> Result<(), BenchError> {
        let answer = plain::request(self.admin, method, &format!("/_stub/{page}"), &[], body.as_bytes())?;
        let (found, wanted) = (answer.status, 200);
        if found == wanted { Ok(()) } else { Err(BenchError::Answer { found, wanted, body: answer.text() }) }
    }

    fn wait_listening(&self) -> Result<(), BenchError> {
        let listening = || plain::get(self.admin, "/_stub/counters");
        Ok(self.process.wait_ready("the server listens", STARTS, listening).map(drop)?)
    }
}
