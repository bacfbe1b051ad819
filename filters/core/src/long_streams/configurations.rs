use std::collections::{BTreeMap, BTreeSet};

/// Configurations of one cluster that its streams may keep.
const MAX_CONFIGURATIONS: usize = 256;
/// Entries of the policies of all these configurations; the newest one may have more. An entry takes some 500 bytes in the index of
/// policies (docs/performance.md), and its text in Envoy.
const MAX_ENTRIES: usize = 500_000;

/// The configuration that a stream was decided by. Envoy keeps it, as this filter does, for as long as the stream lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamConfiguration {
    /// A later configuration has a greater one.
    pub id: u64,
    /// Its size: the number of its policies, and of the entries of their rules' lists.
    pub entries: usize,
}

/// The numbers of the streams of each configuration. Without a bound the owner of an object could fill the memory of a proxy that
/// others share, by one open watch after each edit.
#[derive(Debug, Default)]
pub(super) struct Configurations(BTreeMap<u64, ConfigurationStreams>);

#[derive(Debug, Default)]
struct ConfigurationStreams {
    entries: usize,
    streams: BTreeSet<u64>,
}

impl Configurations {
    /// Notes a stream. Whether there are more configurations now than may be kept.
    pub(super) fn add(&mut self, of: StreamConfiguration, stream: u64) -> bool {
        let is_new = !self.0.contains_key(&of.id);
        let kept = self.0.entry(of.id).or_default();
        kept.entries = of.entries;
        kept.streams.insert(stream);
        is_new && self.are_too_many()
    }

    pub(super) fn remove(&mut self, configuration: u64, stream: u64) {
        let Some(kept) = self.0.get_mut(&configuration) else { return };
        kept.streams.remove(&stream);
        if kept.streams.is_empty() {
            self.0.remove(&configuration);
        }
    }

    /// Takes out the oldest configurations beyond those that may be kept, and returns their streams.
    pub(super) fn take_excess(&mut self) -> Vec<u64> {
        let mut streams = Vec::new();
        while self.are_too_many() {
            let Some((_, oldest)) = self.0.pop_first() else { break };
            streams.extend(oldest.streams);
        }
        streams
    }

    fn are_too_many(&self) -> bool {
        let entries = self.0.values().fold(0_usize, |sum, kept| sum.saturating_add(kept.entries));
        self.0.len() > MAX_CONFIGURATIONS || (self.0.len() > 1 && entries > MAX_ENTRIES)
    }
}
