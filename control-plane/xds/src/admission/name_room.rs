//! The room for names and versions that a stream has brought and no resource has: a peer makes them for free, and they stay in memory
//! with the stream.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::common_room::units;
use super::quota::Quota;

/// The room that one stream has taken, until it ends.
#[derive(Default)]
pub(super) struct NameRoom {
    units: usize,
    taken: Vec<OwnedSemaphorePermit>,
}

impl NameRoom {
    /// Takes room up to so many bytes in all of each quota. Returns whether there is enough.
    pub(super) fn grow<'q>(&mut self, bytes: usize, quotas: impl Iterator<Item = &'q Quota>) -> bool {
        let wanted = if bytes == 0 { 0 } else { units(bytes).saturating_add(1) };
        let more = wanted.saturating_sub(self.units);
        if more == 0 {
            return true;
        }
        let Ok(permits) = u32::try_from(more) else { return false };
        let room = quotas.map(|quota| Arc::clone(&quota.names).try_acquire_many_owned(permits));
        let Ok(room) = room.collect::<Result<Vec<_>, _>>() else { return false };
        // One permit for each quota, whatever the number of requests.
        for (number, more) in room.into_iter().enumerate() {
            match self.taken.get_mut(number) {
                Some(taken) => taken.merge(more),
                None => self.taken.push(more),
            }
        }
        self.units = wanted;
        true
    }
}
