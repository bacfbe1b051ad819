//! A gateway's certificate for xDS, renewed while Envoy runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use portcullis_e2e::{AgentSite, xds_client_flags, xds_server_flags};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::{ports, wait};

use super::fixture::{AgentFixture, SOON};

/// Both ends of xDS, with files that are replaced.
struct Renewal {
    fixture: AgentFixture,
    site: AgentSite,
}

const FILES: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

fn client(ca: &Ca) -> Identity {
    ca.issue(&CertSpec::client("envoy-0", [""; 0])).unwrap()
}

/// Writes a pair and authorities into a directory.
fn write(directory: &Path, identity: &Identity, authorities: &[&Ca]) {
    fs::create_dir_all(directory).unwrap();
    identity.write_pem(&directory.join(FILES[0]), &directory.join(FILES[1])).unwrap();
    let bundle: String = authorities.iter().map(|ca| ca.pem()).collect();
    fs::write(directory.join(FILES[2]), bundle).unwrap();
}

/// Replaces a volume as a kubelet does: one link, in one step.
fn mount(volume: &Path, version: &str) {
    let coming = volume.join("..data_tmp");
    symlink(version, &coming).unwrap();
    fs::rename(&coming, volume.join("..data")).unwrap();
}

impl Renewal {
    /// Gateways' certificates of `clients`, the control plane's of `servers`; the latter believes every one of `believed`.
    fn start(test: &str, clients: &Ca, servers: &Ca, believed: &[&Ca]) -> Self {
        let fixture = AgentFixture::new(test);
        let volume = fixture.run.make_dir("gateway").unwrap();
        write(&volume.join("..v0"), &client(clients), &[servers]);
        mount(&volume, "..v0");
        for file in FILES {
            symlink(format!("..data/{file}"), volume.join(file)).unwrap();
        }
        let server = servers.issue(&CertSpec::server("plane", ["plane.test"])).unwrap();
        write(&fixture.run.join("plane"), &server, believed);
        let xds = ports::free_address().unwrap();
        let files = |end: &str| FILES.map(|file| fixture.run.join(end).join(file));
        let (ours, theirs) = (files("plane"), files("gateway"));
        let site = fixture.site("envoy-0").plane_flags(xds_server_flags(xds, ours.each_ref().map(PathBuf::as_path)));
        let flags = xds_client_flags(xds, theirs.each_ref().map(PathBuf::as_path), "plane.test");
        let site = site.agent(|options| options.flags = flags).start().unwrap();
        site.plane().wait_in_sync(1, SOON).unwrap();
        Renewal { fixture, site }
    }

    fn volume(&self) -> PathBuf {
        self.fixture.run.join("gateway")
    }

    /// The serial numbers of all certificates that Envoy has. Their days to live change with the clock.
    fn shown(&self) -> Vec<String> {
        let page = self.site.agent.admin().get("/certs").unwrap().text();
        let lines = page.lines().filter(|line| line.contains("\"serial_number\""));
        lines.map(|line| line.trim().to_owned()).collect()
    }

    /// Waits until Envoy has read other files than those of `before`.
    fn wait_read(&self, before: &[String]) {
        let is_new = || (self.shown() != before).then_some(());
        wait::until("Envoy has read the new files", SOON, is_new).unwrap();
    }

    /// Ends the connection of xDS; afterwards the control plane believes one authority alone.
    fn connect_anew(&mut self, server: &Identity, believed: &Ca) {
        write(&self.fixture.run.join("plane"), server, &[believed]);
        self.site.planes[0].restart().unwrap();
        self.site.plane().wait_in_sync(1, SOON).unwrap();
    }
}

#[test]
fn xds_certificates_are_renewed_without_a_restart() {
    let [old, new] = ["old clients", "new clients"].map(|name| Ca::new(name).unwrap());
    let [server, next] = ["old servers", "new servers"].map(|name| Ca::new(name).unwrap());
    let mut renewal = Renewal::start("agent-renewal", &old, &server, &[&old, &new]);
    let envoy = renewal.site.agent.envoy_pid().unwrap();
    let volume = renewal.volume();

    let before = renewal.shown();
    write(&volume.join("..v1"), &client(&new), &[&server, &next]);
    mount(&volume, "..v1");
    renewal.wait_read(&before);
    // A server of the other authority, which does not believe the old certificate any more.
    let plane = next.issue(&CertSpec::server("plane", ["plane.test"])).unwrap();
    renewal.connect_anew(&plane, &new);

    // The old authority of servers is gone from the gateway as well.
    let before = renewal.shown();
    write(&volume.join("..v2"), &client(&new), &[&next]);
    mount(&volume, "..v2");
    renewal.wait_read(&before);
    renewal.connect_anew(&plane, &new);
    let deceiver = server.issue(&CertSpec::server("plane", ["plane.test"])).unwrap();
    write(&renewal.fixture.run.join("plane"), &deceiver, &[&new]);
    renewal.site.planes[0].restart().unwrap();
    let failed = || renewal.site.agent.admin().stat("cluster.portcullis-xds.ssl.fail_verify_error").unwrap();
    let tried = failed();
    wait::until("Envoy refuses that server", SOON, || (failed() >= tried + 2).then_some(())).unwrap();
    assert_eq!(renewal.site.plane().status().unwrap()["nodes"], serde_json::Value::Array(Vec::new()));

    assert_eq!(renewal.site.agent.envoy_pid().unwrap(), envoy, "Envoy was not started again");
}

/// A certificate without its key changes nothing, and what comes behind it acts.
#[test]
fn pair_that_is_replaced_in_two_steps_is_read_whole() {
    let [old, new] = ["old clients", "new clients"].map(|name| Ca::new(name).unwrap());
    let servers = Ca::new("servers").unwrap();
    let mut renewal = Renewal::start("agent-renewal-steps", &old, &servers, &[&old, &new]);
    let volume = renewal.volume();
    write(&volume.join("coming"), &client(&new), &[&servers]);
    let before = renewal.shown();
    fs::rename(volume.join("coming/tls.crt"), volume.join("tls.crt")).unwrap();
    let failed = || renewal.site.agent.admin().stat("sds.portcullis-xds-certificate.key_rotation_failed").unwrap();
    wait::until("Envoy refuses half of it", SOON, || (failed() > 0).then_some(())).unwrap();
    assert_eq!(renewal.shown(), before);
    fs::rename(volume.join("coming/tls.key"), volume.join("tls.key")).unwrap();
    renewal.wait_read(&before);
    let plane = servers.issue(&CertSpec::server("plane", ["plane.test"])).unwrap();
    renewal.connect_anew(&plane, &new);
}
