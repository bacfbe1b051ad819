//! The stub as a process says where it listens.
#![cfg(test)]

use std::time::Duration;

use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::{TlsTarget, plain};
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::rundir::RunDir;

#[test]
fn first_line_tells_the_addresses() {
    let run = RunDir::new("stub-process").unwrap();
    let ca = Ca::new("ca").unwrap();
    ca.issue(&CertSpec::server("stub", ["stub.test"])).unwrap().write_pem(&run.join("crt"), &run.join("key")).unwrap();
    let tokens = run.write("tokens.json", r#"{"t": {"user": "tess", "groups": ["dev"]}}"#).unwrap();
    let out = run.join("out");
    let spec = Spec::new("stub", env!("CARGO_BIN_EXE_stub-apiserver"), run.path())
        .flag("tls-cert", run.join("crt"))
        .flag("tls-key", run.join("key"))
        .flag("tokens", &tokens)
        .args(["--anonymous=health-only", "--admin-address=127.0.0.1:0"])
        .stdout_to(out);
    let process = Process::start(spec).unwrap();
    let line: serde_json::Value = process
        .wait_ready("its line", Duration::from_secs(20), || serde_json::from_str(process.stdout().trim()))
        .unwrap();
    let address = |field: &str| line[field].as_str().unwrap().parse().unwrap();
    let target = TlsTarget::new(address("address")).trust(&ca);
    let ask = |authorization: &str| {
        let request = format!("GET /version HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{authorization}\r\n");
        target.raw_request(request.as_bytes()).unwrap().status
    };
    assert_eq!((ask(""), ask("Authorization: Bearer t\r\n")), (401, 200));
    assert_eq!(plain::get(address("adminAddress"), "/_stub/counters").unwrap().json().unwrap()["requests"], 2);
}
