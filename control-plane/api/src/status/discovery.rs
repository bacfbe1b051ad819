use super::condition::Finding;
use super::{ConditionType, State, Timestamp};

/// Most things that are not used and named.
const MAX_UNUSED: usize = 8;

/// The source of an object's discovered servers, and how current its last answer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryFacts {
    /// The source, in words.
    pub source: String,
    /// The number of servers of the last answer that had any.
    pub servers: usize,
    /// When they changed last; unset before the first answer.
    pub changed: Option<Timestamp>,
    /// Since when the source names none.
    pub empty_since: Option<Timestamp>,
    /// Since when the source is not there, and why.
    pub failed: Option<(Timestamp, String)>,
    /// Parts of the newest answer that are not used.
    pub unused: Vec<String>,
}

/// Whether the servers are those that the source names now.
pub(super) fn discovered_finding(facts: &DiscoveryFacts) -> Finding {
    let mut message = match (facts.servers, &facts.changed) {
        (0, _) => format!("no server of {} is known", facts.source),
        (1, Some(changed)) => format!("1 server of {}, changed {changed}", facts.source),
        (count, Some(changed)) => format!("{count} servers of {}, changed {changed}", facts.source),
        (count, None) => format!("{count} servers of {}", facts.source),
    };
    let (status, reason) = if let Some((since, why)) = &facts.failed {
        message.push_str(&format!("; not available since {since}: {why}"));
        (State::Unknown, "Unavailable")
    } else if let Some(since) = &facts.empty_since {
        message.push_str(&format!("; it names no server that may be used since {since}"));
        (State::False, "Empty")
    } else if !facts.unused.is_empty() {
        (State::True, "SomeNotUsed")
    } else {
        (State::True, "Current")
    };
    if status != State::True && facts.servers > 0 {
        message.push_str("; the last ones are kept");
    }
    for unused in facts.unused.iter().take(MAX_UNUSED) {
        message.push_str("; ");
        message.push_str(unused);
    }
    Finding::new(ConditionType::ServersDiscovered, status, reason, message)
}
