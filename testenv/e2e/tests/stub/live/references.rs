//! Changes of references to credentials, and of the referenced data.

use portcullis_harness::write_private;
use serde_json::json;

use super::site::{OWN_TOKENS, Site, encode, own_identity};

const TOKEN: &str = "token";

fn write(site: &Site, name: &str, text: &str) {
    write_private(&site.references.join(name), text.as_bytes()).unwrap();
}

/// The token and the client certificate are taken out of the object, and referred to.
pub(super) fn instead(site: &mut Site, _: usize) {
    let identity = own_identity(&site.pki.client_ca);
    write(site, TOKEN, OWN_TOKENS[0]);
    write(site, "client.crt", &identity.pem());
    write(site, "client.key", &identity.key_pem());
    for field in ["bearerToken", "certData", "keyData"] {
        site.set(&format!("/spec/clientConfig/{field}"), json!(""));
    }
    let client = json!({"file": {"certificate": "client.crt", "privateKey": "client.key"}});
    site.change("/spec/portcullis/references", json!({"token": {"file": TOKEN}, "client": client}));
}

/// The referenced data changes, and the object does not.
pub(super) fn edited(site: &mut Site, _: usize) {
    site.gateway.and_wait(|| write_private(&site.references.join(TOKEN), OWN_TOKENS[1].as_bytes())).unwrap();
}

pub(super) fn inline(site: &mut Site, _: usize) {
    let identity = own_identity(&site.pki.client_ca);
    site.set("/spec/portcullis/references", json!({}));
    site.set("/spec/clientConfig/keyData", encode(&identity.key_pem()));
    site.change("/spec/clientConfig/certData", encode(&identity.pem()));
}
