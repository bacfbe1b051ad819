//! The response without an answer.

use std::sync::Arc;

use super::{Change, Update};

/// A response that was sent, without the bytes of its resources: as long as a node does not answer, they would stay in memory although
/// the snapshot has others.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Its number on the stream.
    pub(super) number: u64,
    pub(super) nonce: String,
    pub(super) version: String,
    pub(super) change: Change,
}

impl Change {
    /// The names and versions.
    pub(super) fn without_bodies(&self) -> Self {
        let update = |(name, update): (&Arc<str>, &Update)| {
            let (version, owner) = (Arc::clone(&update.version), update.owner.clone());
            (Arc::clone(name), Update { version, owner, body: Vec::new() })
        };
        Self { updates: self.updates.iter().map(update).collect(), removals: self.removals.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_without_an_answer_keeps_no_bytes() {
        let update = Update { version: "v".into(), owner: Some("o".into()), body: vec!["body".into()] };
        let change = Change { updates: [("a".into(), update)].into(), removals: ["b".into()].into() };
        let kept = change.without_bodies();
        let update = &kept.updates["a"];
        assert_eq!((&*update.version, update.owner.as_deref(), update.body.len()), ("v", Some("o"), 0));
        assert_eq!(kept.removals, change.removals);
    }
}
