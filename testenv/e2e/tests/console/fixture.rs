use std::time::Duration;

use portcullis_e2e::{AgentSite, AgentSiteSetup, Manifest};
use portcullis_harness::browser::Browser;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{wait, write_private};
use portcullis_stub_apiserver::{StubOptions, StubServer};
use serde_json::{Value, json};

/// The host name of the cluster in these tests.
pub(crate) const NAME: &str = "prod.example.com";
/// How long a page may take to show something.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The number of servers of a cluster.
const SERVERS: usize = 3;

/// A control plane, a gateway with an agent, and the servers behind it.
pub(crate) struct ConsoleFixture {
    pub(crate) site: AgentSite,
    pub(crate) stubs: Vec<StubServer>,
    serving_ca: Ca,
    server_ca: Ca,
    client_ca: Ca,
    gateway: Identity,
    // Removed last.
    pub(crate) run: RunDir,
}

impl ConsoleFixture {
    /// Starts a gateway with the cluster [`NAME`] that is ready. Users are counted.
    pub(crate) fn start(test: &str) -> Self {
        let run = RunDir::new(test).unwrap();
        let [serving_ca, server_ca, client_ca] = ["serving", "servers", "clients"].map(|name| Ca::new(name).unwrap());
        let gateway = client_ca.issue(&CertSpec::client("portcullis", [""; 0])).unwrap();
        let stub = |number| {
            let identity = server_ca.issue(&CertSpec::server("stub", ["kubernetes"])).unwrap();
            let mut options = StubOptions::new(identity.pem(), identity.key_pem()).client_ca(client_ca.pem());
            options.impersonators = vec!["portcullis".to_owned()];
            options.name = format!("stub-{number}");
            StubServer::start(options).unwrap()
        };
        let stubs: Vec<StubServer> = (0..SERVERS).map(stub).collect();
        let site = AgentSiteSetup::new(&run, "gateway-0", &serving_ca)
            .settings(json!({"metrics": {"users": {"mode": "TopK"}}}))
            .start()
            .unwrap();
        let fixture = ConsoleFixture { site, stubs, serving_ca, server_ca, client_ca, gateway, run };
        fixture.apply(&fixture.manifest(NAME));
        fixture.site.plane().wait_status("the cluster is ready", SOON, is_ready).unwrap();
        fixture
    }

    /// A cluster of all servers.
    pub(crate) fn manifest(&self, name: &str) -> Manifest {
        self.manifest_of(name, SERVERS)
    }

    /// A cluster of the first servers.
    pub(crate) fn manifest_of(&self, name: &str, servers: usize) -> Manifest {
        let serving = self.serving_ca.issue(&CertSpec::server(name, [name])).unwrap();
        Manifest::new(name, self.stubs.iter().take(servers).map(StubServer::address))
            .upstream(&self.gateway, &self.server_ca, "kubernetes")
            .serving(&serving, &self.client_ca)
    }

    pub(crate) fn apply(&self, manifest: &Manifest) {
        self.write(&format!("{}.yaml", manifest.name().replace('*', "any")), &manifest.to_text());
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        write_private(&self.site.manifests.join(file), text.as_bytes()).unwrap();
    }

    /// A cluster for a user.
    pub(crate) fn target(&self, name: &str, user: &str) -> TlsTarget {
        let identity = self.client_ca.issue(&CertSpec::client(user, ["dev"])).unwrap();
        TlsTarget::new(self.site.address).sni(name).trust(&self.serving_ca).identity(&identity)
    }

    /// The console in a browser with a window of this size.
    pub(crate) fn browser(&self, width: u32, height: u32) -> Browser {
        Browser::start(&self.run, width, height).unwrap()
    }

    pub(crate) fn open(&self, browser: &Browser, path: &str) {
        browser.open(self.site.plane().http_address(), path).unwrap();
    }
}

/// Sends a request on a connection of its own; returns the status.
pub(crate) fn get(target: &TlsTarget, name: &str, path: &str, agent: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {name}\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n");
    target.raw_request(request.as_bytes()).unwrap().status
}

/// Waits until a script returns something else than null or false.
pub(crate) fn wait_for(browser: &Browser, what: &str, deadline: Duration, script: &str) -> Value {
    wait::until_ok(what, deadline, || match browser.run(script, &[]) {
        Ok(Value::Null | Value::Bool(false)) => Err(browser.text().unwrap_or_default()),
        Ok(found) => Ok(found),
        Err(error) => Err(error.to_string()),
    })
    .unwrap()
}

/// Waits until the page shows a text.
pub(crate) fn wait_text(browser: &Browser, text: &str) {
    wait::until_ok(text, SOON, || {
        let shown = browser.text().map_err(|error| error.to_string())?;
        if shown.contains(text) { Ok(()) } else { Err(shown) }
    })
    .unwrap();
}

/// Asserts that the page broke no rule of its own security policy, and that no script failed.
pub(crate) fn assert_quiet(browser: &Browser) {
    let messages = browser.console_messages().unwrap();
    // The favicon and answers with an error status are reported, too.
    let bad = |message: &&String| !message.contains("Failed to load resource");
    assert_eq!(messages.iter().filter(bad).collect::<Vec<_>>(), [""; 0]);
}

fn is_ready(status: &Value) -> bool {
    let objects = status["objects"].as_array().into_iter().flatten();
    let mut ready = objects.filter(|one| one["name"] == NAME).flat_map(|one| one["conditions"].as_array().cloned());
    ready.any(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}
