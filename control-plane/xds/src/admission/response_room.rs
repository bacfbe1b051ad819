//! The room of a response: of its peer's unread bytes, and of those of its instance.
//!
//! A response that is larger than the own part of its instance needs the common rest, for which it may have to wait until other instances
//! have read. It keeps nothing of its peer's room meanwhile: Envoys that share a certificate are one peer, and their small responses go by
//! that room and by the own part. In place of it the peer has a turn, with one such response at a time: it waits, or is not read yet. The
//! other order, room of the instance before that of the peer, would let a peer that does not read keep the common rest of all while it
//! waits for itself.
//!
//! No two responses wait for each other. A small one takes room of its peer and then of its instance, a large one its turn and then room
//! of its instance, and one that has room of an instance waits for nothing but its reader, for whom there is a time. All of them are
//! waited for in the order of arrival.

use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;

use super::connection::Admission;
use super::quota::Quota;
use super::reading::ResponseRoom;

impl Admission {
    /// Waits until the peer, and its instance, may have so many bytes more unread. They count until the result is dropped, for which
    /// there is a time.
    pub(crate) async fn unread(&self, bytes: usize) -> ResponseRoom {
        let permits = match &self.connection.instance {
            Some(instance) if instance.is_beyond_own(bytes) => self.room_beyond_own(instance, bytes).await,
            _ => self.room_of_both(bytes).await,
        };
        self.unread.add(bytes, permits, self.limits())
    }

    async fn room_of_both(&self, bytes: usize) -> Vec<OwnedSemaphorePermit> {
        let mut permits = Vec::new();
        for quota in self.connection.quotas() {
            permits.extend(quota.unread(bytes).await);
        }
        permits
    }

    /// As long as nothing has to be waited for, several large ones go at once, within the room of their peer.
    async fn room_beyond_own(&self, instance: &Quota, bytes: usize) -> Vec<OwnedSemaphorePermit> {
        if let Some(permits) = self.room_of_both(bytes).now_or_never() {
            return permits;
        }
        let turn = self.connection.quota.turn_beyond().await;
        turn.into_iter().chain(instance.unread(bytes).await).collect()
    }

    /// Whether a response has room, and is not read yet.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread.is_any()
    }

    /// Most bytes of the resources of a response that can be divided: with their names and versions an instance goes on with the part
    /// that no other one uses.
    pub(crate) fn most_of_response(&self) -> usize {
        if self.connection.instance.is_some() { self.limits().unread_kept_per_instance / 2 } else { usize::MAX }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::connection::Peers;
    use super::*;
    use crate::limits::Limits;
    use crate::metrics::OptionalMetrics;
    use crate::peer::Peer;

    /// Peers with 32 KiB each, whose instances have 8 KiB for themselves and a common rest of 40 KiB.
    fn peers() -> Arc<Peers> {
        let limits = Limits {
            instances: 2,
            unread: 32 << 10,
            unread_per_instance: 64 << 10,
            unread_of_instances: 64 << 10,
            unread_kept_per_instance: 8 << 10,
            ..Limits::default()
        };
        Peers::new(limits, OptionalMetrics::default())
    }

    /// Streams of Envoys of an instance that share a certificate.
    fn streams(peers: &Arc<Peers>, instance: &str) -> [Arc<Admission>; 5] {
        let names = ["*.pods".to_owned(), format!("{instance}.instance.portcullis.dev")];
        let connection = peers.connect(Peer::Certificate(names.into())).unwrap();
        [(); 5].map(|()| connection.open_stream().ok().unwrap())
    }

    #[tokio::test]
    async fn small_response_goes_while_large_ones_wait_for_the_rest() {
        let peers = peers();
        let [other, ..] = streams(&peers, "b");
        let rest = other.unread(40 << 10).now_or_never();
        assert!(rest.is_some());
        let [small, large @ ..] = streams(&peers, "a");
        let mut waiting = large.each_ref().map(|stream| Box::pin(stream.unread(10 << 10)));
        for one in &mut waiting {
            assert!(one.as_mut().now_or_never().is_none());
        }
        assert!(small.unread(8 << 10).now_or_never().is_some());
        drop(rest);
        let [first, mut second, third, fourth] = waiting;
        let first = first.await;
        assert!(second.as_mut().now_or_never().is_none(), "it has no room of the peer, so that it goes alone");
        drop(first);
        for one in [second, third, fourth] {
            drop(one.await);
        }
    }

    #[test]
    fn large_responses_go_at_once_while_none_has_to_wait() {
        let peers = peers();
        let streams = streams(&peers, "a");
        let large = streams.each_ref().map(|stream| stream.unread(10 << 10).now_or_never());
        assert_eq!(
            large.iter().filter(|room| room.is_some()).count(),
            4,
            "three in the peer's room, and one beyond it"
        );
        assert!(streams[0].unread(2 << 10).now_or_never().is_some(), "what is left of the peer's room");
    }
}
