//! Reports of the activity by the filter itself, to a control plane that serves other gateways or none.

use std::thread;
use std::time::Duration;

use portcullis_e2e::{PlainFiles, ReportConsole};
use portcullis_harness::client::H2Client;
use portcullis_harness::process::{Process, Signal, Spec};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root, wait};

use super::{Plain, for_1_38};
use crate::fixture::{NAME, PODS};

const SOON: Duration = Duration::from_secs(40);

/// Adds the Envoy cluster of a control plane, which is shown a certificate of a name.
pub(super) fn add_control_plane(console: &ReportConsole, files: &PlainFiles, name: &str) {
    let pki = files.folder().join("pki");
    let identity = console.identity(name).unwrap();
    identity.write_pem(&pki.join("activity.crt"), &pki.join("activity.key")).unwrap();
    console.server_ca.write_pem(&pki.join("control-plane-ca.crt")).unwrap();
    let sample = std::fs::read_to_string(project_root().join("envoy/plain/activity.yaml")).unwrap();
    let (host, port) = (console.xds().ip().to_string(), console.xds().port().to_string());
    let sample = sample.replace("192.0.2.9", &host).replace("18000", &port);
    let sample = sample.replace("/etc/portcullis", files.folder().to_str().unwrap());
    files.edit("clusters.yaml", |text| text + &sample).unwrap();
    // As the object is called.
    let named = |text: String| text.replace("            name: prod\n", &format!("            name: {NAME}\n"));
    files.edit("routes.yaml", named).unwrap();
}

/// Makes an Envoy report as a node, with a certificate of a name.
fn report(console: &ReportConsole, files: &PlainFiles, node: &str, name: &str) {
    add_control_plane(console, files, name);
    let activity = format!("node: \"{node}\", intervalSeconds: 5}}");
    let uncommented =
        |text: String| text.replace("# activity: {", "activity: {").replacen("node: portcullis-0}", &activity, 1);
    files.edit("listener.yaml", uncommented).unwrap();
}

/// Sends requests until the console shows them.
fn until_shown(console: &ReportConsole, plain: &Plain, node: &str) {
    let alice = H2Client::connect(&plain.gateway.target().identity(&plain.pki.alice)).unwrap();
    wait::until_ok("the console has rates of the gateway", SOON, || {
        assert_eq!(alice.get(PODS, &[]).unwrap().status, 200);
        console.shows_rates_of(node)
    })
    .unwrap();
}

#[test]
fn gateway_without_an_agent_is_on_the_console() {
    thread::scope(|scope| {
        for version in deps::envoy_versions() {
            scope.spawn(move || is_on_the_console(version));
        }
    });
}

fn is_on_the_console(version: String) {
    let run = RunDir::new(&format!("plain-reports-{version}")).unwrap();
    let mut console = ReportConsole::start(&run, NAME).unwrap();
    let is_old = version.starts_with("1.38.");
    let plain = Plain::start("impersonate", Some(version), |files| {
        report(&console, files, "*.gateways.test", "*.gateways.test");
        if is_old {
            for_1_38(files);
        }
    });
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let node = format!("{}.gateways.test", host.trim().split('.').next().unwrap());
    until_shown(&console, &plain, &node);
    let address = console.plane.http_address().to_string();
    let top = Spec::new("top", deps::portcullis().unwrap(), run.path()).args(["top", "--once", "--address", &address]);
    let top = Process::start(top).unwrap();
    assert!(top.wait_exit(SOON).unwrap().success());
    let screen = top.stdout();
    assert!(screen.contains(NAME) && screen.contains(&node), "{screen}");

    console.plane.process().signal(Signal::Kill).unwrap();
    console.plane.restart().unwrap();
    until_shown(&console, &plain, &node);
    assert_eq!(console.rejections(&[]).unwrap(), 0);
}

#[test]
fn report_for_another_gateway_is_refused() {
    let run = RunDir::new("plain-reports-thief").unwrap();
    let console = ReportConsole::start(&run, NAME).unwrap();
    let plain = Plain::start("impersonate", None, |files| report(&console, files, "honest.test", "thief.test"));
    let alice = H2Client::connect(&plain.gateway.target().identity(&plain.pki.alice)).unwrap();
    wait::until_ok("the report is refused", SOON, || {
        // Requests go on as ever.
        assert_eq!(alice.get(PODS, &[]).unwrap().status, 200);
        let log = plain.gateway.envoy().process().log();
        let is_logged = log.contains("has to be a name of the client certificate");
        if is_logged && console.rejections(&[("reason", "node")]).unwrap() > 0 { Ok(()) } else { Err(log) }
    })
    .unwrap();
    assert_eq!(console.fleet().unwrap()["gateways"], serde_json::json!([]));
}
