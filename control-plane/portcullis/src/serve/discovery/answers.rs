use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use portcullis_api::status::{DiscoveryFacts, Timestamp};
use portcullis_api::{Discovered, DiscoveredServer, MAX_SERVERS, is_allowed_server};
use portcullis_xds::ChangedNames;

use super::super::changed_keys::changed_keys;
use super::super::metrics::DiscoveryCounts;
use super::slices::SliceServers;
use super::want::{AnswerKey, Want, Wants};

/// How long a server has to be known before it makes others dispensable: a new one is used when a gateway has checked its health.
pub(super) const ESTABLISHED: Duration = Duration::from_secs(5);

/// The last answer of a source, and how current it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Answer {
    pub(super) key: AnswerKey,
    /// The written servers of the object whose upstream gave it.
    pub(super) written: BTreeSet<String>,
    /// The addresses of its written servers that are disabled: they take the place of no other one.
    pub(super) disabled: BTreeSet<SocketAddr>,
    /// Those of the last answer with one that may be used, and those before them until one of these is established.
    pub(super) servers: Vec<DiscoveredServer>,
    /// Those of that answer alone.
    pub(super) named: Vec<DiscoveredServer>,
    /// Since when each of them that may be a server is named.
    pub(super) since: BTreeMap<SocketAddr, Instant>,
    /// Since when servers are kept that are not named any more, because none of those that are is established.
    pub(super) kept_since: Option<Instant>,
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
            written: BTreeSet::new(),
            disabled: BTreeSet::new(),
            servers: Vec::new(),
            named: Vec::new(),
            since: BTreeMap::new(),
            kept_since: None,
            unused: Vec::new(),
            changed: None,
            empty_since: None,
            failed: Some((now, "it has not answered yet".to_owned())),
            is_asked: false,
        }
    }

    /// Whether it is of this want's source. Without a common written server it is taken for that of another upstream: an object that
    /// is written anew for another cluster may keep its name, its CA and its account.
    pub(super) fn is_of(&self, want: &Want) -> bool {
        self.key == want.key && want.shares_written(&self.written)
    }

    /// Whether there are servers, or a source that says that there are none. One that failed may have some.
    fn is_answer(&self) -> bool {
        !self.servers.is_empty() || (self.is_asked && self.failed.is_none())
    }

    /// Takes what the source says. An answer without a server that may be used keeps the last one: a cluster does not lose its
    /// servers because a list of them is empty for a while, or wrong.
    pub(super) fn take(&mut self, found: SliceServers, allow_loopback: bool, (now, uptime): (SystemTime, Instant)) {
        self.is_asked = true;
        self.failed = None;
        self.unused = found.unused;
        if self.key.is_of_gateways() {
            return self.replace(found.servers, allow_loopback, now);
        }
        let disabled = &self.disabled;
        let is_used = |server: &DiscoveredServer| {
            is_allowed_server(server.ip, allow_loopback)
                && !disabled.contains(&SocketAddr::new(server.ip.to_canonical(), server.port))
        };
        if !found.servers.iter().any(is_used) {
            let why = |server: &DiscoveredServer| match is_allowed_server(server.ip, allow_loopback) {
                true => "is disabled",
                false => "may not be a server",
            };
            let refused = found.servers.iter().take(8);
            self.unused.extend(refused.map(|server| format!("{}:{} {}", server.ip, server.port, why(server))));
            self.empty_since = self.empty_since.or(Some(now));
            return;
        }
        self.empty_since = None;
        // The first ones are established: no other ones are there to be kept, or they are those of the last run.
        let is_first = |server: &DiscoveredServer| {
            self.since.is_empty()
                && (self.servers.is_empty() || self.servers.iter().any(|one| address(one) == address(server)))
        };
        let since = |server: &DiscoveredServer| match self.since.get(&address(server)) {
            Some(since) => *since,
            None if is_first(server) => uptime.checked_sub(ESTABLISHED).unwrap_or(uptime),
            None => uptime,
        };
        // One that may not be a server is named in the object's warnings, and establishes nothing.
        let allowed = found.servers.iter().filter(|server| is_used(server));
        self.since = allowed.map(|server| (address(server), since(server))).collect();
        self.named = found.servers;
        self.settle((now, uptime));
    }

    /// Takes what a Service behind a route has, also if that is nothing: no certificate is verified there, and the address of a server
    /// that is gone may soon be that of another one's.
    fn replace(&mut self, found: Vec<DiscoveredServer>, allow_loopback: bool, now: SystemTime) {
        self.named = found.into_iter().filter(|server| is_allowed_server(server.ip, allow_loopback)).collect();
        self.empty_since = self.named.is_empty().then(|| self.empty_since.unwrap_or(now));
        if self.servers != self.named {
            self.servers.clone_from(&self.named);
            self.changed = Some(now);
        }
    }

    /// Lets go of servers that are not named any more, unless all that are named are new: when one server takes the place of another
    /// in one step, no gateway has checked the health of the one yet.
    pub(super) fn settle(&mut self, (now, uptime): (SystemTime, Instant)) {
        let is_new = self.since.values().min().is_some_and(|since| *since + ESTABLISHED > uptime);
        // A source that names other ones again and again ends nothing and begins nothing: what is kept stays bounded.
        self.kept_since = is_new.then(|| self.kept_since.unwrap_or(uptime));
        let mut servers = self.named.clone();
        if self.settles_at().is_some_and(|at| at > uptime) {
            // Behind those that are named, which are used first where there are too many.
            let room = MAX_SERVERS.saturating_sub(servers.len());
            let named: BTreeSet<_> = servers.iter().map(address).collect();
            let former = self.servers.iter().filter(|server| !named.contains(&address(server)));
            servers.extend(former.take(room).cloned());
        }
        if !self.named.is_empty() && self.servers != servers {
            self.servers = servers;
            self.changed = Some(now);
        }
    }

    /// When servers that are not named any more are let go.
    fn settles_at(&self) -> Option<Instant> {
        self.kept_since.map(|since| since + ESTABLISHED)
    }

    /// Informs the operator of what is not as before.
    fn log(&self, before: &Self) {
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
    /// The outcome for the document of an object; `None` if the object discovers nothing.
    pub(in super::super) fn of(&self, want: Option<&Want>) -> Option<Discovered> {
        let want = want?;
        if !self.has_kubernetes && want.needs_kubernetes() {
            return Some(Discovered::Unsupported);
        }
        let answer = self.by_name.get(&want.key.name).filter(|answer| answer.is_of(want));
        Some(Discovered::Servers(answer.map(|answer| answer.servers.clone()).unwrap_or_default()))
    }

    /// The servers that a source has named last; `None` if it has named none and does not answer that there are none: a failure is no
    /// answer.
    pub(super) fn answer_of(&self, want: &Want) -> Option<Vec<DiscoveredServer>> {
        let answer = self.by_name.get(&want.key.name).filter(|answer| answer.is_of(want))?;
        answer.is_answer().then(|| answer.servers.clone())
    }

    /// The state of an object's source, for its status.
    pub(in super::super) fn facts(&self, name: &str, uid: Option<&str>) -> Option<DiscoveryFacts> {
        let answer = self.by_name.get(name).filter(|answer| answer.key.uid == uid.unwrap_or_default())?;
        Some(DiscoveryFacts {
            source: answer.key.source.clone(),
            servers: answer.servers.len(),
            changed: answer.changed.map(Timestamp::from),
            empty_since: answer.empty_since.map(Timestamp::from),
            failed: answer.failed.as_ref().map(|(since, why)| (Timestamp::from(*since), why.clone())),
            unused: answer.unused.clone(),
        })
    }

    /// Adds the names of objects whose answer is another one than before.
    pub(in super::super) fn add_changed(&self, before: &Self, changed: &mut ChangedNames) {
        changed_keys(&before.by_name, &self.by_name).into_iter().for_each(|name| changed.add(name.as_str()));
    }

    /// The next time at which a server may be let go.
    pub(super) fn next_settlement(&self) -> Option<Instant> {
        let waiting = self.by_name.values().filter(|answer| answer.servers.len() > answer.named.len());
        waiting.filter(|answer| !answer.named.is_empty()).filter_map(Answer::settles_at).min()
    }

    pub(super) fn counts(&self) -> DiscoveryCounts {
        let mut counts = DiscoveryCounts::default();
        // Those of Gateways are their authors' matter, of whom there are many.
        for answer in self.by_name.values().filter(|answer| !answer.key.is_of_gateways()) {
            counts.servers += answer.servers.len();
            match answer {
                Answer { failed: Some(_), .. } => counts.unavailable += 1,
                Answer { empty_since: Some(_), .. } => counts.empty += 1,
                Answer { .. } => counts.current += 1,
            }
        }
        counts
    }

    /// Informs the operator of what is not as it was published last: a source that says much is not logged word by word.
    pub(super) fn log(&self, before: &Self) {
        for (name, answer) in self.by_name.iter().filter(|(_, answer)| !answer.key.is_of_gateways()) {
            match before.by_name.get(name) {
                Some(before) => answer.log(before),
                None => answer.log(&Answer::none(answer.key.clone(), SystemTime::UNIX_EPOCH)),
            }
        }
    }

    /// The servers alone.
    pub(super) fn servers(&self) -> BTreeMap<String, Vec<DiscoveredServer>> {
        self.by_name.iter().map(|(name, answer)| (name.clone(), answer.servers.clone())).collect()
    }

    /// The answers of Services behind routes.
    pub(super) fn of_gateways(&self) -> BTreeMap<String, Answer> {
        let own = self.by_name.iter().filter(|(_, answer)| answer.key.is_of_gateways());
        own.map(|(name, answer)| (name.clone(), answer.clone())).collect()
    }

    /// Drops the answers that nothing wants, and makes room for those of new wants.
    pub(super) fn follow(&mut self, wants: &Wants, now: SystemTime) {
        self.by_name.retain(|name, answer| wants.get(name).is_some_and(|want| answer.is_of(want)));
        for (name, want) in wants.iter().filter(|(_, want)| self.has_kubernetes || !want.needs_kubernetes()) {
            let answer = self.by_name.entry(name.clone()).or_insert_with(|| Answer::none(want.key.clone(), now));
            answer.disabled.clone_from(&want.disabled);
            let written = want.written();
            // Without written servers those that were found are asked, which are of the upstream of the ones before.
            if !written.is_empty() {
                answer.written = written;
            }
        }
    }

    /// Whether each of these wants has an answer.
    pub(super) fn are_complete<'a>(&self, wants: impl IntoIterator<Item = &'a Arc<Want>>) -> bool {
        wants.into_iter().all(|want| {
            if !self.has_kubernetes && want.needs_kubernetes() {
                return true;
            }
            let answer = self.by_name.get(&want.key.name).filter(|answer| answer.is_of(want));
            answer.is_some_and(Answer::is_answer)
        })
    }
}

#[cfg(test)]
impl Answers {
    /// Answers with so many servers for objects of files.
    pub(in super::super) fn of_counts(all: &[(String, u8)]) -> Self {
        let one = |(name, count): &(String, u8)| {
            let text = String::new;
            let key = AnswerKey { name: name.clone(), uid: text(), source: "a source".to_owned(), place: text() };
            let server = |last: u8| DiscoveredServer { ip: [10, 0, 0, last].into(), port: 6443, zone: String::new() };
            let mut answer = Answer::none(key, SystemTime::UNIX_EPOCH);
            answer.servers = (0..*count).map(server).collect();
            (name.clone(), answer)
        };
        Self { by_name: all.iter().map(one).collect(), has_kubernetes: true }
    }

    /// The failure of each want's source.
    pub(in super::super) fn failed(wants: &Wants) -> Self {
        let mut answers = Self { has_kubernetes: true, ..Self::default() };
        answers.follow(wants, SystemTime::UNIX_EPOCH);
        answers.by_name.values_mut().for_each(|answer| answer.fail("away".to_owned(), SystemTime::UNIX_EPOCH));
        answers
    }

    /// The answer of each want's source that it has one server, of an address that no other source has.
    pub(in super::super) fn of_wants(wants: &Wants, last: u8) -> Self {
        let answer = |want: &Arc<Want>| {
            let place = u8::from_str_radix(want.key.place.get(..2).unwrap_or("0"), 16).unwrap();
            let mut answer = Answer::none(want.key.clone(), SystemTime::UNIX_EPOCH);
            answer.written = want.written();
            let ip = [10, 1, place, last].into();
            answer.servers = vec![DiscoveredServer { ip, port: 6443, zone: String::new() }];
            (want.key.name.clone(), answer)
        };
        Self { by_name: wants.values().map(answer).collect(), has_kubernetes: true }
    }
}

fn address(server: &DiscoveredServer) -> SocketAddr {
    SocketAddr::new(server.ip, server.port)
}
