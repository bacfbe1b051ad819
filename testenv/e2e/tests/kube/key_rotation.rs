//! Signing keys of service accounts that are rotated at real kube-apiservers while tokens are in use: two keys, then the new one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::certs::PrivateKey;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{KubeFixture, NAME};
use crate::local_tokens::{issuer, reviews};

/// Clients that present what is a valid token at the moment, one request after another.
struct Load {
    token: Mutex<String>,
    ends: AtomicBool,
    good: AtomicU64,
    bad: Mutex<Vec<String>>,
}

fn request(token: &str) -> Vec<u8> {
    format!("GET /api HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n")
        .into_bytes()
}

impl Load {
    fn run(&self, target: &TlsTarget) {
        while !self.ends.load(Ordering::Relaxed) {
            let token = self.token.lock().unwrap().clone();
            match target.raw_request(&request(&token)) {
                Ok(response) if response.status == 200 => {
                    self.good.fetch_add(1, Ordering::Relaxed);
                }
                Ok(response) => self.bad.lock().unwrap().push(format!("{} {}", response.status, response.text())),
                Err(error) => self.bad.lock().unwrap().push(error.to_string()),
            }
        }
    }

    /// Has requests of each client come with the present token alone.
    fn present(&self, token: &str) {
        token.clone_into(&mut self.token.lock().unwrap());
        let before = self.good.load(Ordering::Relaxed);
        let more = || (self.good.load(Ordering::Relaxed) > before + 20).then_some(());
        wait::until("requests go on", Duration::from_secs(60), more).unwrap();
    }
}

/// Ends the clients however the test ends.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn write(fixture: &KubeFixture, signing: &PrivateKey, public: &[&PrivateKey]) {
    let public: String = public.iter().map(|key| key.public_pem()).collect();
    fixture.run.write("kube/accounts.key", signing.pem()).unwrap();
    fixture.run.write("kube/accounts.pub", public).unwrap();
}

/// An object with the keys of its servers, of which some take no requests.
fn manifest(fixture: &KubeFixture, disabled: Option<usize>) -> Manifest {
    let portcullis = json!({"tokens": issuer(&json!({"fromServers": true})), "credentialCache": {"tokenTTL": "0"}});
    let manifest = fixture.manifest().set("/spec/portcullis", portcullis);
    let disabled = disabled.map(|server| format!("/spec/servers/{server}/disabled"));
    disabled.into_iter().fold(manifest, |manifest, field| manifest.set(&field, json!(true)))
}

/// Restarts one server after the other while it takes no requests, as an operator does. Each edit of the servers has the control
/// plane ask them for their keys at once, which it does every five minutes otherwise.
fn restart_in_turn(fixture: &mut KubeFixture) {
    for server in 0..2 {
        fixture.gateway.apply(&manifest(fixture, Some(server))).unwrap();
        fixture.kube.restart(server).unwrap();
        fixture.gateway.apply(&manifest(fixture, None)).unwrap();
        let are_healthy = || {
            let page = fixture.gateway.envoy().admin().get("/clusters").unwrap().text();
            let flags = |address: String| {
                let lines: Vec<_> =
                    page.lines().filter(|line| line.contains(&format!("::{address}::health_flags"))).collect();
                !lines.is_empty() && lines.iter().all(|line| line.ends_with("::healthy"))
            };
            let servers = fixture.kube.apiservers().iter();
            servers.map(|server| server.address().to_string()).all(flags).then_some(())
        };
        wait::until("Envoy finds both servers healthy", Duration::from_secs(60), are_healthy).unwrap();
    }
}

#[test]
fn rotation_of_signing_keys_fails_no_request() {
    let options = (KubeOptions { apiservers: 2, ..KubeOptions::default() }, GatewayOptions::default());
    let Some(mut fixture) = KubeFixture::of("key-rotation", &options.0, &options.1) else { return };
    let (old, new) = (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap());
    let rights = fixture.run.write("object.yaml", manifest(&fixture, None).to_text()).unwrap();
    let rbac = fixture.gateway.plane().rbac_of(fixture.reviewer(), &rights).unwrap();
    let rbac = fixture.run.write("rights.yaml", rbac).unwrap();
    fixture.admin(&["apply", "--validate=false", "-f", rbac.to_str().unwrap()]);
    fixture.admin(&["create", "serviceaccount", "robot"]);
    write(&fixture, &old, &[&old]);
    restart_in_turn(&mut fixture);

    let target = fixture.target();
    let made = |fixture: &KubeFixture| fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    // The answer to a request, and the reviews that it took.
    let asked = |fixture: &KubeFixture, token: &str| {
        let before = reviews(&fixture.kube);
        let status = fixture.target().raw_request(&request(token)).unwrap().status;
        (status, reviews(&fixture.kube) - before)
    };
    let is_verified = |fixture: &KubeFixture, token: &str| (asked(fixture, token) == (200, 0)).then_some(());
    let first = made(&fixture);
    wait::until("the old key verifies", Duration::from_secs(60), || is_verified(&fixture, &first)).unwrap();

    let (ends, good) = (AtomicBool::new(false), AtomicU64::new(0));
    let load = Load { token: Mutex::new(first.clone()), ends, good, bad: Mutex::default() };
    let second = std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(|| load.run(&target))));
        let _ends = EndsOnDrop(&load.ends);
        load.present(&first);
        write(&fixture, &new, &[&old, &new]);
        restart_in_turn(&mut fixture);
        let second = made(&fixture);
        load.present(&second);
        wait::until("the new key verifies", Duration::from_secs(60), || is_verified(&fixture, &second)).unwrap();
        load.present(&first);
        wait::until("and the old one still does", Duration::from_secs(60), || is_verified(&fixture, &first)).unwrap();
        load.present(&second);
        write(&fixture, &new, &[&new]);
        restart_in_turn(&mut fixture);
        load.present(&second);
        second
    });
    let bad = load.bad.into_inner().unwrap();
    println!("{} requests came through the rotation, {} failed", load.good.into_inner(), bad.len());
    assert_eq!(bad.first(), None, "of {}", bad.len());
    let is_rejected = || (asked(&fixture, &first).0 == 401).then_some(());
    wait::until("the old key verifies nothing", Duration::from_secs(60), is_rejected).unwrap();
    wait::until("the new key verifies", Duration::from_secs(60), || is_verified(&fixture, &second)).unwrap();
}
