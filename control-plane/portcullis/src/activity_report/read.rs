use bytes::Bytes;
use portcullis_filter_config::activity::{Talker, TopTalkers};
use portcullis_report::bounds::{
    MAX_CLUSTER_BYTES, MAX_CLUSTERS, MAX_DIFFERENCE_WORD, MAX_DIFFERENCES, MAX_LIMITS, MAX_NAME, MAX_POLICIES,
    MAX_REASON, MAX_REASONS, MAX_SERVERS, MAX_SHADOW_BYTES, MAX_SHADOWS, MAX_TALKER_NAME, MAX_TALKERS, shortened,
};
use portcullis_report::message::{
    ClusterMessage, DifferenceMessage, PartMessage, PolicyMessage, ShadowMessage, TalkerMessage, TalkersMessage,
};
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
    /// The part as one that lacks clusters, without those that it has.
    pub(crate) fn lacking(&self) -> Self {
        let &Self { process, uptime_seconds, complete, more, .. } = self;
        let (reasons, clusters) = (self.reasons.clone(), Vec::new());
        Self { process, uptime_seconds, reasons, complete, more, partial: true, clusters }
    }

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
    cluster.shadows.truncate(MAX_SHADOWS);
    // A longer word is that of no object.
    if cluster.object.len() > MAX_NAME {
        cluster.object = shortened(&cluster.object, MAX_NAME).to_owned();
    }
    cluster.shadows.retain(|shadow| shadow.len() <= MAX_SHADOW_BYTES);
    cluster
}

fn bound_policy(policy: &mut PolicyMessage) {
    policy.reasons.truncate(MAX_REASONS);
    policy.refused.truncate(policy.reasons.len());
}

/// Requests that were judged by the shadows of a cluster; messages that cannot be read are left out. Differences in other words than a filter has
/// count together.
pub(crate) fn shadows(cluster: &ClusterMessage) -> Vec<ShadowMessage> {
    let mut all: Vec<ShadowMessage> = Vec::new();
    for mut one in cluster.shadows.iter().filter_map(|one| ShadowMessage::decode(one.clone()).ok()) {
        if !is_word(&one.generation) || all.iter().any(|known| known.generation == one.generation) {
            continue;
        }
        let mut kept = Vec::new();
        for difference in std::mem::take(&mut one.differences) {
            if kept.len() < MAX_DIFFERENCES && has_words(&difference) {
                kept.push(difference);
            } else {
                one.others = one.others.saturating_add(difference.count);
            }
        }
        one.differences = kept;
        all.push(one);
    }
    all
}

fn has_words(difference: &DifferenceMessage) -> bool {
    let DifferenceMessage { policy, shadow_policy, agreement, verb, resource, .. } = difference;
    [policy, shadow_policy, agreement, verb].into_iter().all(|word| is_word(word))
        && (resource.is_empty() || is_word(resource))
}

/// Whether it is a word such as filters have: a number, a label, a resource.
fn is_word(text: &str) -> bool {
    let has = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./()".contains(&byte);
    !text.is_empty() && text.len() <= MAX_DIFFERENCE_WORD && text.bytes().all(has)
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
