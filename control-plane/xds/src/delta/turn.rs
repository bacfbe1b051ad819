//! The responses to an event, one after the other. Each is made when there is room for it: one that waits keeps neither bytes nor a
//! snapshot, and is made of the newest one then.

use std::cell::OnceCell;

use super::gates::{Blocked, SendGates};
use super::subscription::{Change, NextChange, Subscription};
use super::{DeltaStream, PendingResponse, SubscriptionKey};
use crate::kind::ResourceKind;

/// The next response, as far as there is room.
#[derive(Debug)]
pub(crate) enum NextResponse<R> {
    /// One that is to be sent now, and its room.
    Made(PendingResponse, R),
    /// One of so many bytes has no room. The stream is as if it had not been asked.
    Waits(usize),
    /// There is none until something happens.
    None,
}

impl DeltaStream {
    /// Makes the next response, if there is room for its bytes.
    pub(crate) fn respond<R>(&mut self, take_room: impl FnOnce(usize) -> Option<R>) -> NextResponse<R> {
        let mut turn = self.turn.take().unwrap_or_else(|| self.begin_turn());
        // Until a response is made.
        let referred = OnceCell::new();
        let found = loop {
            let Some(key) = turn.pop() else { break None };
            if let Some(next) = self.next_change(&key, &referred) {
                break Some((key, next));
            }
        };
        let response = match found {
            None => NextResponse::None,
            Some((key, next)) => {
                let size = next.change.size();
                match take_room(size) {
                    Some(room) => NextResponse::Made(self.make(key, next), room),
                    None => {
                        turn.push(key);
                        NextResponse::Waits(size)
                    }
                }
            }
        };
        self.turn = Some(turn);
        response
    }

    /// The types that may have a response, the first one last.
    fn begin_turn(&mut self) -> Vec<SubscriptionKey> {
        self.begin_event();
        for ((_, type_url), subscription) in &mut self.subscriptions {
            subscription.refresh(&self.snapshot, type_url);
        }
        self.note_changes();
        self.subscriptions.keys().rev().cloned().collect()
    }

    fn next_change(&mut self, key: &SubscriptionKey, referred: &OnceCell<Blocked>) -> Option<NextChange> {
        let has_to_send = self.subscriptions.get(key).is_some_and(Subscription::has_to_send);
        let gates = if has_to_send { self.gates(key.0, referred) } else { SendGates::CLOSED };
        let most = if key.0 == ResourceKind::Cluster { usize::MAX } else { self.most };
        self.subscriptions.get_mut(key)?.next_change(&self.snapshot, &key.1, gates, most)
    }

    fn make(&mut self, key: SubscriptionKey, next: NextChange) -> PendingResponse {
        self.begin_event();
        self.mark_companions_dirty(&key.1, &next.change);
        let (number, nonce) = self.nonces.next();
        let version = self.snapshot.type_version(&key.1).to_owned();
        if let Some(subscription) = self.subscriptions.get_mut(&key) {
            subscription.sent((number, &nonce), &next, &version);
        }
        self.note_changes();
        PendingResponse { type_url: key.1, version, nonce, change: next.change }
    }

    /// Marks what has to be sent again with a change. Companions come later in the order of types, so that they follow in
    /// the same turn.
    fn mark_companions_dirty(&mut self, type_url: &str, change: &Change) {
        for name in change.updates.keys() {
            let Some(resource) = self.snapshot.get(type_url, name) else { continue };
            let Some((type_url, name)) = resource.companion() else { continue };
            let key = (ResourceKind::of(type_url), type_url.to_owned());
            self.subscriptions.entry(key).or_default().mark_dirty(name);
        }
    }
}
