//! The room for names and versions that a stream has brought and no resource has: a peer makes them for free, and they stay in memory
//! with the stream. A part of them needs no room, at as many streams of a peer as its nodes may need.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::common_room::units;
use super::quota::Quota;

/// The room that one stream has taken, until it ends.
#[derive(Default)]
pub(super) struct NameRoom {
    /// That the stream is one of those with a free part.
    free: Option<OwnedSemaphorePermit>,
    units: usize,
    taken: Vec<OwnedSemaphorePermit>,
}

impl NameRoom {
    /// Whether a part of its names is free, once it has any: it is the stream's until it ends.
    pub(super) fn has_free_part(&mut self, peer: &Quota) -> bool {
        if self.free.is_none() {
            self.free = Arc::clone(&peer.free_names).try_acquire_owned().ok();
        }
        self.free.is_some()
    }

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
