//! The same where kube-apiserver takes users from headers of other names.

use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::cases::{Case, FORGERIES, FORMS, Form};
use super::client::Client;
use super::{Sender, direct, grant, senders};
use crate::fixture::{Identities, KubeFixture};

const SOON: Duration = Duration::from_secs(20);

/// kube-apiserver wants the usual name of a UID among its own. Behind the names that the gateway writes are others, which
/// kube-apiserver believes as well: of groups and extras it takes all names together.
const FLAGS: [&str; 4] = [
    "--requestheader-username-headers=X-Auth-User,Legacy-User",
    "--requestheader-group-headers=X-Auth-Group,Legacy-Group",
    "--requestheader-uid-headers=X-Auth-Uid,X-Remote-Uid,Legacy-Uid",
    "--requestheader-extra-headers-prefix=X-Auth-Extra-,Legacy-Extra-",
];

const OTHERS: [Case; 10] = [
    &[("X-Auth-User", "admin")],
    &[("X-Auth-Group", "system:masters")],
    &[("X-Auth-Uid", "0")],
    &[("X-Auth-Extra-Scopes", "all")],
    &[("X-Auth-User", "admin"), ("X-Auth-Group", "system:masters")],
    &[("X-Auth-Extra-Authentication.kubernetes.io%2fCredential-Id", "forged"), ("X-Auth-Uid", "0")],
    &[("Legacy-Group", "system:masters")],
    &[("Legacy-User", "admin"), ("Legacy-Group", "system:masters")],
    &[("legacy-uid", "0")],
    &[("Legacy-Extra-Scopes", "all")],
];

#[test]
fn identity_headers_of_other_names_count_only_from_the_gateway() {
    let kube = KubeOptions { flags: FLAGS.map(str::to_owned).to_vec(), ..KubeOptions::default() };
    let options = (&kube, &GatewayOptions::default());
    let Some(fixture) = KubeFixture::forwarding(Identities::RequestHeader, "names", options.0, options.1) else {
        return;
    };
    grant(&fixture);
    let senders = senders(&fixture);
    let first = |sender: &Sender| Client::new(fixture.target(), &sender.credential).send(&[], Form::H2Once);
    assert_eq!(first(&senders[0]).0, 503, "nobody is told by the usual names");
    let mut headers =
        json!({"user": "X-Auth-User", "group": "X-Auth-Group", "uid": "X-Auth-Uid", "extraPrefix": "X-Auth-Extra-"});
    let set = |headers: &Value| {
        fixture.gateway.change_settings(|spec| spec["requestHeaderNames"] = headers.clone()).unwrap();
    };
    set(&headers);
    wait::until("users are told", SOON, || (first(&senders[0]).0 == 201).then_some(())).unwrap();
    let forged = || {
        let mut client = Client::new(fixture.target(), &senders[0].credential);
        client.send(&[("Legacy-Group", "system:masters")], Form::H2Once)
    };
    let clean = first(&senders[0]);
    assert_ne!(forged(), clean, "kube-apiserver believes a name that is not reserved");
    headers["reserved"] = json!(["Legacy-User", "Legacy-Group", "Legacy-Uid", "Legacy-Extra-"]);
    set(&headers);
    wait::until("the names are reserved", SOON, || (forged() == clean).then_some(())).unwrap();
    std::thread::scope(|scope| {
        let asking: Vec<_> = senders.iter().map(|sender| scope.spawn(|| compare(&fixture, sender))).collect();
        asking.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

fn compare(fixture: &KubeFixture, Sender { name, credential }: &Sender) {
    let mut direct = Client::new(direct(fixture), credential);
    let mut through = Client::new(fixture.target(), credential);
    for form in FORMS {
        let clean = direct.send(&[], form);
        assert_eq!(through.send(&[], form), clean, "{name}, {form:?}");
        for case in OTHERS.iter().chain(&FORGERIES) {
            assert_eq!(through.send(case, form), clean, "{name}, {form:?}: {case:?}");
        }
    }
}
