//! Access lists in front of a real kube-apiserver: each kind of client by user, group, address
//! and user agent, in both identity modes.

use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{Response, TlsTarget};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};

use crate::fixture::{Identities, KubeFixture, NAME};

const SOON: Duration = Duration::from_secs(20);
const INSIDE: &str = "198.51.100.7";
const OUTSIDE: &str = "203.0.113.7";
const GOOD_AGENT: &str = "kubectl/v1";
const BAD_AGENT: &str = "kube-hunter/0.6";
/// Paths that kube-apiserver answers to all clients, each for a field of an entry.
const BY_USER: &str = "/version";
const BY_GROUP: &str = "/healthz";
const BY_ADDRESS: &str = "/livez";
const BY_AGENT: &str = "/readyz";

/// A client, and the names that lists have for it.
struct Client {
    target: TlsTarget,
    authorization: String,
    user: &'static str,
    group: &'static str,
}

/// A gateway behind a proxy that says where clients come from.
struct Site {
    fixture: KubeFixture,
    clients: [Client; 3],
}

impl Site {
    fn start(identities: Identities) -> Option<Self> {
        let port = ports::free_address().unwrap().port();
        let listener = json!({"proxyProtocol": {"port": port, "trustedProxies": ["127.0.0.1"]}});
        let options = GatewayOptions { listener, ..GatewayOptions::default() };
        let fixture = KubeFixture::forwarding(identities, "access", &KubeOptions::default(), &options)?;
        fixture.admin(&["create", "serviceaccount", "robot"]);
        let token = fixture.admin(&["create", "token", "robot"]);
        let door = TlsTarget::new((fixture.gateway.address().ip(), port).into()).sni(NAME);
        let client = |target: TlsTarget, authorization: &str, user, group| {
            let authorization = authorization.to_owned();
            Client { target, authorization, user, group }
        };
        let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
        let robot = ("system:serviceaccount:default:robot", "system:serviceaccounts:default");
        let clients = [
            client(door.clone().identity(&fixture.alice), "", "alice", "dev"),
            client(door.clone(), &bearer, robot.0, robot.1),
            client(door, "", "system:anonymous", "system:unauthenticated"),
        ];
        let site = Site { fixture, clients };
        let opened = || site.ask(&site.clients[0], BY_USER, INSIDE, GOOD_AGENT).ok().map(drop);
        wait::until("the proxies' port answers", SOON, opened).unwrap();
        Some(site)
    }

    /// Sends a request with lines that claim another address.
    fn ask(&self, client: &Client, path: &str, from: &str, agent: &str) -> portcullis_harness::Result<Response> {
        let forged = if from == INSIDE { OUTSIDE } else { INSIDE };
        let forged = format!("X-Forwarded-For: {forged}\r\nX-Real-Ip: {forged}\r\nForwarded: for={forged}\r\n");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {NAME}\r\nUser-Agent: {agent}\r\n{forged}{}Connection: close\r\n\r\n",
            client.authorization
        );
        let header = format!("PROXY TCP4 {from} 192.0.2.1 40000 6443\r\n");
        client.target.clone().preamble(header.as_bytes()).raw_request(request.as_bytes())
    }

    fn apply(&self, access: &Value) {
        let portcullis = self.fixture.portcullis(json!({"access": access}));
        self.fixture.gateway.apply(&self.fixture.manifest().set("/spec/portcullis", portcullis)).unwrap();
    }

    /// Holds every answer to what the list says of it; `is_let_in` is the outcome for those whom an entry names.
    fn hold(&self, listed: &Client, is_let_in: bool) {
        let list = if is_let_in { "no entry of the cluster's allow list" } else { "of the cluster's deny list" };
        for client in &self.clients {
            let is_listed = client.user == listed.user;
            let requests = [
                (BY_USER, INSIDE, GOOD_AGENT, is_listed),
                (BY_GROUP, INSIDE, GOOD_AGENT, is_listed),
                (BY_ADDRESS, OUTSIDE, GOOD_AGENT, true),
                (BY_ADDRESS, INSIDE, GOOD_AGENT, false),
                (BY_AGENT, INSIDE, BAD_AGENT, true),
                (BY_AGENT, INSIDE, GOOD_AGENT, false),
            ];
            for (path, from, agent, is_named) in requests {
                let answer = self.ask(client, path, from, agent).unwrap();
                let what = format!("{:?} {is_let_in} {} {path} {from} {agent}", self.fixture.identities, client.user);
                let text = answer.text();
                assert_eq!(answer.status == 200, is_named == is_let_in, "{what}: {text}");
                assert!(answer.status == 200 || (answer.status == 403 && text.contains(list)), "{what}: {text}");
            }
        }
    }
}

/// Entries that name this client by user and by group, and all clients by address and by user agent, each at a path of its own.
fn entries(client: &Client) -> Value {
    let at = |path: &str, mut entry: Value| {
        entry["rules"] = json!([{"verbs": ["*"], "nonResourceURLs": [path]}]);
        entry
    };
    json!([
        at(BY_USER, json!({"users": [client.user]})),
        at(BY_GROUP, json!({"userGroups": [client.group]})),
        at(BY_ADDRESS, json!({"addresses": ["203.0.113.0/24"]})),
        at(BY_AGENT, json!({"userAgents": ["kube-hunter/"]})),
    ])
}

#[test]
fn lists_hold_for_each_kind_of_client_in_both_modes() {
    for identities in Identities::ALL {
        let Some(site) = Site::start(identities) else { return };
        for client in &site.clients {
            site.apply(&json!({"deny": entries(client)}));
            site.hold(client, false);
            // Kubelets are not let in by it.
            site.apply(&json!({"allow": entries(client), "force": true}));
            site.hold(client, true);
        }
        let banned = json!({"deny": [{"users": ["alice"], "message": "ask the platform team"}]});
        site.apply(&banned);
        let told = site.fixture.kubectl(&site.fixture.alice).args(["get", "--raw", BY_USER]).run().unwrap().stderr;
        let message = "(Forbidden): entry 0 of the cluster's deny list denies this request: ask the platform team";
        assert!(told.contains(message), "{told}");
    }
}
