use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use portcullis_api::status::{DiscoveryFacts, Timestamp};
use portcullis_api::{Discovered, DiscoveredServer, is_allowed_server};

use super::super::metrics::DiscoveryCounts;
use super::slices::SliceServers;
use super::want::{AnswerKey, Want, Wants};

/// The last answer of a source, and how current it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Answer {
    pub(super) key: AnswerKey,
    /// Those of the last answer with one that may be used.
    pub(super) servers: Vec<DiscoveredServer>,
    /// Parts of the newest answer that are not used, and why.
    pub(super) unused: Vec<String>,
    /// When the servers changed last.
    pub(super) changed: Option<SystemTime>,
    /// Since when the source names no server, if it names none.
    pub(super) empty_since: Option<SystemTime>,
    /// Since when the source is not there, if it is not, and why.
    pub(super) failed: Option<(SystemTime, String)>,
    /// Whether the source has answered, or failed to, since the start.
    pub(super) is_asked: bool,
}

impl Answer {
    pub(super) fn none(key: AnswerKey, now: SystemTime) -> Self {
        Self {
            key,
            servers: Vec::new(),
            unused: Vec::new(),
            changed: None,
            empty_since: None,
            failed: Some((now, "it has not answered yet".to_owned())),
            is_asked: false,
        }
    }

    /// Takes what the source says. An answer without a server that may be used keeps the last one: a cluster does not lose its
    /// servers because a list of them is empty for a while, or wrong.
    pub(super) fn take(&mut self, found: SliceServers, allow_loopback: bool, now: SystemTime) {
        self.is_asked = true;
        self.failed = None;
        self.unused = found.unused;
        if !found.servers.iter().any(|server| is_allowed_server(server.ip, allow_loopback)) {
            let refused = found.servers.iter().take(8);
            self.unused.extend(refused.map(|server| format!("{}:{} may not be a server", server.ip, server.port)));
            self.empty_since = self.empty_since.or(Some(now));
            return;
        }
        self.empty_since = None;
        if self.servers != found.servers {
            self.servers = found.servers;
            self.changed = Some(now);
        }
    }

    /// Informs the operator of what is not as before.
    pub(super) fn log(&self, before: &Self) {
        let (name, source) = (&self.key.name, &self.key.source);
        if self.servers != before.servers {
            tracing::info!(name, source, servers = self.servers.len(), "the discovered servers are others");
        }
        if let (Some(_), None) = (self.empty_since, before.empty_since) {
            tracing::warn!(name, source, "no server is discovered any more: the last ones are kept");
        }
        if let (Some((_, why)), None) = (&self.failed, before.failed.as_ref().filter(|_| before.is_asked)) {
            tracing::warn!(name, source, reason = why, "servers cannot be discovered: the last ones are kept");
        }
    }

    /// The source is not there. The last answer stays.
    pub(super) fn fail(&mut self, why: String, now: SystemTime) {
        self.is_asked = true;
        let since = self.failed.as_ref().map_or(now, |(since, _)| *since);
        self.failed = Some((since, why));
    }
}

/// The answers for all objects that discover servers, by the objects' names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Answers {
    pub(super) by_name: BTreeMap<String, Answer>,
    /// Whether there is a Kubernetes in which Services are found.
    pub(super) has_kubernetes: bool,
}

impl Answers {
    /// What the document of an object gets; `None` if the object discovers nothing.
    pub(in super::super) fn of(&self, want: Option<&Want>) -> Option<Discovered> {
        let want = want?;
        if !self.has_kubernetes && want.needs_kubernetes() {
            return Some(Discovered::Unsupported);
        }
        let answer = self.by_name.get(&want.key.name).filter(|answer| answer.key == want.key);
        Some(Discovered::Servers(answer.map(|answer| answer.servers.clone()).unwrap_or_default()))
    }

    /// The state of an object's source, for its status.
    pub(in super::super) fn facts(&self, name: &str, uid: Option<&str>) -> Option<DiscoveryFacts> {
        let answer = self.by_name.get(name).filter(|answer| answer.key.uid == uid.unwrap_or_default())?;
        Some(DiscoveryFacts {
            source: answer.key.source.clone(),
            servers: answer.servers.len(),
            changed: answer.changed.map(timestamp),
            empty_since: answer.empty_since.map(timestamp),
            failed: answer.failed.as_ref().map(|(since, why)| (timestamp(*since), why.clone())),
            unused: answer.unused.clone(),
        })
    }

    pub(super) fn counts(&self) -> DiscoveryCounts {
        let mut counts = DiscoveryCounts::default();
        for answer in self.by_name.values() {
            counts.servers += answer.servers.len();
            match answer {
                Answer { failed: Some(_), .. } => counts.unavailable += 1,
                Answer { empty_since: Some(_), .. } => counts.empty += 1,
                Answer { .. } => counts.current += 1,
            }
        }
        counts
    }

    /// The servers alone.
    pub(super) fn servers(&self) -> BTreeMap<String, Vec<DiscoveredServer>> {
        self.by_name.iter().map(|(name, answer)| (name.clone(), answer.servers.clone())).collect()
    }

    /// Drops the answers that nothing wants, and makes room for those of new wants.
    pub(super) fn follow(&mut self, wants: &Wants, now: SystemTime) {
        self.by_name.retain(|name, answer| wants.get(name).is_some_and(|want| want.key == answer.key));
        for (name, want) in wants {
            self.by_name.entry(name.clone()).or_insert_with(|| Answer::none(want.key.clone(), now));
        }
    }

    /// Whether each want has servers, or its source was asked.
    pub(super) fn are_complete(&self, wants: &BTreeMap<String, Arc<Want>>) -> bool {
        wants.iter().all(|(name, want)| {
            if !self.has_kubernetes && want.needs_kubernetes() {
                return true;
            }
            let answer = self.by_name.get(name).filter(|answer| answer.key == want.key);
            answer.is_some_and(|answer| answer.is_asked || !answer.servers.is_empty())
        })
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::from_seconds(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs())
}
