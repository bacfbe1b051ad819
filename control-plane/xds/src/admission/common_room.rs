//! Room for the bytes of responses that Envoys have not read: that of a peer, and that of an instance within what all instances have.
//!
//! A response waits for its room and is never refused. Room is given back in a bounded time ([`super::reading`]), and waiters come in
//! the order of their arrival: each response has its turn, the largest one included.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::Limits;

/// The number of bytes of one permit.
const UNIT: usize = 1_024;

/// The permits for so many bytes.
pub(super) fn units(bytes: usize) -> usize {
    (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS)
}

/// Room for so many bytes, or for one larger response that goes alone.
pub(super) struct ByteRoom {
    units: usize,
    left: Arc<Semaphore>,
}

impl ByteRoom {
    pub(super) fn new(bytes: usize) -> Self {
        let units = units(bytes);
        Self { units, left: Arc::new(Semaphore::new(units)) }
    }

    /// Waits for room for so many bytes, behind those who came before.
    pub(super) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let permits = u32::try_from(units(bytes).min(self.units)).unwrap_or(u32::MAX);
        // It is never closed.
        Arc::clone(&self.left).acquire_many_owned(permits).await.ok()
    }
}

/// The unread bytes of all instances beyond what is kept for each of them.
pub(super) struct CommonRest(ByteRoom);

impl CommonRest {
    /// All but the parts of as many instances as have shares of their own, and of those beyond.
    pub(super) fn of(limits: &Limits) -> Arc<Self> {
        let own = limits.unread_kept_per_instance.saturating_mul(limits.instances.saturating_add(1));
        Arc::new(Self(ByteRoom::new(limits.unread_of_instances.saturating_sub(own))))
    }
}

/// The room of one instance: its own part, which no other one uses, and what it may take of the common rest. A response that is larger
/// than the own part counts in full, and waits for its turn at the rest; smaller ones go by the own part meanwhile.
pub(super) struct InstanceRoom {
    own_bytes: usize,
    own: ByteRoom,
    /// Of the rest, what this instance may have at most: an instance has one such sum in front of another one's response, not more.
    beyond: ByteRoom,
    rest: Arc<CommonRest>,
}

impl InstanceRoom {
    pub(super) fn new(limits: &Limits, rest: &Arc<CommonRest>) -> Self {
        let own_bytes = limits.unread_kept_per_instance.min(limits.unread_per_instance);
        let beyond = ByteRoom::new(limits.unread_per_instance.saturating_sub(own_bytes));
        Self { own_bytes, own: ByteRoom::new(own_bytes), beyond, rest: Arc::clone(rest) }
    }

    /// Whether a response is larger than the own part, and needs the common rest.
    pub(super) fn is_beyond_own(&self, bytes: usize) -> bool {
        bytes > self.own_bytes
    }

    /// Waits for room for so many bytes, in whichever part comes first.
    pub(super) async fn take(&self, bytes: usize) -> Vec<OwnedSemaphorePermit> {
        if self.is_beyond_own(bytes) {
            return self.take_of_rest(bytes).await;
        }
        tokio::select! {
            biased;
            own = self.own.take(bytes) => own.into_iter().collect(),
            of_rest = self.take_of_rest(bytes) => of_rest,
        }
    }

    async fn take_of_rest(&self, bytes: usize) -> Vec<OwnedSemaphorePermit> {
        let beyond = self.beyond.take(bytes).await;
        beyond.into_iter().chain(self.rest.0.take(bytes).await).collect()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn limits() -> Limits {
        Limits {
            instances: 2,
            unread_of_instances: 100 << 10,
            unread_kept_per_instance: 20 << 10,
            unread_per_instance: 50 << 10,
            ..Limits::default()
        }
    }

    /// Instances with a common rest of 40 KiB.
    fn instances<const N: usize>() -> [InstanceRoom; N] {
        let rest = CommonRest::of(&limits());
        [(); N].map(|()| InstanceRoom::new(&limits(), &rest))
    }

    fn take(room: &InstanceRoom, kib: usize) -> Option<Vec<OwnedSemaphorePermit>> {
        room.take(kib << 10).now_or_never()
    }

    #[test]
    fn flood_takes_its_part_of_the_rest_and_none_of_others() {
        let [loud, second, quiet] = instances();
        let mut held: Vec<_> = std::iter::from_fn(|| take(&loud, 10)).collect();
        assert_eq!(held.len(), 5, "20 KiB of its own, and 30 of the rest");
        let of_second: Vec<_> = std::iter::from_fn(|| take(&second, 10)).collect();
        assert_eq!(of_second.len(), 3, "20 KiB of its own, and 10 that are left");
        let own = [take(&quiet, 10), take(&quiet, 10)];
        assert!(own.iter().all(Option::is_some));
        assert!(take(&quiet, 1).is_none(), "no more in sum");
        held.truncate(2);
        assert!(take(&quiet, 30).is_some(), "what is given back is for others");
    }

    /// Counted as its own part alone, a response of any size would be kept beyond the sum for each instance.
    #[test]
    fn response_that_is_larger_than_the_own_part_counts_in_full() {
        let [loud, quiet] = instances();
        let held = take(&loud, 30);
        assert!(held.is_some());
        assert!(take(&quiet, 21).is_none(), "10 KiB are left of the rest");
        assert!(take(&quiet, 20).is_some(), "its own part is free");
        drop(held);
        assert!(take(&quiet, 21).is_some());
    }

    #[tokio::test]
    async fn largest_response_has_its_turn_and_goes_alone() {
        let [first, second, large] = instances();
        let held = take(&first, 30);
        assert!(held.is_some());
        let mut of_large = Box::pin(large.take(1_000 << 10));
        assert!(of_large.as_mut().now_or_never().is_none());
        let mut late = Box::pin(second.take(21 << 10));
        assert!(late.as_mut().now_or_never().is_none());
        assert!(take(&large, 20).is_some(), "what is small does not wait for it");
        drop(held);
        assert!(late.as_mut().now_or_never().is_none(), "who comes later waits");
        let alone = of_large.await;
        assert!(late.as_mut().now_or_never().is_none(), "it has all of the rest");
        drop(alone);
        assert_eq!(late.await.len(), 2);
    }

    #[tokio::test]
    async fn response_that_waits_has_whichever_room_comes_first() {
        for is_own in [true, false] {
            let [room] = instances();
            let (own, of_rest) = (room.take(20 << 10).await, room.take(30 << 10).await);
            let (given_back, _held) = if is_own { (own, of_rest) } else { (of_rest, own) };
            let waits = room.take(10 << 10);
            tokio::pin!(waits);
            assert!(waits.as_mut().now_or_never().is_none());
            drop(given_back);
            assert!(!waits.await.is_empty());
        }
    }

    #[test]
    fn parts_without_a_rest_are_kept() {
        let limits = Limits { unread_of_instances: 0, ..limits() };
        let rest = CommonRest::of(&limits);
        let room = InstanceRoom::new(&limits, &rest);
        assert!(room.take(20 << 10).now_or_never().is_some());
    }
}
