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

/// Keys of the servers; `edition` is an edit upon which the control plane asks for them at once, and not within five minutes.
fn manifest(fixture: &KubeFixture, edition: bool) -> Manifest {
    let portcullis = json!({"tokens": issuer(&json!({"fromServers": true})), "credentialCache": {"tokenTTL": "0"}});
    fixture.manifest().set("/spec/portcullis", portcullis).set("/spec/servers/0/disabled", json!(edition))
}

#[test]
fn rotation_of_signing_keys_fails_no_request() {
    let options = (KubeOptions { apiservers: 2, ..KubeOptions::default() }, GatewayOptions::default());
    let Some(mut fixture) = KubeFixture::of("key-rotation", &options.0, &options.1) else { return };
    let (old, new) = (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap());
    let restart = |fixture: &mut KubeFixture| (0..2).for_each(|server| fixture.kube.restart(server).unwrap());
    write(&fixture, &old, &[&old]);
    restart(&mut fixture);
    fixture.admin(&["create", "serviceaccount", "robot"]);
    let rights = fixture.run.write("object.yaml", manifest(&fixture, false).to_text()).unwrap();
    let rbac = fixture.gateway.plane().rbac_of(fixture.reviewer(), &rights).unwrap();
    let rbac = fixture.run.write("rights.yaml", rbac).unwrap();
    fixture.admin(&["apply", "--validate=false", "-f", rbac.to_str().unwrap()]);
    fixture.gateway.apply(&manifest(&fixture, false)).unwrap();

    let target = fixture.target();
    let made = |fixture: &KubeFixture| fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    // Reviews that a request takes with this token.
    let asked = |fixture: &KubeFixture, token: &str| {
        let before = reviews(&fixture.kube);
        let status = fixture.target().raw_request(&request(token)).unwrap().status;
        (status, reviews(&fixture.kube) - before)
    };
    let is_verified = |fixture: &KubeFixture, token: &str| asked(fixture, token) == (200, 0);
    let first = made(&fixture);
    wait::until("the old key verifies", Duration::from_secs(60), || is_verified(&fixture, &first).then_some(()))
        .unwrap();

    let load = Load {
        token: Mutex::new(first.clone()),
        ends: AtomicBool::new(false),
        good: AtomicU64::new(0),
        bad: Mutex::default(),
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(|| load.run(&target))));
        let _ends = EndsOnDrop(&load.ends);
        load.present(&first);
        write(&fixture, &new, &[&old, &new]);
        restart(&mut fixture);
        load.present(&first);
        // Signed by a key that the gateway does not know.
        let second = made(&fixture);
        load.present(&second);
        assert!(asked(&fixture, &second).1 > 0, "an unknown key id is reviewed");
        assert_eq!(asked(&fixture, &first).0, 200);
        fixture.gateway.apply(&manifest(&fixture, true)).unwrap();
        fixture.gateway.apply(&manifest(&fixture, false)).unwrap();
        wait::until("both keys verify", Duration::from_secs(60), || {
            load.present(&first);
            load.present(&second);
            [&first, &second].iter().all(|token| is_verified(&fixture, token)).then_some(())
        })
        .unwrap();
        write(&fixture, &new, &[&new]);
        restart(&mut fixture);
        load.present(&second);
        fixture.gateway.apply(&manifest(&fixture, true)).unwrap();
        fixture.gateway.apply(&manifest(&fixture, false)).unwrap();
        load.present(&second);
    });
    assert_eq!(load.bad.into_inner().unwrap(), [""; 0], "of {:?} requests", load.good);
    println!("{} requests, none failed", load.good.into_inner());
    let third = made(&fixture);
    wait::until("the new key verifies", Duration::from_secs(60), || is_verified(&fixture, &third).then_some(()))
        .unwrap();
    assert_eq!(asked(&fixture, &first).0, 401, "the old key is gone, and the servers reject what it signed");
}
