//! The stream of each node on which answers are sent: the newest one. A node may open many, and the answers of each are looked for in all
//! streams of the node and for all objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// The streams of each node.
#[derive(Debug, Default)]
pub(super) struct AnswerTurns(Mutex<OpenTurns>);

#[derive(Debug, Default)]
struct OpenTurns {
    last: u64,
    /// The numbers of a node's streams, in the order in which they began.
    of_node: BTreeMap<String, BTreeSet<u64>>,
}

/// A stream of a node, until it is dropped.
#[derive(Debug)]
pub(super) struct AnswerTurn {
    turns: Arc<AnswerTurns>,
    node: String,
    number: u64,
}

impl AnswerTurns {
    /// Begins the answers of a stream, in place of an older one of the same node.
    pub(super) fn begin(self: &Arc<Self>, node: &str) -> AnswerTurn {
        let mut turns = lock(&self.0);
        turns.last += 1;
        let number = turns.last;
        turns.of_node.entry(node.to_owned()).or_default().insert(number);
        AnswerTurn { turns: Arc::clone(self), node: node.to_owned(), number }
    }
}

impl AnswerTurn {
    /// Whether no newer stream of the node is open.
    pub(super) fn is_newest(&self) -> bool {
        lock(&self.turns.0).of_node.get(&self.node).is_some_and(|open| open.last() == Some(&self.number))
    }
}

impl Drop for AnswerTurn {
    fn drop(&mut self) {
        let mut turns = lock(&self.turns.0);
        let Some(open) = turns.of_node.get_mut(&self.node) else { return };
        open.remove(&self.number);
        if open.is_empty() {
            turns.of_node.remove(&self.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_stream_of_each_node_answers() {
        let turns: Arc<AnswerTurns> = Arc::default();
        let [first, second, third, other] = ["a", "a", "a", "b"].map(|node| turns.begin(node));
        assert_eq!([&first, &second, &third, &other].map(AnswerTurn::is_newest), [false, false, true, true]);
        drop(third);
        assert_eq!([&first, &second].map(AnswerTurn::is_newest), [false, true], "one that is still open goes on");
        drop(first);
        assert!(second.is_newest());
        drop((second, other));
        assert!(lock(&turns.0).of_node.is_empty());
    }
}
