use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::Limits;

/// The number of bytes of one permit.
const UNIT: usize = 1_024;

/// The permits for so many bytes.
pub(super) fn units(bytes: usize) -> usize {
    (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS)
}

/// Takes permits for so many bytes, or all that there are in whole: one response that is larger goes alone.
pub(super) fn permits(bytes: usize, whole: usize) -> u32 {
    u32::try_from(units(bytes).min(units(whole))).unwrap_or(u32::MAX)
}

/// The bytes of responses that no Envoy of any instance has read, beyond what is kept for each of them.
pub(super) struct CommonRest {
    bytes: usize,
    left: Arc<Semaphore>,
}

impl CommonRest {
    /// All but the parts of as many instances as have shares of their own, and of those beyond.
    pub(super) fn of(limits: &Limits) -> Arc<Self> {
        let own = limits.unread_kept_per_instance.saturating_mul(limits.instances.saturating_add(1));
        let bytes = limits.unread_of_instances.saturating_sub(own);
        Arc::new(Self { bytes, left: Arc::new(Semaphore::new(units(bytes))) })
    }
}

/// The room of one instance for unread bytes, out of what all instances have together: its own part, which it always has, and the rest,
/// which may be taken by others. Responses wait for room, and are never refused; an own part is therefore enough to go on.
pub(super) struct InstanceRoom {
    own_bytes: usize,
    own: Arc<Semaphore>,
    rest: Arc<CommonRest>,
}

impl InstanceRoom {
    pub(super) fn new(limits: &Limits, rest: &Arc<CommonRest>) -> Self {
        let own_bytes = limits.unread_kept_per_instance;
        Self { own_bytes, own: Arc::new(Semaphore::new(units(own_bytes))), rest: Arc::clone(rest) }
    }

    /// Waits for room for so many bytes. A response that is larger than the own part has the rest if it is there.
    pub(super) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let of_own = permits(bytes, self.own_bytes);
        let of_rest = permits(bytes, self.rest.bytes);
        let (own, rest) = (|| Arc::clone(&self.own), || Arc::clone(&self.rest.left));
        let at_once = match bytes > self.own_bytes {
            true => rest().try_acquire_many_owned(of_rest),
            false => own().try_acquire_many_owned(of_own),
        };
        if let Ok(room) = at_once {
            return Some(room);
        }
        tokio::select! {
            biased;
            room = own().acquire_many_owned(of_own) => room.ok(),
            room = rest().acquire_many_owned(of_rest) => room.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn limits() -> Limits {
        Limits { instances: 2, unread_of_instances: 100 << 10, unread_kept_per_instance: 20 << 10, ..Limits::default() }
    }

    #[test]
    fn flood_takes_the_rest_and_no_part_of_others() {
        let rest = CommonRest::of(&limits());
        let [loud, quiet] = [(), ()].map(|()| InstanceRoom::new(&limits(), &rest));
        let take = |room: &InstanceRoom, kib: usize| room.take(kib << 10).now_or_never().flatten();
        let mut held: Vec<_> = std::iter::from_fn(|| take(&loud, 10)).collect();
        assert_eq!(held.len(), 6, "20 KiB of its own, and 40 of 100 that are kept for none");
        let own = [take(&quiet, 10), take(&quiet, 10)];
        assert!(own.iter().all(Option::is_some));
        assert!(take(&quiet, 1).is_none(), "no more in sum");
        held.truncate(2);
        assert!(take(&quiet, 40).is_some(), "what is given back is for others");
    }

    #[test]
    fn response_that_is_larger_than_all_room_goes_alone() {
        let rest = CommonRest::of(&limits());
        let [loud, quiet] = [(), ()].map(|()| InstanceRoom::new(&limits(), &rest));
        let take = |room: &InstanceRoom, kib: usize| room.take(kib << 10).now_or_never().flatten();
        let of_rest = take(&loud, 1_000);
        assert!(of_rest.is_some() && take(&loud, 1_000).is_some_and(|room| room.num_permits() == 20));
        let of_own = take(&quiet, 1_000);
        assert!(of_own.is_some() && take(&quiet, 1).is_none());
        drop(of_own);
        assert!(take(&quiet, 1).is_some(), "one after the other");
    }

    #[tokio::test]
    async fn response_that_waits_has_whichever_room_comes_first() {
        for is_own in [true, false] {
            let rest = CommonRest::of(&limits());
            let room = InstanceRoom::new(&limits(), &rest);
            let (own, of_rest) = (room.take(20 << 10).await, room.take(40 << 10).await);
            let (given_back, _held) = if is_own { (own, of_rest) } else { (of_rest, own) };
            let waits = room.take(10 << 10);
            tokio::pin!(waits);
            assert!(waits.as_mut().now_or_never().is_none());
            drop(given_back);
            assert!(waits.await.is_some());
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
