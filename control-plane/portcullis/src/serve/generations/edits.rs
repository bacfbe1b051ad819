use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use portcullis_api::{ReferencedData, SecretBytes, SecretData};
use portcullis_sources::{Input, ObjectSet, read_inputs};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::discovery::{Answers, Wants};

/// The object that is edited.
pub(super) const NAME: &str = "a.test";
const SECRET: &str = "token";

/// Keys, each made once.
pub(super) struct Pki {
    /// By account, then by renewal.
    accounts: [[(String, String); 2]; 2],
    authorities: [String; 2],
}

impl Pki {
    pub(super) fn new() -> Self {
        let made = |name: &str| {
            let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
            let mut params = rcgen::CertificateParams::new(vec![NAME.to_owned()]).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
        };
        Self {
            accounts: ["gateway", "front-proxy"].map(|name| [made(name), made(name)]),
            authorities: [made("one"), made("other")].map(|(certificate, _)| certificate),
        }
    }
}

/// The edits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    /// Facts: what is in a generation.
    Mode,
    /// Connections are passed on, or judged again.
    Transport,
    Account,
    Token,
    Trust,
    PeerName,
    HeaderNames,
    ReservedNames,
    AskingUser,
    Recreate,
    /// Edits that take effect under open connections.
    Renew,
    Servers,
    /// Servers are discovered beside the written ones, or not any more.
    Discover,
    /// The discovered servers are others.
    Discovered,
    Subset,
    Limits,
    /// A wrong edit, or the end of it.
    Wrong,
    /// The Secret of the token is deleted, or created again.
    Revoke,
    /// The object is deleted, or created again.
    Remove,
}

const EDITS: [Edit; 19] = [
    Edit::Mode,
    Edit::Transport,
    Edit::Account,
    Edit::Token,
    Edit::Trust,
    Edit::PeerName,
    Edit::HeaderNames,
    Edit::ReservedNames,
    Edit::AskingUser,
    Edit::Recreate,
    Edit::Renew,
    Edit::Servers,
    Edit::Discover,
    Edit::Discovered,
    Edit::Subset,
    Edit::Limits,
    Edit::Wrong,
    Edit::Revoke,
    Edit::Remove,
];

impl Arbitrary for Edit {
    type Parameters = ();
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        proptest::sample::select(&EDITS[..]).boxed()
    }
}

/// The part of the object that belongs to one accepted version.
#[derive(Clone, Copy, Debug, Default)]
struct Version {
    by_headers: bool,
    passed_on: bool,
    account: usize,
    token: usize,
    trust: usize,
    peer_name: bool,
    asking_user: bool,
    uid: usize,
    renewal: usize,
    servers: bool,
    discovers: bool,
    subset: bool,
}

/// The object as it is written, and the settings.
#[derive(Debug, Default)]
pub(super) struct EditedObject {
    version: Version,
    /// The version that was accepted last and is served.
    served: Option<Version>,
    other_headers: bool,
    reserves_names: bool,
    other_limits: bool,
    other_discovered: bool,
    is_wrong: bool,
    is_revoked: bool,
    is_gone: bool,
}

impl EditedObject {
    pub(super) fn edit(&mut self, edit: Edit) {
        let version = &mut self.version;
        match edit {
            Edit::Mode => version.by_headers ^= true,
            Edit::Transport => version.passed_on ^= true,
            Edit::Account => version.account ^= 1,
            Edit::Token => version.token = (version.token + 1) % 4,
            Edit::Trust => version.trust = (version.trust + 1) % 3,
            Edit::PeerName => version.peer_name ^= true,
            Edit::AskingUser => version.asking_user ^= true,
            Edit::Recreate => version.uid += 1,
            Edit::Renew => version.renewal ^= 1,
            Edit::Servers => version.servers ^= true,
            Edit::Discover => version.discovers ^= true,
            Edit::Discovered => self.other_discovered ^= true,
            Edit::Subset => version.subset ^= true,
            Edit::HeaderNames => self.other_headers ^= true,
            Edit::ReservedNames => self.reserves_names ^= true,
            Edit::Limits => self.other_limits ^= true,
            Edit::Wrong => self.is_wrong ^= true,
            Edit::Revoke => self.is_revoked ^= true,
            Edit::Remove => self.is_gone ^= true,
        }
    }

    /// Whether the newest version of it was accepted: else the one before stays, if it is of the same object.
    pub(super) fn is_accepted(&mut self, is_accepted: bool) {
        let is_another = self.served.is_some_and(|served| served.uid != self.version.uid);
        if is_accepted {
            self.served = Some(self.version);
        } else if self.is_gone || is_another {
            self.served = None;
        }
    }

    /// Forgets the version that was accepted before.
    pub(super) fn is_forgotten(&mut self) {
        self.served = None;
    }

    /// Whether the version that is served passes connections on.
    pub(super) fn is_passed_on(&self) -> bool {
        self.served.is_some_and(|version| version.passed_on)
    }

    /// Whether some version of it is served.
    pub(super) fn is_served(&self) -> bool {
        self.served.is_some()
    }

    /// The part of the served version that belongs to its generation.
    pub(super) fn facts(&self) -> String {
        let Some(version) = self.served else { return "gone".to_owned() };
        if version.passed_on {
            return format!("passed on uid {}", version.uid);
        }
        let Version { by_headers, account, token, trust, peer_name, asking_user, uid, .. } = version;
        // A token that is renewed is of the same account.
        let token = if by_headers { 0 } else { token.min(2) };
        let by_headers = by_headers.then_some((self.other_headers, self.reserves_names, asking_user));
        // Servers that are not verified are known by their addresses only.
        let unverified = (trust == 2).then_some(version.servers);
        format!(
            "{by_headers:?} account {account} token {token} trust {trust} {unverified:?} name {peer_name} uid {uid}"
        )
    }

    pub(super) fn set(&self, pki: &Pki) -> ObjectSet {
        let mut documents = vec![self.settings()];
        documents.extend((!self.is_gone).then(|| self.cluster(pki)));
        let text: Vec<_> = documents.iter().map(Value::to_string).collect();
        let set =
            read_inputs(&[Input::Text { name: "f.yaml".to_owned(), bytes: text.join("\n---\n").into() }]).unwrap();
        ObjectSet { referenced_data: self.referenced_data(), ..set }
    }

    /// The answers of the upstreams that are asked about their servers.
    pub(super) fn answers(&self, wants: &Wants) -> Arc<Answers> {
        Arc::new(Answers::of_wants(wants, if self.other_discovered { 2 } else { 1 }))
    }

    fn uid(&self) -> String {
        format!("uid-{}", self.version.uid)
    }

    /// The Secret with the token, if it is there.
    fn referenced_data(&self) -> ReferencedData {
        let data = [("token".to_owned(), SecretBytes::new(token(self.version.token).into_bytes()))];
        let secret = SecretData { owners: [NAME.to_owned()].into(), data: data.into() };
        let secrets = (!self.is_revoked).then(|| (SECRET.to_owned(), secret));
        ReferencedData::secrets(secrets)
    }

    fn settings(&self) -> Value {
        let mut headers = if self.other_headers { json!({"user": "X-Other-User"}) } else { json!({}) };
        if self.reserves_names {
            headers["reserved"] = json!(["X-Legacy-Group"]);
        }
        let limits = if self.other_limits { json!({"maxRequests": 5}) } else { json!({}) };
        json!({
            "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "a"},
            "spec": {"requestHeaderNames": headers, "limits": limits},
        })
    }

    fn cluster(&self, pki: &Pki) -> Value {
        let version = &self.version;
        let (certificate, key) = &pki.accounts[version.account][version.renewal];
        let serving = &pki.accounts[0][0];
        let encoded = |text: &str| STANDARD.encode(text);
        let mut client = json!({
            "certData": encoded(certificate), "keyData": encoded(key),
            "serverName": if version.peer_name { "kubernetes" } else { "apiserver" },
        });
        match version.trust {
            2 => client["insecure"] = json!(true),
            trust => client["caData"] = json!(encoded(&pki.authorities[trust])),
        }
        let servers =
            if version.servers { &["https://10.0.0.1", "https://10.0.0.2"][..] } else { &["https://10.0.0.1"] };
        let mut identity =
            json!({"upstreamIdentity": if version.by_headers { "RequestHeader" } else { "Impersonate" }});
        if version.passed_on {
            identity["transport"] = json!("TLSPassthrough");
        }
        if version.by_headers && version.asking_user {
            identity["requestHeader"] = json!({"user": "system:other"});
        }
        if version.discovers && version.trust != 2 {
            identity["discovery"] = json!({"kubernetesService": true});
        }
        if !version.by_headers && version.token > 0 {
            identity["references"] = json!({"token": {"secret": {"name": SECRET}}});
        }
        let all = json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
        let mut policies = vec![all.clone()];
        if version.subset {
            let mut one = all;
            one["upsteamSubset"] = json!(["https://10.0.0.1"]);
            policies.insert(0, one);
        }
        json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
            "metadata": {"name": NAME, "uid": self.uid()},
            "spec": {
                "servers": servers.iter().map(|server| json!({"endpoint": server})).collect::<Vec<_>>(),
                "clientConfig": client,
                "secureServing": {"certData": encoded(&serving.0), "keyData": encoded(&serving.1)},
                "portcullis": identity,
                "dispatchPolicies": if self.is_wrong { json!([{"rules": 1}]) } else { json!(policies) },
            },
        })
    }
}

/// An opaque token, and a JSON Web Token with its renewal.
fn token(number: usize) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    match number {
        1 => "an-opaque-token".to_owned(),
        number => {
            let claims = format!(r#"{{"iss":"https://a","sub":"gateway","exp":{number}}}"#);
            format!("{}.{}.c2ln", part(r#"{"alg":"RS256"}"#), part(&claims))
        }
    }
}
