//! `portcullis top` and `portcullis status --watch` on a terminal, and their login.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::process::{Process, Signal, Spec};
use portcullis_harness::{deps, wait};

use crate::fixture::{NAME, StubFixture};

const SOON: Duration = Duration::from_secs(20);
const CLEAR_REST: &str = "\u{1b}[J";
const OPEN: &str = "\u{1b}[?1049h";
const CLOSE: &str = "\u{1b}[?1049l";

fn portcullis(args: &[&str]) -> Output {
    Command::new(deps::portcullis().unwrap()).args(args).stdin(Stdio::null()).output().unwrap()
}

/// A command on a terminal of 24 rows.
fn on_terminal(fixture: &StubFixture, name: &str, args: &[&str]) -> Process {
    let binary = deps::portcullis().unwrap();
    let spec = Spec::new(name, binary, fixture.run.path()).args(args).stdin_piped();
    let spec = spec.stdout_to(fixture.run.join(&format!("{name}.screen")));
    Process::start(spec.on_terminal(24, 200, &fixture.run.join(&format!("{name}.tty")))).unwrap()
}

/// How often a screen was drawn that ends with these words or has them.
fn drawn(process: &Process, words: &str) -> usize {
    process.stdout().split(CLEAR_REST).filter(|screen| screen.contains(words)).count()
}

fn wait_for(process: &Process, times: usize, words: &str) {
    let is_drawn = || {
        let found = drawn(process, words);
        if found >= times { Ok(()) } else { Err(format!("{found} times in {}", process.stdout())) }
    };
    wait::until_ok(&format!("{words} is on the screen"), SOON, is_drawn).unwrap();
}

#[test]
fn terminal_is_drawn_again_takes_keys_and_is_given_back() {
    let mut fixture = StubFixture::start("top-terminal", &GatewayOptions::default());
    let address = fixture.gateway.plane().http_address().to_string();
    let top = on_terminal(&fixture, "top", &["top", "--address", &address, "--interval", "500ms"]);
    wait_for(&top, 3, NAME);
    assert!(top.stdout().contains(OPEN), "{}", top.stdout());
    assert_eq!(drawn(&top, "by requests"), 0);
    top.write(b"s").unwrap();
    wait_for(&top, 1, "by requests");
    // A control plane that is away for a while ends nothing.
    fixture.gateway.plane().process().signal(Signal::Kill).unwrap();
    wait_for(&top, 1, "error: cannot ask the control plane");
    fixture.gateway.restart_control_plane().unwrap();
    let before = drawn(&top, "by requests");
    wait_for(&top, before + 1, "by requests");
    top.write(b"q").unwrap();
    assert!(top.wait_exit(SOON).unwrap().success());
    assert!(top.stdout().contains(CLOSE), "{}", top.stdout());

    let status = on_terminal(&fixture, "status", &["status", "--watch", "--interval", "500ms", "--address", &address]);
    wait_for(&status, 3, NAME);
    let terminal = std::fs::read_to_string(fixture.run.join("status.tty")).unwrap();
    let modes = || {
        let told = Command::new("stty").args(["-F", terminal.trim(), "-a"]).output().unwrap();
        String::from_utf8(told.stdout).unwrap()
    };
    assert!(modes().contains(" -icanon"), "{}", modes());
    // Ctrl-C.
    status.write(b"\x03").unwrap();
    assert!(status.wait_exit(SOON).unwrap().success());
    assert!(status.stdout().contains(CLOSE), "{}", status.stdout());
}

#[test]
fn output_that_is_no_terminal_is_printed_once() {
    let fixture = StubFixture::start("top-once", &GatewayOptions::default());
    let address = fixture.gateway.plane().http_address().to_string();
    for args in [&["top"][..], &["top", "-c", NAME], &["status", "--watch"]] {
        let output = portcullis(&[args, &["--address", &address]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(NAME) && !text.contains('\u{1b}'), "{args:?}: {text}");
    }
    let unknown = portcullis(&["top", "-c", "other.example.com", "--address", &address]);
    let message = String::from_utf8(unknown.stderr).unwrap();
    assert!(unknown.status.code() == Some(1) && message.contains("no object of that name"), "{message}");
    let nobody = portcullis(&["top", "--once", "--address", "127.0.0.1:1"]);
    let message = String::from_utf8(nobody.stderr).unwrap();
    assert!(nobody.status.code() == Some(1) && message.contains("does `portcullis serve` run there?"), "{message}");
}

#[test]
fn top_and_status_log_in_by_a_certificate() {
    let fixture = StubFixture::start("top-login", &GatewayOptions::default());
    let [ca, readers, strangers] = ["console", "readers", "strangers"].map(|name| Ca::new(name).unwrap());
    let file = |name: &str| fixture.run.join(name).display().to_string();
    let serving = ca.issue(&CertSpec::server("console", ["console.test"])).unwrap();
    serving.write_pem(Path::new(&file("console.crt")), Path::new(&file("console.key"))).unwrap();
    ca.write_pem(Path::new(&file("ca.crt"))).unwrap();
    readers.write_pem(Path::new(&file("readers.crt"))).unwrap();
    for (name, ca) in [("reader", &readers), ("stranger", &strangers)] {
        let identity = ca.issue(&CertSpec::client(name, [""; 0])).unwrap();
        identity.write_pem(Path::new(&file(&format!("{name}.crt"))), Path::new(&file(&format!("{name}.key")))).unwrap();
    }
    let manifests = fixture.gateway.manifests().display().to_string();
    let (certificate, key, client_ca) = (file("console.crt"), file("console.key"), file("readers.crt"));
    let flags = [
        "--config",
        &manifests,
        "--http-tls-cert",
        &certificate,
        "--http-tls-key",
        &key,
        "--http-client-ca",
        &client_ca,
    ];
    let plane = ControlPlane::start_behind_login(&fixture.run.make_dir("plane").unwrap(), &flags).unwrap();
    let address = plane.http_address().to_string();
    let ask = |command: &str, more: &[&str]| {
        let output = portcullis(&[&[command, "--address", &address], more].concat());
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (ca, name) = (file("ca.crt"), "console.test");
    let tls = ["--certificate-authority", &ca, "--tls-server-name", name];
    let identity = |name: &str| [file(&format!("{name}.crt")), file(&format!("{name}.key"))];
    let [reader, reader_key] = identity("reader");
    let good = [&tls[..], &["--client-certificate", &reader, "--client-key", &reader_key]].concat();
    let is_shown = || {
        let (is_good, text) = ask("top", &good);
        (is_good && text.contains(NAME)).then_some(()).ok_or(text)
    };
    wait::until_ok("the reader sees the fleet", SOON, is_shown).unwrap();
    assert!(ask("status", &good).1.contains(NAME));

    let [stranger, stranger_key] = identity("stranger");
    let strange = [&tls[..], &["--client-certificate", &stranger, "--client-key", &stranger_key]].concat();
    let wrong_ca = ["--certificate-authority", &client_ca, "--tls-server-name", name];
    let wrong_name = ["--certificate-authority", &ca, "--tls-server-name", "other.test"];
    for (more, message) in [
        (&tls[..], "wants a login"),
        (&[], "wants a login"),
        (&strange, ""),
        (&wrong_ca, "the handshake with"),
        (&wrong_name, "the handshake with"),
    ] {
        let (is_good, text) = ask("top", more);
        assert!(!is_good && text.contains(message) && !text.contains(NAME), "{more:?}: {text}");
    }
}
