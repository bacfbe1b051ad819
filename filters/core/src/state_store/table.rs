//! Rows of numbers that all workers share and change in one step. They are in a fixed number of values, which exist before the
//! first worker runs: a first write is not compared with anything, and would undo another worker's.

use ring::hmac;

use super::SharedData;

/// Values of each table.
const SHARDS: usize = 64;
/// Times that a change is tried while others change the same value.
pub(super) const MAX_TRIES: usize = 256;
pub(super) const ID_SIZE: usize = 16;
const ROW_SIZE: usize = ID_SIZE + 3 * 8;

/// The subject of a row.
pub(super) type Id = [u8; ID_SIZE];

/// The kinds of rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Table {
    /// Requests in flight.
    InFlight,
    /// Levels of token buckets.
    Levels,
}

/// Numbers about one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: Id,
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) c: u64,
}

/// The id of a subject that these words name. Owners choose the words: under a secret, none can choose words whose rows crowd out those
/// of others from one value.
pub(super) fn row_id(secret: &hmac::Key, words: &[&[u8]]) -> Id {
    let mut text = Vec::new();
    for word in words {
        text.extend_from_slice(&word.len().to_le_bytes());
        text.extend_from_slice(word);
    }
    let mut id = Id::default();
    for (byte, of) in id.iter_mut().zip(hmac::sign(secret, &text).as_ref()) {
        *byte = *of;
    }
    id
}

/// Makes the values that are missing. Called before the first worker runs, and harmless afterwards. False if the proxy refuses.
pub(super) fn prepare(host: &impl SharedData) -> bool {
    let keys = [Table::InFlight, Table::Levels].into_iter().flat_map(|table| (0..SHARDS).map(move |at| key(table, at)));
    keys.into_iter().all(|key| host.shared(&key).is_some() || host.set_shared(&key, &[], 0))
}

/// Changes the rows of the value that holds the id's; `None` of `change` keeps them as they are. True if they were changed.
pub(super) fn update(
    host: &impl SharedData,
    table: Table,
    id: &Id,
    change: impl Fn(&mut Vec<Row>) -> Option<()>,
) -> bool {
    let key = key(table, usize::from(id.first().copied().unwrap_or(0)) % SHARDS);
    for _ in 0..MAX_TRIES {
        let Some((value, cas)) = host.shared(&key) else { return false };
        let mut rows = read(&value);
        if change(&mut rows).is_none() {
            return false;
        }
        if host.set_shared(&key, &write(&rows), cas) {
            return true;
        }
    }
    false
}

/// The rows of the value that holds the id's.
pub(super) fn rows(host: &impl SharedData, table: Table, id: &Id) -> Vec<Row> {
    let key = key(table, usize::from(id.first().copied().unwrap_or(0)) % SHARDS);
    host.shared(&key).map_or_else(Vec::new, |(value, _)| read(&value))
}

fn key(table: Table, shard: usize) -> Vec<u8> {
    let name = match table {
        Table::InFlight => "places",
        Table::Levels => "levels",
    };
    format!("portcullis/{name}/{shard}").into_bytes()
}

fn read(value: &[u8]) -> Vec<Row> {
    let row = |bytes: &[u8]| {
        let (id, rest) = bytes.split_first_chunk::<ID_SIZE>()?;
        let (a, rest) = rest.split_first_chunk()?;
        let (b, rest) = rest.split_first_chunk()?;
        let (c, _) = rest.split_first_chunk()?;
        Some(Row { id: *id, a: u64::from_le_bytes(*a), b: u64::from_le_bytes(*b), c: u64::from_le_bytes(*c) })
    };
    value.chunks_exact(ROW_SIZE).filter_map(row).collect()
}

fn write(rows: &[Row]) -> Vec<u8> {
    let mut value = Vec::with_capacity(rows.len().saturating_mul(ROW_SIZE));
    for Row { id, a, b, c } in rows {
        value.extend_from_slice(id);
        [a, b, c].into_iter().for_each(|number| value.extend_from_slice(&number.to_le_bytes()));
    }
    value
}
