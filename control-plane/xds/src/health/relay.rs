//! Acknowledgements of a gateway, from the replica that it follows to the others. A replica knows by xDS what its own
//! gateways acknowledged. It says so to the agent beside each of them, and the agent repeats it in its reports to the
//! other replicas. An entry travels in messages of the health discovery protocol: `cluster_name` is a marked owner, the
//! locality's `region` the hash of what is served of it, and its `zone` what became of that.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::envoy::service::health::v3::{
    ClusterEndpointsHealth, ClusterHealthCheck, EndpointHealthResponse, HealthCheckSpecifier, LocalityEndpoints,
    LocalityEndpointsHealth,
};

use crate::{Snapshot, Standing};

/// What marks an entry about an owner. No resource has such a name.
const MARK: &str = "acknowledged:";
/// The zone of a version that is refused.
const REFUSED: &str = "refused";
/// Longest hash that is kept.
const MAX_HASH: usize = 128;
/// Most entries of one message; more are not read.
pub(super) const MAX_ENTRIES: usize = 20_000;

/// What a gateway did with a version of an owner's resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has taken all of them.
    Acknowledged,
    /// It refuses at least one of them.
    Refused,
}

/// Answers of one gateway, by owner and by the hash of what was served of it, see [`Snapshot::version_of`].
pub type Answers = BTreeMap<(String, String), Answer>;

/// What remains to be said of standings: what is pending is left out.
pub(super) fn answers(standings: BTreeMap<String, Standing>, hash: impl Fn(&str) -> Option<String>) -> Answers {
    let answered = |(owner, standing): (String, Standing)| {
        let answer = match standing {
            Standing::Acknowledged => Answer::Acknowledged,
            Standing::Refused { .. } => Answer::Refused,
            Standing::Pending => return None,
        };
        let hash = hash(&owner)?;
        Some(((owner, hash), answer))
    };
    standings.into_iter().filter_map(answered).take(MAX_ENTRIES).collect()
}

/// The entries that carry answers from a replica to an agent.
pub(super) fn entries(answers: &Answers) -> Vec<ClusterHealthCheck> {
    let entry = |((owner, hash), answer): (&(String, String), &Answer)| {
        let zone = if *answer == Answer::Refused { REFUSED } else { "" };
        let locality = Locality { region: hash.clone(), zone: zone.to_owned(), ..Locality::default() };
        ClusterHealthCheck {
            cluster_name: format!("{MARK}{owner}"),
            locality_endpoints: vec![LocalityEndpoints { locality: Some(locality), ..Default::default() }],
            ..Default::default()
        }
    };
    answers.iter().map(entry).collect()
}

/// The entries that an agent repeats to other replicas, out of what a replica says.
pub fn repeated(said: HealthCheckSpecifier) -> Vec<ClusterEndpointsHealth> {
    let marked = said.cluster_health_checks.into_iter().filter(|one| one.cluster_name.starts_with(MARK));
    let entry = |one: ClusterHealthCheck| ClusterEndpointsHealth {
        cluster_name: one.cluster_name,
        locality_endpoints_health: one
            .locality_endpoints
            .into_iter()
            .take(1)
            .map(|one| LocalityEndpointsHealth { locality: one.locality, endpoints_health: Vec::new() })
            .collect(),
    };
    marked.take(MAX_ENTRIES).map(entry).collect()
}

/// The answers of a report, about owners that are served.
pub(super) fn read(report: &EndpointHealthResponse, served: &Snapshot) -> Answers {
    let one = |entry: &ClusterEndpointsHealth| {
        let owner = entry.cluster_name.strip_prefix(MARK)?;
        let locality = entry.locality_endpoints_health.first()?.locality.as_ref()?;
        let is_known = locality.region.len() <= MAX_HASH && served.has_owner(owner);
        let answer = if locality.zone == REFUSED { Answer::Refused } else { Answer::Acknowledged };
        is_known.then(|| ((owner.to_owned(), locality.region.clone()), answer))
    };
    report.cluster_endpoints_health.iter().take(2 * MAX_ENTRIES).filter_map(one).take(MAX_ENTRIES).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::Resource;
    use crate::kind::CDS;

    fn served() -> Snapshot {
        let one = |owner: &str| {
            let url = CDS.to_owned();
            (url, format!("{owner}/all"), Resource::new(vec![1]).owned_by(owner))
        };
        Snapshot::new(["a", "b"].map(one))
    }

    fn report(answers: &Answers) -> EndpointHealthResponse {
        let said = HealthCheckSpecifier { cluster_health_checks: entries(answers), ..Default::default() };
        EndpointHealthResponse { cluster_endpoints_health: repeated(said), ..Default::default() }
    }

    fn answer(owner: &str, hash: &str, answer: Answer) -> ((String, String), Answer) {
        ((owner.to_owned(), hash.to_owned()), answer)
    }

    #[test]
    fn answers_arrive_as_they_were_said() {
        let said = Answers::from([answer("a", "1", Answer::Acknowledged), answer("b", "2", Answer::Refused)]);
        assert_eq!(read(&report(&said), &served()), said);
    }

    #[test]
    fn answers_about_unknown_owners_or_long_hashes_are_not_kept() {
        let long = "f".repeat(MAX_HASH + 1);
        let said = Answers::from([answer("c", "1", Answer::Acknowledged), answer("a", &long, Answer::Acknowledged)]);
        assert!(read(&report(&said), &served()).is_empty());
    }

    #[test]
    fn answers_leave_out_what_is_pending() {
        let standings = [
            ("a", Standing::Acknowledged),
            ("b", Standing::Pending),
            ("c", Standing::Refused { message: "no".to_owned() }),
        ];
        let standings = standings.map(|(owner, standing)| (owner.to_owned(), standing)).into();
        let expected = [answer("a", "1", Answer::Acknowledged), answer("c", "1", Answer::Refused)];
        assert_eq!(answers(standings, |_| Some("1".to_owned())), Answers::from(expected));
    }
}
