//! The node's answers to responses.

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use super::{Change, Refusal, Subscription, UNSURE};

impl Subscription {
    pub(super) fn take_acknowledgement(&mut self, request: &DeltaDiscoveryRequest) {
        let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.nonce == request.response_nonce) else {
            return;
        };
        for name in in_flight.change.updates.keys().chain(&in_flight.change.removals) {
            self.touched.add(Arc::clone(name));
            self.due.insert(Arc::clone(name));
        }
        match &request.error_detail {
            Some(error) => {
                self.status.nack = Some(error.message.clone());
                self.quarantine(in_flight.change, &error.message);
            }
            None => {
                self.status.acked = in_flight.version;
                self.accept(in_flight.change);
            }
        }
    }

    fn accept(&mut self, change: Change) {
        change.removals.iter().for_each(|name| self.removed(name));
        for (name, update) in change.updates {
            self.refused.remove(&name);
            self.perhaps.remove(&name);
            self.composed.on_ack(&name);
            if self.is_wanted(&name) {
                self.known.insert(name, update.version);
            }
        }
    }

    /// Takes a refusal. Envoy refuses a whole response, and for some types stops at the first bad resource. Halves are
    /// therefore tried, and only a resource that is refused alone counts as refused.
    fn quarantine(&mut self, change: Change, message: &str) {
        change.removals.iter().for_each(|name| self.removed(name));
        if change.updates.len() <= 1 {
            for (name, update) in change.updates {
                if self.perhaps.remove(&name).is_some_and(|version| version == update.version) {
                    // Alone it was refused, too: the node did not take it, and has nothing of it.
                    self.known.remove(&name);
                }
                if self.composed.holds(&name) {
                    self.composed.on_nack(&name, message);
                } else {
                    let refusal = Refusal { version: update.version, message: message.to_owned() };
                    self.refused.insert(name, refusal);
                }
            }
            return;
        }
        for (name, update) in &change.updates {
            // Perhaps it was taken, perhaps not.
            if self.is_lacking(name) {
                self.perhaps.insert(name.clone(), update.version.clone());
            } else if self.perhaps.get(name).is_some_and(|version| *version != update.version) {
                self.perhaps.remove(name);
            }
            self.known.insert(name.clone(), UNSURE.into());
        }
        let half = change.updates.len() / 2;
        let mut names = change.updates.into_keys();
        let first: BTreeSet<_> = names.by_ref().take(half).collect();
        self.candidates.push(names.collect());
        self.candidates.push(first);
    }

    /// Takes the acknowledgement of a removal.
    fn removed(&mut self, name: &str) {
        self.known.remove(name);
        self.perhaps.remove(name);
        self.let_go.extend(self.owners.remove(name));
        self.composed.remove(name);
        if self.names.remove(name) && !self.retired.insert(name) {
            self.touched.add_all();
        }
    }
}
