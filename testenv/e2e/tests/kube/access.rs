//! Access lists in front of a real kube-apiserver: each kind of client by user, group, account, address, user agent and time, of the
//! cluster and of the gateway, and users as whom a client acts, in both identity modes.

use std::time::{Duration, SystemTime};

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::{Response, TlsTarget};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};
use time::OffsetDateTime;

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
#[derive(Clone)]
struct Client {
    target: TlsTarget,
    /// Its credential, and users as whom it acts.
    lines: String,
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
        let client = |target: TlsTarget, lines: &str, user, group| {
            let lines = lines.to_owned();
            Client { target, lines, user, group }
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
            client.lines
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

/// Statuses for the certificate, the token, and no credential.
const ALL: [u16; 3] = [200; 3];
const ROBOT_OUT: [u16; 3] = [200, 403, 200];
const ALICE_OUT: [u16; 3] = [403, 200, 200];

/// The time in so many seconds, as it is written in a zone that is ahead of UTC by so many hours.
fn time(seconds: i64, hours: i64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let shown = i64::try_from(now).unwrap() + seconds + hours * 3_600;
    let shown = OffsetDateTime::from_unix_timestamp(shown).unwrap();
    let (date, time) = (shown.date(), shown.time());
    let date = format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day());
    let zone = if hours < 0 { '-' } else { '+' };
    format!("{date}T{:02}:{:02}:{:02}{zone}{:02}:00", time.hour(), time.minute(), time.second(), hours.abs())
}

impl Site {
    /// The statuses that each client gets at one path.
    fn statuses(&self, from: &str) -> [u16; 3] {
        [0, 1, 2].map(|number| self.ask(&self.clients[number], BY_USER, from, GOOD_AGENT).unwrap().status)
    }

    /// Alice, acting as another user in these groups.
    fn alice_as(&self, user: &str, groups: &[&str]) -> u16 {
        let groups: String = groups.iter().map(|group| format!("Impersonate-Group: {group}\r\n")).collect();
        let lines = format!("Impersonate-User: {user}\r\n{groups}");
        let alice = Client { lines, ..self.clients[0].clone() };
        self.ask(&alice, BY_USER, INSIDE, GOOD_AGENT).unwrap().status
    }
}

fn accounts_and_times(site: &Site) {
    let robot = json!([{"namespace": "default", "name": "robot"}]);
    let other = json!([{"namespace": "kube-system", "name": "robot"}, {"namespace": "default", "name": "robots"}]);
    let alice = |until: String| json!({"deny": [{"users": ["alice"], "until": until}]});
    for (access, expected) in [
        (json!({"deny": [{"serviceAccounts": robot}]}), ROBOT_OUT),
        (json!({"deny": [{"serviceAccounts": other}]}), ALL),
        (json!({"deny": [{"userGroups": ["system:serviceaccounts"]}]}), ROBOT_OUT),
        (json!({"allow": [{"serviceAccounts": robot}], "force": true}), [403, 200, 403]),
        (json!({"deny": [{"users": ["Alice", "ALICE", "alic"]}]}), ALL),
        // An hour ahead and an hour ago: as text, the former is the day before, and the latter the day after.
        (alice(time(3_600, -12)), ALICE_OUT),
        (alice(time(-3_600, 14)), ALL),
    ] {
        site.apply(&access);
        assert_eq!(site.statuses(INSIDE), expected, "{:?} {access}", site.fixture.identities);
    }
    // A certificate of an account's name is that account for kube-apiserver.
    let spec = CertSpec::client("system:serviceaccount:default:robot", ["system:serviceaccounts"]);
    let posing = site.fixture.kube.client_ca().issue(&spec).unwrap();
    let target = site.clients[2].target.clone().identity(&posing);
    site.apply(&json!({"deny": [{"serviceAccounts": robot}]}));
    let posing = Client { target, lines: String::new(), ..site.clients[1].clone() };
    assert_eq!(site.ask(&posing, BY_USER, INSIDE, GOOD_AGENT).unwrap().status, 403);
    site.apply(&json!({}));
}

fn lists_of_the_settings(site: &Site) {
    let robot = json!([{"namespace": "default", "name": "robot"}]);
    for (access, inside, outside) in [
        (json!({"deny": [{"serviceAccounts": robot}, {"addresses": ["203.0.113.0/24"]}]}), ROBOT_OUT, [403; 3]),
        (json!({"allow": [{"addresses": ["198.51.100.0/24"]}]}), ALL, [403; 3]),
        (json!({"deny": [{"users": ["alice"], "until": time(3_600, 9)}]}), ALICE_OUT, ALICE_OUT),
    ] {
        site.fixture.gateway.change_settings(|settings| settings["access"] = access.clone()).unwrap();
        let found = (site.statuses(INSIDE), site.statuses(OUTSIDE));
        assert_eq!(found, (inside, outside), "{:?} {access}", site.fixture.identities);
    }
    // A cluster that lets all users in takes nothing from the gateway's ban.
    site.apply(&json!({"allow": [{"users": ["*"]}]}));
    assert_eq!(site.statuses(INSIDE), ALICE_OUT);
    site.fixture.gateway.change_settings(|settings| drop(settings.as_object_mut().unwrap().remove("access"))).unwrap();
}

fn users_as_whom_a_client_acts(site: &Site) {
    let resources = "--resource=users,groups,serviceaccounts";
    site.fixture.admin(&["create", "clusterrole", "may-act", "--verb=impersonate", resources]);
    site.fixture.admin(&["create", "clusterrolebinding", "may-act", "--clusterrole=may-act", "--user=alice"]);
    let robot = "system:serviceaccount:default:robot";
    let known = || (site.alice_as("bob", &["ops"]) == 200).then_some(());
    wait::until("alice may act as bob", SOON, known).unwrap();
    let account = json!([{"namespace": "default", "name": "robot"}]);
    for (access, alone, as_bob, as_ops, as_robot) in [
        (json!({}), 200, 200, 200, 200),
        (json!({"deny": [{"users": ["bob"]}]}), 200, 403, 403, 200),
        (json!({"deny": [{"userGroups": ["ops"]}]}), 200, 200, 403, 200),
        (json!({"deny": [{"userGroups": ["dev"]}]}), 403, 403, 403, 403),
        (json!({"deny": [{"serviceAccounts": account}]}), 200, 200, 200, 403),
        (json!({"deny": [{"userGroups": ["system:serviceaccounts:default"]}]}), 200, 200, 200, 403),
        (json!({"allow": [{"users": ["bob", "alice"]}], "force": true}), 200, 200, 200, 403),
        (json!({"allow": [{"users": ["bob"]}], "force": true}), 403, 403, 403, 403),
    ] {
        site.apply(&access);
        let found = (
            site.statuses(INSIDE)[0],
            site.alice_as("bob", &[]),
            site.alice_as("bob", &["ops"]),
            site.alice_as(robot, &[]),
        );
        assert_eq!(found, (alone, as_bob, as_ops, as_robot), "{:?} {access}", site.fixture.identities);
    }
}

#[test]
fn lists_know_accounts_times_settings_and_impersonation() {
    for identities in Identities::ALL {
        let Some(site) = Site::start(identities) else { return };
        accounts_and_times(&site);
        lists_of_the_settings(&site);
        users_as_whom_a_client_acts(&site);
    }
}
