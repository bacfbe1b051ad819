use std::collections::BTreeMap;

use bytes::Bytes;
use portcullis_filter_config::activity::{
    Activity, ClusterActivity, LimitUse, PolicyActivity, ServerActivity, ShadowActivity, Talker, TopTalkers,
};
use prost::Message;

use crate::bounds::{
    MAX_CLUSTER_BYTES, MAX_CLUSTERS, MAX_DIFFERENCES, MAX_LIMITS, MAX_PART_BYTES, MAX_POLICIES, MAX_REASONS,
    MAX_SERVERS, MAX_SHADOWS, MAX_TALKER_NAME, MAX_TALKERS, OTHER, shortened,
};
use crate::message::{
    ClusterMessage, DifferenceMessage, LimitMessage, PartMessage, PolicyMessage, ServerMessage, ShadowMessage,
    TalkerMessage, TalkersMessage,
};

/// The newest page of an Envoy process, encoded by cluster, with the number of the page in which each cluster changed last.
#[derive(Clone, Debug, Default)]
pub struct ActivityPage {
    process: u64,
    uptime_seconds: u64,
    reasons: Vec<String>,
    number: u64,
    clusters: BTreeMap<String, (u64, Bytes)>,
    /// Clusters are missing for which a report has no room.
    is_partial: bool,
}

/// The page that a receiver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    process: u64,
    number: u64,
}

impl ActivityPage {
    /// The page after this one. It replaces it altogether if the process is another one.
    pub fn succeeded_by(mut self, activity: &Activity) -> Self {
        if self.process != activity.process {
            self = Self { process: activity.process, number: self.number, ..Self::default() };
        }
        self.number += 1;
        self.uptime_seconds = activity.uptime_seconds;
        let mut before = std::mem::take(&mut self.clusters);
        self.is_partial = activity.clusters.len() > MAX_CLUSTERS;
        for cluster in activity.clusters.iter().take(MAX_CLUSTERS) {
            let encoded = encode(cluster, &mut self.reasons);
            if encoded.len() > MAX_CLUSTER_BYTES {
                self.is_partial = true;
                continue;
            }
            let unchanged = before.remove(&cluster.cluster).filter(|(_, known)| *known == encoded);
            self.clusters.insert(cluster.cluster.clone(), unchanged.unwrap_or((self.number, encoded)));
        }
        self
    }

    /// The page, as [`ActivityPage::parts`] of a later one refers to it.
    pub fn since(&self) -> Since {
        Since { process: self.process, number: self.number }
    }

    /// The parts of a report to a receiver that has an earlier page, or none. Without a change it is one part without clusters.
    pub fn parts(&self, since: Option<Since>) -> Vec<Bytes> {
        self.parts_within(since, usize::MAX).0
    }

    /// The parts of a report whose clusters have that many bytes at most, the first ones by name, and the number of clusters that
    /// have no room.
    pub fn parts_within(&self, since: Option<Since>, most: usize) -> (Vec<Bytes>, usize) {
        let since = since.filter(|since| since.process == self.process).map(|since| since.number);
        let changed = self.clusters.values().filter(|(number, _)| since.is_none_or(|since| *number > since));
        let mut parts: Vec<Vec<Bytes>> = vec![Vec::new()];
        let (mut bytes, mut total, mut left_out) = (0, 0_usize, 0);
        for (_, cluster) in changed {
            total = total.saturating_add(cluster.len());
            if total > most {
                left_out += 1;
                continue;
            }
            if bytes + cluster.len() > MAX_PART_BYTES {
                parts.push(Vec::new());
                bytes = 0;
            }
            bytes += cluster.len();
            parts.last_mut().into_iter().for_each(|part| part.push(cluster.clone()));
        }
        let last = parts.len() - 1;
        let is_partial = self.is_partial || left_out > 0;
        let part = |(position, clusters): (usize, Vec<Bytes>)| PartMessage {
            process: self.process,
            uptime_seconds: self.uptime_seconds,
            reasons: self.reasons.clone(),
            clusters,
            complete: since.is_none() && !is_partial,
            partial: is_partial,
            more: position < last,
        };
        (parts.into_iter().enumerate().map(|one| part(one).encode_to_vec().into()).collect(), left_out)
    }
}

fn encode(cluster: &ClusterActivity, reasons: &mut Vec<String>) -> Bytes {
    let policies = cluster.policies.iter().take(MAX_POLICIES).map(|one| policy(one, reasons)).collect();
    let message = ClusterMessage {
        cluster: cluster.cluster.clone(),
        object: cluster.object.clone(),
        policies,
        servers: servers(&cluster.servers),
        limits: cluster.limits.iter().take(MAX_LIMITS).map(limit).collect(),
        running: cluster.running,
        watches: cluster.watches,
        sessions: cluster.sessions,
        top: cluster.top.as_ref().map(|top| top_message(top).encode_to_vec().into()),
        shadows: cluster.shadows.iter().take(MAX_SHADOWS).map(|one| shadow(one).encode_to_vec().into()).collect(),
    };
    message.encode_to_vec().into()
}

fn policy(one: &PolicyActivity, reasons: &mut Vec<String>) -> PolicyMessage {
    let number = match one.policy.as_str() {
        "-" => 0,
        number => number.parse::<u32>().ok().and_then(|number| number.checked_add(1)).unwrap_or(u32::MAX),
    };
    let mut message = PolicyMessage { policy: number, forwarded: one.forwarded, ..PolicyMessage::default() };
    for (reason, count) in &one.refused {
        let Some(position) = position(reason, reasons) else { continue };
        message.reasons.push(position);
        message.refused.push(*count);
    }
    message
}

/// The position of a reason in the table, to which a new one is added.
fn position(reason: &str, reasons: &mut Vec<String>) -> Option<u32> {
    let known = reasons.iter().position(|known| known == reason);
    let position = known.or_else(|| {
        (reasons.len() < MAX_REASONS).then(|| {
            reasons.push(reason.to_owned());
            reasons.len() - 1
        })
    });
    position.and_then(|position| position.try_into().ok())
}

/// The servers, those beyond the bound counted together.
fn servers(all: &[ServerActivity]) -> Vec<ServerMessage> {
    let message = |server: &str, one: &ServerActivity| ServerMessage {
        server: server.to_owned(),
        answers: one.answers.to_vec(),
        latency: one.latency.buckets.to_vec(),
        in_flight: one.in_flight,
    };
    let split = if all.len() > MAX_SERVERS { MAX_SERVERS - 1 } else { all.len() };
    let (named, rest) = all.split_at_checked(split).unwrap_or((all, &[]));
    let mut messages: Vec<ServerMessage> = named.iter().map(|one| message(&one.server, one)).collect();
    if !rest.is_empty() {
        let mut sum = ServerActivity::default();
        // The filter's own rest may be among those that are named.
        let known = messages.iter().position(|one| one.server == OTHER).map(|position| messages.swap_remove(position));
        sum.in_flight = known.as_ref().map_or(0, |known| known.in_flight);
        let before = known.map(|known| (known.answers, known.latency)).unwrap_or_default();
        sum.answers.iter_mut().zip(before.0).for_each(|(sum, count)| *sum = count);
        sum.latency.buckets.iter_mut().zip(before.1).for_each(|(sum, count)| *sum = count);
        for one in rest {
            sum.answers.iter_mut().zip(one.answers).for_each(|(sum, count)| *sum = sum.saturating_add(count));
            let counts = sum.latency.buckets.iter_mut().zip(one.latency.buckets);
            counts.for_each(|(sum, count)| *sum = sum.saturating_add(count));
            sum.in_flight = sum.in_flight.saturating_add(one.in_flight);
        }
        messages.push(message(OTHER, &sum));
    }
    messages
}

fn limit(one: &LimitUse) -> LimitMessage {
    let LimitUse { used, limit, rate, refused, local, shared, .. } = *one;
    LimitMessage { schema: one.schema.clone(), used, limit, rate, refused, local, shared }
}

fn shadow(one: &ShadowActivity) -> ShadowMessage {
    let differences = one.differences.iter().take(MAX_DIFFERENCES).map(|(kind, count)| DifferenceMessage {
        policy: kind.policy.clone(),
        shadow_policy: kind.shadow_policy.clone(),
        agreement: kind.agreement.clone(),
        verb: kind.verb.clone(),
        resource: kind.resource.clone(),
        count: *count,
    });
    ShadowMessage {
        generation: one.generation.clone(),
        judged: one.judged,
        differences: differences.collect(),
        others: one.others,
    }
}

fn top_message(top: &TopTalkers) -> TalkersMessage {
    TalkersMessage { users: top_of(&top.users), groups: top_of(&top.groups), user_agents: top_of(&top.user_agents) }
}

/// The clients with the most requests, and all others together. The error of a sum is the sum of the errors.
fn top_of(all: &[Talker]) -> Vec<TalkerMessage> {
    let mut named: Vec<&Talker> = all.iter().filter(|one| one.name != OTHER).collect();
    named.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.name.cmp(&b.name)));
    let rest = named.split_off(named.len().min(MAX_TALKERS));
    let mut others = TalkerMessage { name: OTHER.to_owned(), ..TalkerMessage::default() };
    for one in rest.into_iter().chain(all.iter().filter(|one| one.name == OTHER)) {
        others.requests = others.requests.saturating_add(one.requests);
        others.error = others.error.saturating_add(one.error);
        others.lists = others.lists.saturating_add(one.lists);
        others.bytes = others.bytes.saturating_add(one.bytes);
        others.refusals = others.refusals.saturating_add(one.refusals);
    }
    let message = |one: &Talker| TalkerMessage {
        name: shortened(&one.name, MAX_TALKER_NAME).to_owned(),
        requests: one.requests,
        error: one.error,
        lists: one.lists,
        bytes: one.bytes,
        refusals: one.refusals,
    };
    let others = (others.requests > 0).then_some(others);
    named.into_iter().map(message).chain(others).collect()
}
