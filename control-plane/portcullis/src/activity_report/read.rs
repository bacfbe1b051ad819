use bytes::Bytes;
use portcullis_filter_config::activity::{Talker, TopTalkers};
use portcullis_report::bounds::{
    MAX_CLUSTER_BYTES, MAX_CLUSTERS, MAX_LIMITS, MAX_NAME, MAX_POLICIES, MAX_REASON, MAX_REASONS, MAX_SERVERS,
    MAX_TALKER_NAME, MAX_TALKERS, shortened,
};
use portcullis_report::message::{ClusterMessage, PartMessage, PolicyMessage, TalkerMessage, TalkersMessage};
use prost::Message;

use crate::display_text::one_line;

/// The reason that a report cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("the report is not in the format of reports")]
    Part(#[source] prost::DecodeError),
    #[error("a cluster of the report is not in the format of reports")]
    Cluster(#[source] prost::DecodeError),
}

/// A part of a report, within its bounds.
#[derive(Debug)]
pub(crate) struct ReportPart {
    pub(crate) process: u64,
    pub(crate) uptime_seconds: u64,
    pub(crate) reasons: Vec<String>,
    pub(crate) complete: bool,
    pub(crate) more: bool,
    pub(crate) partial: bool,
    clusters: Vec<Bytes>,
}

impl ReportPart {
    /// Reads a part, and of its clusters only how many bytes they have.
    pub(crate) fn read(content: Bytes) -> Result<Self, ReadError> {
        let PartMessage { process, uptime_seconds, mut reasons, mut clusters, complete, more, partial } =
            PartMessage::decode(content).map_err(ReadError::Part)?;
        reasons.truncate(MAX_REASONS);
        reasons.iter_mut().for_each(|reason| *reason = one_line(shortened(reason, MAX_REASON)));
        let sent = clusters.len();
        clusters.truncate(MAX_CLUSTERS);
        clusters.retain(|cluster| cluster.len() <= MAX_CLUSTER_BYTES);
        let partial = partial || clusters.len() < sent;
        Ok(Self { process, uptime_seconds, reasons, complete, more, partial, clusters })
    }

    /// Reads the clusters, one after the other. One without a usable name is left out.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = Result<ClusterMessage, ReadError>> + '_ {
        let read = self.clusters.iter().map(|one| ClusterMessage::decode(one.clone()).map_err(ReadError::Cluster));
        read.filter(|one| one.as_ref().map_or(true, |cluster| is_name(&cluster.cluster))).map(|one| one.map(bounded))
    }

    /// The text of a reason by its position.
    #[cfg(test)]
    pub(crate) fn reason(&self, position: u32) -> Option<&str> {
        self.reasons.get(usize::try_from(position).ok()?).map(String::as_str)
    }
}

/// Whether a cluster, a server or a schema may have this name: it has no blank, and nothing that controls a terminal.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn bounded(mut cluster: ClusterMessage) -> ClusterMessage {
    cluster.policies.truncate(MAX_POLICIES);
    cluster.policies.iter_mut().for_each(bound_policy);
    cluster.servers.truncate(MAX_SERVERS);
    cluster.servers.retain(|server| is_name(&server.server));
    cluster.limits.truncate(MAX_LIMITS);
    cluster.limits.retain(|limit| is_name(&limit.schema));
    cluster
}

fn bound_policy(policy: &mut PolicyMessage) {
    policy.reasons.truncate(MAX_REASONS);
    policy.refused.truncate(policy.reasons.len());
}

/// The clients with the most requests, out of [`ClusterMessage::top`]; `None` if they cannot be read.
pub(crate) fn talkers(encoded: &[u8]) -> Option<TopTalkers> {
    let message = TalkersMessage::decode(encoded).ok()?;
    let list = |all: Vec<TalkerMessage>| all.into_iter().take(MAX_TALKERS + 1).map(talker).collect();
    Some(TopTalkers {
        users: list(message.users),
        groups: list(message.groups),
        user_agents: list(message.user_agents),
    })
}

fn talker(one: TalkerMessage) -> Talker {
    Talker {
        name: one_line(shortened(&one.name, MAX_TALKER_NAME)),
        requests: one.requests,
        error: one.error,
        lists: one.lists,
        bytes: one.bytes,
        refusals: one.refusals,
    }
}
