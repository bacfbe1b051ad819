//! The `UpstreamClusters` of an instance, each in a file of its own.

use std::net::SocketAddr;
use std::path::Path;

use portcullis_e2e::{Manifest, allow_all};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::write_private;
use serde_json::{Value, json};

use crate::error::BenchError;
use crate::servers::Authorities;

/// The namespaces of requests, each of which may have a limit of its own.
pub(super) const NAMESPACES: u32 = 64;

/// The clusters of one instance, in front of one server.
#[derive(Clone)]
pub(super) struct Clusters {
    team: &'static str,
    pub(super) count: u32,
    /// One of them without a name and policies of its own.
    base: Manifest,
}

impl Clusters {
    pub(super) fn new(
        team: &'static str,
        count: u32,
        server: SocketAddr,
        trusts: &Authorities,
        serving_ca: &Ca,
    ) -> Result<Self, BenchError> {
        let upstream = trusts.client.issue(&CertSpec::client("portcullis", [""; 0]))?;
        let wildcard = format!("*.{team}.example.com");
        let serving = serving_ca.issue(&CertSpec::server(team, [wildcard.as_str()]))?;
        let base = Manifest::new(team, [server])
            .upstream(&upstream, &trusts.server, "kubernetes")
            .serving(&serving, &trusts.client)
            .set("/metadata/labels", json!({"team": team}))
            // Checks of so many pools would be load, too; a known token is reviewed again and again.
            .set(
                "/spec/portcullis",
                json!({"healthCheck": {"interval": "2m", "timeout": "1m"}, "credentialCache": {"tokenTTL": "5s"}}),
            );
        Ok(Clusters { team, count, base })
    }

    /// The host name of a cluster.
    pub(super) fn name(&self, number: u32) -> String {
        format!("c{number:03}.{}.example.com", self.team)
    }

    /// Replaces a cluster's file by the version of an edit, with so many limits of all gateways.
    pub(super) fn write(&self, dir: &Path, number: u32, edit: u64, limits: u32) -> Result<(), BenchError> {
        let path = dir.join(format!("{}-{number:03}.yaml", self.team));
        Ok(write_private(&path, self.manifest(number, edit, limits).to_text().as_bytes())?)
    }

    fn manifest(&self, number: u32, edit: u64, limits: u32) -> Manifest {
        let manifest = self.base.clone().set("/metadata/name", json!(self.name(number)));
        let manifest = manifest.policies(policies(edit, limits));
        if limits == 0 { manifest } else { manifest.set("/spec/flowControl", flow_control(limits)) }
    }
}

/// A policy that differs each time, one for each limit, and one that lets all requests in.
fn policies(edit: u64, limits: u32) -> Value {
    let changed = json!({"verbs": ["get"], "apiGroups": ["*"], "resources": [format!("things{edit}")]});
    let limited = (0..limits).map(|number| {
        let rule = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": [namespace(number)]});
        json!({"rules": [rule], "flowControlSchemaName": limit(number)})
    });
    let all = json!({"rules": [allow_all()]});
    std::iter::once(json!({"rules": [changed]})).chain(limited).chain([all]).collect()
}

/// Rates that no load of the benchmark reaches.
fn flow_control(limits: u32) -> Value {
    let rate = |qps: u32| json!({"qps": qps, "burst": qps});
    let schema = |number| {
        json!({"name": limit(number), "strategy": "globalAllocate", "tokenBucket": rate(5_000),
            "globalTokenBucket": rate(10_000)})
    };
    json!({"flowControlSchemas": (0..limits).map(schema).collect::<Vec<_>>()})
}

fn limit(number: u32) -> String {
    format!("limit-{number}")
}

/// The namespace whose requests that limit counts.
pub(super) fn namespace(number: u32) -> String {
    format!("team-{number}")
}

#[cfg(test)]
mod tests {
    use super::{flow_control, policies};

    #[test]
    fn edits_differ_in_nothing_that_a_request_meets() {
        let [first, second] = [policies(1, 0), policies(2, 0)];
        assert_ne!(first, second);
        assert_eq!(first[1], second[1]);
    }

    #[test]
    fn limits_are_used_by_a_policy_each() {
        let (policies, limits) = (policies(1, 20), flow_control(20));
        let names = limits["flowControlSchemas"].as_array().unwrap().iter().map(|limit| &limit["name"]);
        let used = policies.as_array().unwrap()[1..21].iter().map(|policy| &policy["flowControlSchemaName"]);
        assert_eq!(names.collect::<Vec<_>>(), used.collect::<Vec<_>>());
    }
}
