//! Messages about limits that several gateways share: a gateway sends the use of its part of each limit, and the control plane that
//! divides them answers with the part that the gateway has from then on.
//!
//! Both are bytes within [`crate::ReportRequest`] and [`crate::ReportResponse`]. The agent hands them on and reads no more than
//! their numbers, [`lacks_parts`] and [`next_exchange`].

use std::time::Duration;

use bytes::Bytes;
pub use portcullis_filter_config::limits::MAX_USE_BYTES;
use portcullis_filter_config::limits::{LimitPart, MAX_SCHEMAS, PartUse, bytes_in_report};
use prost::Message;

/// Numbers of a schema in a [`ClusterUseMessage`].
const USE_COLUMNS: usize = 4;
/// The first of them: a rate, and a part under a lease.
const RATE: u32 = 1;
const LEASED: u32 = 2;
/// Numbers of a part in a [`PartsMessage`]: the first says whether there is one.
const PART_COLUMNS: usize = 4;

/// Use of the parts of limits in one process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UseMessage {
    /// A number of the process, another one after each restart.
    #[prost(fixed64, tag = "1")]
    pub process: u64,
    /// The number of the message, greater than those before it. Only the answer to the newest one counts.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// Encoded [`ClusterUseMessage`]s.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub clusters: Vec<Bytes>,
}

/// Use of the limits of one cluster.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClusterUseMessage {
    /// The name under which the cluster counts, with the word of its object.
    #[prost(string, tag = "1")]
    pub cluster: String,
    /// The names of the schemas.
    #[prost(string, repeated, tag = "2")]
    pub schemas: Vec<String>,
    /// Four numbers for each schema: 1 if it is a rate, and 2 more if there is a part under a lease; that part, the use, and what the
    /// process has use for.
    #[prost(uint32, repeated, tag = "3")]
    pub columns: Vec<u32>,
}

/// Encodes a [`UseMessage`] with the parts in their order, which those of one cluster are next to each other in. Parts that
/// would make it longer than [`MAX_USE_BYTES`] are left out: the process chooses those that fit.
pub fn encode_use<'a>(
    process: u64,
    number: u64,
    parts: impl IntoIterator<Item = (&'a str, &'a str, PartUse)>,
) -> Vec<u8> {
    let mut message = UseMessage { process, number, clusters: Vec::new() };
    let (mut bytes, mut cluster) = (0_usize, ClusterUseMessage::default());
    for (name, schema, used) in parts {
        if cluster.cluster != name || cluster.schemas.len() >= MAX_SCHEMAS {
            message.add(std::mem::take(&mut cluster));
            bytes = bytes.saturating_add(bytes_in_report(name));
            name.clone_into(&mut cluster.cluster);
        }
        bytes = bytes.saturating_add(bytes_in_report(schema));
        if bytes > MAX_USE_BYTES {
            break;
        }
        cluster.push(schema, used);
    }
    message.add(cluster);
    message.encode_to_vec()
}

impl UseMessage {
    fn add(&mut self, cluster: ClusterUseMessage) {
        if !cluster.schemas.is_empty() {
            self.clusters.push(cluster.encode_to_vec().into());
        }
    }
}

impl ClusterUseMessage {
    /// Adds a schema.
    pub fn push(&mut self, schema: &str, PartUse { is_rate, is_leased, held, used, wanted }: PartUse) {
        self.schemas.push(schema.to_owned());
        let kind = if is_rate { RATE } else { 0 } | if is_leased { LEASED } else { 0 };
        self.columns.extend([kind, held, used, wanted]);
    }

    /// The schemas with their use, as far as the message has both.
    pub fn uses(&self) -> impl Iterator<Item = (&str, PartUse)> {
        let (columns, _) = self.columns.as_chunks::<USE_COLUMNS>();
        let read = |[kind, held, used, wanted]: &[u32; USE_COLUMNS]| PartUse {
            is_rate: kind & RATE != 0,
            is_leased: kind & LEASED != 0,
            held: *held,
            used: *used,
            wanted: *wanted,
        };
        self.schemas.iter().map(String::as_str).zip(columns.iter().map(read)).take(MAX_SCHEMAS)
    }
}

/// The parts of limits that a process has from now on.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PartsMessage {
    /// The number of the message that is answered.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// Time after which the process should send its next message.
    #[prost(uint32, tag = "2")]
    pub next_milliseconds: u32,
    /// Four numbers for each schema of the message, in its order: whether there is a part, its quota, its burst and its tokens.
    #[prost(uint32, repeated, tag = "3")]
    pub columns: Vec<u32>,
}

impl PartsMessage {
    /// Reads an encoded message. `None` if it is none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes).ok()
    }

    /// The time after which the process should send its next message: between 50 ms and 2 s, whatever it says.
    pub fn next_exchange(&self) -> Duration {
        let next = Duration::from_millis(self.next_milliseconds.into());
        next.clamp(Duration::from_millis(50), Duration::from_secs(2))
    }

    /// Adds the part of the next schema; `None` where the local limit is to hold.
    pub fn push(&mut self, part: Option<LimitPart>) {
        let LimitPart { quota, burst, tokens } = part.unwrap_or_default();
        self.columns.extend([u32::from(part.is_some()), quota, burst, tokens]);
    }

    /// The parts, in the order of the schemas.
    pub fn parts(&self) -> impl Iterator<Item = Option<LimitPart>> {
        let (columns, _) = self.columns.as_chunks::<PART_COLUMNS>();
        columns.iter().map(|[is_there, quota, burst, tokens]| {
            (*is_there != 0).then_some(LimitPart { quota: *quota, burst: *burst, tokens: *tokens })
        })
    }
}

/// The number of an encoded [`UseMessage`]; `None` if the bytes are none.
pub fn reported_number(report: &[u8]) -> Option<u64> {
    UseMessage::decode(report).ok().map(|message| message.number)
}

/// The number of the report that an encoded [`PartsMessage`] answers; `None` if the bytes are none.
pub fn answered_number(answer: &[u8]) -> Option<u64> {
    PartsMessage::read(answer).map(|message| message.number)
}

/// Whether an encoded [`PartsMessage`] leaves a limit to the local one.
pub fn lacks_parts(answer: &[u8]) -> bool {
    PartsMessage::read(answer).is_none_or(|message| message.parts().any(|part| part.is_none()))
}

/// [`PartsMessage::next_exchange`] of an encoded one. `None` if the bytes are none.
pub fn next_exchange(answer: &[u8]) -> Option<Duration> {
    PartsMessage::read(answer).map(|message| message.next_exchange())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_and_parts_are_read_as_they_are_written() {
        let one = PartUse { is_rate: true, is_leased: true, held: 7, used: 3, wanted: 9 };
        let other = PartUse { is_rate: false, is_leased: true, held: 0, used: u32::MAX, wanted: 1 };
        let mut message = ClusterUseMessage { cluster: "c".into(), ..Default::default() };
        [("a", one), ("b", other)].into_iter().for_each(|(name, used)| message.push(name, used));
        let read = ClusterUseMessage::decode(&*message.encode_to_vec()).unwrap();
        assert_eq!(read.uses().collect::<Vec<_>>(), [("a", one), ("b", other)]);

        let part = LimitPart { quota: 5, burst: 6, tokens: 7 };
        let mut parts = PartsMessage { number: 1, next_milliseconds: 100, ..Default::default() };
        [Some(part), None].into_iter().for_each(|part| parts.push(part));
        let bytes = parts.encode_to_vec();
        assert_eq!(PartsMessage::decode(&*bytes).unwrap().parts().collect::<Vec<_>>(), [Some(part), None]);
        assert_eq!((answered_number(&bytes), lacks_parts(&bytes)), (Some(1), true));
        assert_eq!(reported_number(&encode_use(1, 7, [("c", "a", one)])), Some(7));
        assert_eq!(next_exchange(&bytes), Some(Duration::from_millis(100)));
    }

    #[test]
    fn message_of_many_parts_stays_within_its_bound_and_in_order() {
        let names: Vec<String> = (0..30_000).map(|number| format!("schema-{number:05}")).collect();
        let used = |held| PartUse { held, used: u32::MAX, wanted: u32::MAX, is_rate: true, is_leased: false };
        let parts = names
            .iter()
            .zip(0..)
            .map(|(name, number)| (if number < 1_500 { "a" } else { "b" }, name.as_str(), used(number)));
        let bytes = encode_use(1, 2, parts);
        assert!(bytes.len() <= MAX_USE_BYTES, "{}", bytes.len());
        let message = UseMessage::decode(&*bytes).unwrap();
        let mut read = Vec::new();
        for cluster in &message.clusters {
            let cluster = ClusterUseMessage::decode(cluster.clone()).unwrap();
            read.extend(cluster.uses().map(|(schema, used)| (cluster.cluster.clone(), schema.to_owned(), used.held)));
        }
        assert!(read.len() > 10_000, "{}", read.len());
        for ((cluster, schema, held), number) in read.iter().zip(0..) {
            let name = if number < 1_500 { "a" } else { "b" };
            assert_eq!((cluster.as_str(), schema, *held), (name, &names[number as usize], number));
        }
    }

    #[test]
    fn message_that_is_cut_short_has_whole_schemas_only() {
        let message = ClusterUseMessage {
            cluster: "c".into(),
            schemas: vec!["a".into(), "b".into()],
            columns: vec![0, 1, 2, 3, 0, 1],
        };
        assert_eq!(message.uses().count(), 1);
        assert_eq!(next_exchange(&[0xff]), None);
        assert_eq!(next_exchange(&[]), Some(Duration::from_millis(50)), "no number is the shortest time");
    }
}
