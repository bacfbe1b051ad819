use std::collections::HashMap;
use std::sync::{Arc, Weak};

use portcullis_api::KeySource;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Questions of a kind that are put at a time. Neither kind keeps turns from the other.
const AT_A_TIME: usize = 8;
/// Those among them to sources that had no answer the last time: they may keep their turns to the deadline.
const AGAIN: usize = 4;
/// Those among them of one object to its issuers that answered the last time, or were never asked.
const OF_AN_OBJECT: usize = 2;
/// Those of one object to its issuers that had no answer: they have a turn of their own, so that none of the others waits for them.
const OF_AN_OBJECT_AGAIN: usize = 1;

/// Turns of questions for keys: no source that is dead, and no object with many of them, keeps others from being asked.
pub(super) struct Turns {
    servers: TurnsOfKind,
    issuers: TurnsOfKind,
    /// By object, and whether the source had no answer the last time.
    of_objects: HashMap<(String, bool), Weak<Semaphore>>,
}

/// Turns of questions to servers, or to issuers.
struct TurnsOfKind {
    all: Arc<Semaphore>,
    again: Arc<Semaphore>,
}

impl TurnsOfKind {
    fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_A_TIME)), again: Arc::new(Semaphore::new(AGAIN)) }
    }
}

impl Turns {
    pub(super) fn new() -> Self {
        Self { servers: TurnsOfKind::new(), issuers: TurnsOfKind::new(), of_objects: HashMap::new() }
    }

    /// The place of a question among those that wait, after so many without an answer.
    pub(super) fn queue(&mut self, cluster: &str, source: &KeySource, failures: usize) -> TurnQueue {
        let mut passed = Vec::new();
        let kind = match source {
            KeySource::Servers => &self.servers,
            KeySource::Issuer(_) => {
                let key = (cluster.to_owned(), failures > 0);
                let known = self.of_objects.get(&key).and_then(Weak::upgrade);
                let count = if failures > 0 { OF_AN_OBJECT_AGAIN } else { OF_AN_OBJECT };
                let of_object = known.unwrap_or_else(|| Arc::new(Semaphore::new(count)));
                self.of_objects.insert(key, Arc::downgrade(&of_object));
                passed.push(of_object);
                &self.issuers
            }
        };
        if failures > 0 {
            passed.push(Arc::clone(&kind.again));
        }
        // Last: a question that waits for another of them keeps none of these.
        passed.push(Arc::clone(&kind.all));
        TurnQueue(passed)
    }

    /// Forgets objects of which no question waits or is under way.
    pub(super) fn forget_idle(&mut self) {
        self.of_objects.retain(|_, turns| turns.strong_count() > 0);
    }
}

/// A place among the questions that wait.
pub(super) struct TurnQueue(Vec<Arc<Semaphore>>);

impl TurnQueue {
    /// Waits for the turn. It ends when it is dropped.
    pub(super) async fn turn(self) -> KeyTurn {
        let mut permits = Vec::with_capacity(self.0.len());
        for turns in self.0 {
            // It is never closed.
            permits.extend(turns.acquire_owned().await);
        }
        KeyTurn { _permits: permits }
    }
}

/// A question's turn.
pub(super) struct KeyTurn {
    _permits: Vec<OwnedSemaphorePermit>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The turn, if there is one now.
    async fn now(queue: TurnQueue) -> Option<KeyTurn> {
        tokio::select! {
            biased;
            turn = queue.turn() => Some(turn),
            () = std::future::ready(()) => None,
        }
    }

    fn issuer(number: usize) -> KeySource {
        KeySource::Issuer(format!("https://{number}.test"))
    }

    #[tokio::test]
    async fn sources_that_failed_leave_turns_to_the_others() {
        let mut turns = Turns::new();
        let mut held = Vec::new();
        for number in 0..AT_A_TIME {
            held.extend(now(turns.queue(&number.to_string(), &issuer(0), 1)).await);
        }
        assert_eq!(held.len(), AGAIN, "the same dead issuer of many objects");
        for number in 0..AT_A_TIME {
            held.extend(now(turns.queue(&format!("other {number}"), &issuer(1), 0)).await);
        }
        assert_eq!(held.len(), AT_A_TIME);
        assert!(now(turns.queue("servers", &KeySource::Servers, 0)).await.is_some(), "the other kind");
        held.clear();
        assert!(now(turns.queue("one", &issuer(0), 1)).await.is_some());
    }

    async fn is_ready(one: &mut (impl Future + Unpin)) -> bool {
        tokio::select! {
            biased;
            _ = one => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn dead_issuers_of_an_object_keep_no_turn_of_its_others() {
        let mut turns = Turns::new();
        let mut held = Vec::new();
        for number in 0..AGAIN {
            held.extend(now(turns.queue(&number.to_string(), &issuer(0), 1)).await);
        }
        let dead = |turns: &mut Turns, number| Box::pin(turns.queue("one", &issuer(number), 1).turn());
        let mut waiting: Vec<_> = (0..2).map(|number| dead(&mut turns, number)).collect();
        for one in &mut waiting {
            assert!(!is_ready(one).await);
        }
        assert!(now(turns.queue("one", &issuer(9), 0)).await.is_some());
        held.clear();
        assert!(is_ready(&mut waiting[0]).await);
    }

    #[tokio::test]
    async fn object_with_many_issuers_has_two_turns() {
        let mut turns = Turns::new();
        let mut held = Vec::new();
        for number in 0..AT_A_TIME {
            held.extend(now(turns.queue("one", &issuer(number), 0)).await);
        }
        assert_eq!(held.len(), OF_AN_OBJECT);
        turns.forget_idle();
        assert!(now(turns.queue("one", &issuer(9), 0)).await.is_none(), "its turns are not forgotten");
        assert!(now(turns.queue("two", &issuer(0), 0)).await.is_some());
        assert!(now(turns.queue("one", &KeySource::Servers, 0)).await.is_some());
        held.clear();
        turns.forget_idle();
        assert!(turns.of_objects.is_empty());
    }
}
