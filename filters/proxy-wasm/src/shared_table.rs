//! Numbers that all workers share and change in one step. They are in a fixed number of values, which exist before the first
//! worker runs: a first write is not compared with anything, and would undo another worker's.

use ring::digest::{SHA256, digest};

use crate::hostcalls::Hostcalls;

/// Values of each table.
const SHARDS: usize = 64;
/// How often a change is tried while others change the same value.
const TRIES: usize = 256;
const ID: usize = 16;
const ROW: usize = ID + 3 * 8;

/// The subject of a row.
pub(crate) type Id = [u8; ID];

/// Which numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Table {
    /// Requests in flight.
    Places,
    /// Levels of token buckets.
    Levels,
}

/// Numbers about something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: Id,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) c: u64,
}

/// The id of these words.
pub(crate) fn id_of(words: &[&[u8]]) -> Id {
    let mut text = Vec::new();
    for word in words {
        text.extend_from_slice(&word.len().to_le_bytes());
        text.extend_from_slice(word);
    }
    let mut id = Id::default();
    for (byte, of) in id.iter_mut().zip(digest(&SHA256, &text).as_ref()) {
        *byte = *of;
    }
    id
}

/// Makes the values that are missing. To be called before the first worker runs, and harmless afterwards.
pub(crate) fn prepare(host: &impl Hostcalls) -> bool {
    let keys = [Table::Places, Table::Levels].into_iter().flat_map(|table| (0..SHARDS).map(move |at| key(table, at)));
    keys.into_iter().all(|key| host.shared(&key).is_some() || host.set_shared(&key, &[], 0))
}

/// Changes the rows of the value in which the id stands; `change` says `None` to leave them. Whether they were changed.
pub(crate) fn update(
    host: &impl Hostcalls,
    table: Table,
    id: &Id,
    change: impl Fn(&mut Vec<Row>) -> Option<()>,
) -> bool {
    let key = key(table, usize::from(id.first().copied().unwrap_or(0)) % SHARDS);
    for _ in 0..TRIES {
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

fn key(table: Table, shard: usize) -> Vec<u8> {
    let name = match table {
        Table::Places => "places",
        Table::Levels => "levels",
    };
    format!("portcullis/{name}/{shard}").into_bytes()
}

fn read(value: &[u8]) -> Vec<Row> {
    let row = |bytes: &[u8]| {
        let (id, rest) = bytes.split_first_chunk::<ID>()?;
        let (a, rest) = rest.split_first_chunk()?;
        let (b, rest) = rest.split_first_chunk()?;
        let (c, _) = rest.split_first_chunk()?;
        Some(Row { id: *id, a: u64::from_le_bytes(*a), b: u64::from_le_bytes(*b), c: u64::from_le_bytes(*c) })
    };
    value.chunks_exact(ROW).filter_map(row).collect()
}

fn write(rows: &[Row]) -> Vec<u8> {
    let mut value = Vec::with_capacity(rows.len().saturating_mul(ROW));
    for Row { id, a, b, c } in rows {
        value.extend_from_slice(id);
        [a, b, c].into_iter().for_each(|number| value.extend_from_slice(&number.to_le_bytes()));
    }
    value
}
