use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::judge::LineVerdict;
use super::outcome::{MetOutcome, Unjudged};
use super::record::LogRecord;

/// Bounds of the memory that a report takes, whatever the log holds. The rest is counted without a name.
const MAX_DIFFERENCES: usize = 1_000;
const MAX_USERS: usize = 500;
const MAX_NAMES: usize = 100;
const MAX_SCHEMAS: usize = 10_000;
/// Most bytes of texts of lines that are kept for the report.
const MAX_KEPT: usize = 32 << 20;
/// Bytes that a place in a table takes beside its texts.
const PLACE: usize = 256;

/// The count of all lines.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) lines: u64,
    pub(super) same: u64,
    /// Of those that stay the same, the ones that another policy's number decides.
    pub(super) renumbered: u64,
    pub(super) different: u64,
    pub(super) unjudged: BTreeMap<&'static str, u64>,
    /// Clusters that are not among the objects.
    pub(super) strangers: BTreeMap<String, u64>,
    pub(super) unknown: BTreeMap<&'static str, (u64, LineExample)>,
    differences: HashMap<DifferenceKey, Difference>,
    /// Different lines for whose kind there was no room.
    pub(super) unnamed: u64,
    /// By cluster and schema.
    pub(super) schemas: BTreeMap<(String, String), SchemaCount>,
    /// Lines of users who impersonate, of those that are judged or unknown.
    pub(super) impersonated: u64,
    kept: KeptBytes,
}

/// The bytes of lines that are kept.
#[derive(Debug, Default)]
struct KeptBytes(usize);

impl KeptBytes {
    /// Whether there is room for texts of so many bytes, which is taken then.
    fn take(&mut self, bytes: usize) -> bool {
        let kept = self.0.saturating_add(bytes).saturating_add(PLACE);
        let has_room = kept <= MAX_KEPT;
        if has_room {
            self.0 = kept;
        }
        has_room
    }
}

/// A kind of difference, and its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DifferenceKey {
    pub(super) cluster: String,
    pub(super) then: MetOutcome,
    pub(super) now: MetOutcome,
}

/// The lines of one difference.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) count: u64,
    pub(super) limited: u64,
    users: HashMap<String, u64>,
    /// Lines of users for whom there was no room.
    pub(super) others: u64,
    pub(super) example: LineExample,
}

/// A line, for its reader.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LineExample {
    /// From 1, over all files.
    pub(super) line: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) time: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) verb: String,
    pub(super) user: String,
    pub(super) groups: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) impersonated_user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) client: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) user_agent: String,
}

/// The requests that a flow control schema counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct SchemaCount {
    pub(super) then: u64,
    /// Of `then`, those that a limit refused.
    pub(super) limited: u64,
    pub(super) now: u64,
}

impl Tally {
    /// Counts a line that is none of an access log.
    pub(super) fn unreadable(&mut self) {
        self.lines += 1;
        *self.unjudged.entry("not a line of the access log").or_default() += 1;
    }

    /// Counts a line of a cluster that is left out, or is not among the objects.
    pub(super) fn of_other_cluster(&mut self, record: &LogRecord<'_>, is_left_out: bool) {
        if is_left_out {
            self.lines += 1;
            *self.unjudged.entry("another cluster").or_default() += 1;
            return;
        }
        let has_room = self.strangers.contains_key(&*record.cluster)
            || (self.strangers.len() < MAX_NAMES && self.kept.take(record.cluster.len()));
        let name = if has_room { &*record.cluster } else { "(others)" };
        *self.strangers.entry(name.to_owned()).or_default() += 1;
        self.count(record, LineVerdict::Unjudged(Unjudged::OtherCluster));
    }

    /// Counts a line.
    pub(super) fn count(&mut self, record: &LogRecord<'_>, verdict: LineVerdict) {
        self.lines += 1;
        if !record.impersonated_user.is_empty() && !matches!(verdict, LineVerdict::Unjudged(_)) {
            self.impersonated += 1;
        }
        match verdict {
            LineVerdict::Unjudged(unjudged) => *self.unjudged.entry(unjudged.reason()).or_default() += 1,
            LineVerdict::Unknown(reason) => {
                let line = self.lines;
                self.unknown.entry(reason).or_insert_with(|| (0, LineExample::of(record, line))).0 += 1;
            }
            LineVerdict::Judged { then, now, was_limited } => {
                self.count_schemas(record, &then, &now, was_limited);
                if then.is_like(&now) {
                    self.same += 1;
                    self.renumbered += u64::from(then.policy != now.policy);
                } else {
                    self.different += 1;
                    self.add(record, then, now, was_limited);
                }
            }
        }
    }

    fn count_schemas(&mut self, record: &LogRecord<'_>, then: &MetOutcome, now: &MetOutcome, was_limited: bool) {
        for (met, is_then) in [(then, true), (now, false)] {
            let Some(schema) = met.schema.as_ref().filter(|_| met.refused.is_none()) else { continue };
            let key = (record.cluster.clone().into_owned(), schema.clone());
            if !self.schemas.contains_key(&key)
                && (self.schemas.len() >= MAX_SCHEMAS || !self.kept.take(key.0.len() + key.1.len()))
            {
                continue;
            }
            let count = self.schemas.entry(key).or_default();
            if is_then {
                count.then += 1;
                count.limited += u64::from(was_limited);
            } else {
                count.now += 1;
            }
        }
    }

    fn add(&mut self, record: &LogRecord<'_>, then: MetOutcome, now: MetOutcome, was_limited: bool) {
        let key = DifferenceKey { cluster: record.cluster.clone().into_owned(), then, now };
        let is_new = !self.differences.contains_key(&key);
        if is_new && (self.differences.len() >= MAX_DIFFERENCES || !self.kept.take(key.bytes() + record.bytes())) {
            self.unnamed += 1;
            return;
        }
        let line = self.lines;
        let difference = self.differences.entry(key).or_insert_with(|| Difference::new(LineExample::of(record, line)));
        difference.count += 1;
        difference.limited += u64::from(was_limited);
        let acting = if record.impersonated_user.is_empty() { &record.user } else { &record.impersonated_user };
        if let Some(count) = difference.users.get_mut(&**acting) {
            *count += 1;
        } else if difference.users.len() < MAX_USERS && self.kept.take(acting.len()) {
            difference.users.insert(acting.clone().into_owned(), 1);
        } else {
            difference.others += 1;
        }
    }

    /// Bytes of lines that are kept.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept.0
    }

    /// Lines that were judged.
    pub(super) fn judged(&self) -> u64 {
        self.same + self.different
    }

    /// Lines of which the log does not know enough.
    pub(super) fn undecided(&self) -> u64 {
        self.unknown.values().map(|(count, _)| count).sum()
    }

    /// The differences, those of most lines first.
    pub(super) fn differences(&self) -> Vec<(&DifferenceKey, &Difference)> {
        let mut all: Vec<_> = self.differences.iter().collect();
        all.sort_by_key(|(_, difference)| (std::cmp::Reverse(difference.count), difference.example.line));
        all
    }
}

impl DifferenceKey {
    fn bytes(&self) -> usize {
        self.cluster.len().saturating_add(self.then.bytes()).saturating_add(self.now.bytes())
    }
}

impl Difference {
    fn new(example: LineExample) -> Self {
        Difference { count: 0, limited: 0, users: HashMap::new(), others: 0, example }
    }

    /// The users with the most lines, and how many others there are.
    pub(super) fn top_users(&self, most: usize) -> (Vec<(&str, u64)>, usize) {
        let mut users: Vec<(&str, u64)> = self.users.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        users.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let others = users.len().saturating_sub(most);
        users.truncate(most);
        (users, others)
    }
}

impl LineExample {
    fn of(record: &LogRecord<'_>, line: u64) -> Self {
        let text = |text: &str| text.to_owned();
        LineExample {
            line,
            time: text(&record.time),
            method: text(&record.method),
            path: text(&record.path),
            verb: text(&record.verb),
            user: text(&record.user),
            groups: record.groups.clone(),
            impersonated_user: text(&record.impersonated_user),
            client: text(&record.client),
            user_agent: text(&record.user_agent),
        }
    }
}

impl Unjudged {
    /// The reason, for people.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Unjudged::OtherCluster => "a cluster that is not among the objects",
            Unjudged::Refused(reason) => reason,
        }
    }
}
