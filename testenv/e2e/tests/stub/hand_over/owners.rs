//! Two instances with an Envoy each, and clusters that may belong to either.

use std::net::SocketAddr;
use std::time::Duration;

use portcullis_e2e::{Manifest, allow_all};
use portcullis_harness::agent::Agent;
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::{ClientPool, TlsTarget};
use portcullis_harness::{ports, wait};
use portcullis_stub_apiserver::StubServer;
use serde_json::{Value, json};

use crate::fixture::{PODS, Pki};
use crate::network::Fixture;

pub(super) const SOON: Duration = Duration::from_secs(20);
/// The time in which the Envoys of both owners serve a cluster, as docs/instances.md has it.
pub(super) const HAND_OVER: Duration = Duration::from_secs(30);
/// Connections after which each worker of an Envoy has taken some.
const CONNECTIONS: usize = 16;

/// An instance; as a number the place of its Envoy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Team {
    A,
    B,
}

pub(super) const TEAMS: [Team; 2] = [Team::A, Team::B];

impl Team {
    pub(super) fn name(self) -> &'static str {
        match self {
            Team::A => "a",
            Team::B => "b",
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Team::A => Team::B,
            Team::B => Team::A,
        }
    }
}

/// A cluster with a server of its own, whose label says to which instance it belongs.
pub(super) struct LabelledCluster {
    /// Its host name.
    pub(super) name: String,
    pub(super) stub: StubServer,
    manifest: Manifest,
}

impl LabelledCluster {
    pub(super) fn new(pki: &Pki, name: &str) -> Self {
        let stub = pki.stub(name);
        let name = format!("{name}.test");
        let serving = pki.server_ca.issue(&CertSpec::server(&name, [name.as_str()])).unwrap();
        let manifest = Manifest::new(&name, [stub.address()])
            .upstream(&pki.gateway, &pki.server_ca, "kubernetes")
            .serving(&serving, &pki.client_ca);
        LabelledCluster { name, stub, manifest }
    }

    /// The same with a limit for all of its requests.
    pub(super) fn limited(mut self, schema: Value) -> Self {
        let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": schema["name"]}]);
        let limits = json!({"flowControlSchemas": [schema]});
        self.manifest = self.manifest.set("/spec/flowControl", limits).policies(policies);
        self
    }

    fn text(&self, team: Team) -> String {
        self.manifest.clone().set("/metadata/labels", json!({"team": team.name()})).to_text()
    }

    /// Asserts that each request at the server was of one of these users, as a gateway says it.
    pub(super) fn assert_users(&self, users: &[&str]) {
        for record in self.stub.records_for(PODS) {
            let named = record.header_all("impersonate-user");
            assert!(named.len() == 1 && users.contains(&named[0].as_str()), "{}: {named:?}", self.name);
            if let Some(effective) = record.effective {
                assert_eq!(effective.username, named[0], "{}", self.name);
            }
        }
    }
}

/// The control plane, and an Envoy of each instance with a port of its own.
pub(super) struct TwoOwners {
    agents: Vec<Agent>,
    addresses: [SocketAddr; 2],
    fixture: Fixture,
}

fn object(kind: &str, name: &str, spec: &Value) -> String {
    json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}).to_string()
}

/// Settings without a certificate of all clusters.
fn settings(name: &str, address: SocketAddr) -> String {
    let listener = json!({"address": address.ip().to_string(), "port": address.port()});
    let spec = json!({"instance": "e2e", "listener": listener, "allowLoopbackUpstreams": true});
    object("GatewaySettings", name, &spec)
}

impl TwoOwners {
    /// With these clusters, each of a team.
    pub(super) fn start(test: &str, clusters: &[(&LabelledCluster, Team)]) -> Self {
        let addresses = TEAMS.map(|_| ports::free_address().unwrap());
        let names = TEAMS.map(|team| format!("own-{}", team.name()));
        let mut objects = vec![("settings", settings("e2e", ports::free_address().unwrap()))];
        for ((team, name), address) in TEAMS.iter().zip(&names).zip(addresses) {
            let selector = json!({"matchLabels": {"team": team.name()}});
            objects.push((name.as_str(), settings(name, address)));
            objects.push((
                team.name(),
                object("Instance", team.name(), &json!({"settings": name, "clustersSelector": selector})),
            ));
        }
        objects.extend(clusters.iter().map(|(cluster, team)| (cluster.name.as_str(), cluster.text(*team))));
        let fixture = Fixture::serving_with(test, &objects, &["--settings-name", "e2e"]);
        let agents: Vec<_> = TEAMS.iter().map(|team| fixture.agent_of(team.name())).collect();
        agents.iter().for_each(|agent| agent.wait_ready(SOON).unwrap());
        TwoOwners { agents, addresses, fixture }
    }

    /// Labels a cluster with a team.
    pub(super) fn give(&self, cluster: &LabelledCluster, team: Team) {
        self.fixture.write(&cluster.name, &cluster.text(team));
    }

    /// The Envoy of a team under the name of a cluster, believed whatever certificate it shows: an answer through a chain of another
    /// cluster is noticed by what it says.
    pub(super) fn target(&self, team: Team, cluster: &LabelledCluster, client: &Identity) -> TlsTarget {
        TlsTarget::new(self.addresses[team as usize]).sni(&cluster.name).identity(client)
    }

    /// Waits until all workers of a team's Envoy serve a cluster: they answer by its server, or by its limit.
    pub(super) fn wait_served(&self, team: Team, cluster: &LabelledCluster, client: &Identity) {
        let (target, pool) = (self.target(team, cluster, client), ClientPool::new(1).unwrap());
        let ask = |_| match pool.connect(&target).and_then(|client| client.get(PODS, &[])) {
            Ok(answer) if matches!(answer.status, 200 | 429) => Ok(()),
            other => Err(format!("{other:?}")),
        };
        let what = format!("{} is served by {}", cluster.name, self.agents[team as usize].process().name());
        wait::until_ok(&what, SOON, || (0..CONNECTIONS).try_for_each(ask)).unwrap();
    }
}
