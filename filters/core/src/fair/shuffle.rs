//! Shuffle sharding: each flow has a hand of few queues among many, so that hardly any two flows have the same hand.

use portcullis_filter_config::FairQueueConfig;
use ring::hmac;

/// Size of the largest hand.
const MOST: usize = FairQueueConfig::MAX_HAND_SIZE as usize;

/// A flow as a keyed hash of its name: without the key, another flow of the same hand is not to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowHash(u128);

impl FlowHash {
    /// The hash of a flow.
    pub(super) fn of(key: &hmac::Key, flow: &[u8]) -> Self {
        let tag = hmac::sign(key, flow);
        FlowHash(tag.as_ref().first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes)))
    }

    #[cfg(test)]
    pub(super) const fn from_number(number: u128) -> Self {
        FlowHash(number)
    }
}

/// Different queues, by their indices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hand {
    cards: [usize; MOST],
    size: usize,
}

impl Hand {
    /// Deals a hand of at most `size` of that many queues.
    pub(super) fn deal(FlowHash(mut hash): FlowHash, queues: usize, size: usize) -> Self {
        let mut hand = Hand::default();
        // The cards that are drawn already, in ascending order.
        let mut drawn = [usize::MAX; MOST];
        for (number, card) in hand.cards.iter_mut().take(size.min(queues)).enumerate() {
            let left = (queues - number) as u128;
            // Of what is left, which is a number of queues.
            let mut chosen = (hash % left) as usize;
            hash /= left;
            for earlier in drawn.iter().take(number) {
                if *earlier <= chosen {
                    chosen += 1;
                }
            }
            *card = chosen;
            if let Some(last) = drawn.get_mut(number) {
                *last = chosen;
            }
            drawn.sort_unstable();
            hand.size += 1;
        }
        hand
    }

    /// The queues.
    pub(super) fn queues(&self) -> impl Iterator<Item = usize> {
        self.cards.into_iter().take(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &[byte; 32])
    }

    #[test]
    fn hand_has_different_queues_and_all_are_used() {
        let mut used = [0u32; 64];
        for flow in 0u32..4_000 {
            let hand = Hand::deal(FlowHash::of(&key(1), &flow.to_le_bytes()), 64, 6);
            let mut queues: Vec<_> = hand.queues().collect();
            queues.iter().for_each(|queue| used[*queue] += 1);
            queues.sort_unstable();
            queues.dedup();
            assert_eq!(queues.len(), 6);
        }
        // 375 each on average.
        assert!(used.iter().all(|count| (275..475).contains(count)), "{used:?}");
        assert_eq!(Hand::deal(FlowHash::from_number(5), 1, 6).queues().collect::<Vec<_>>(), [0]);
        assert_eq!(Hand::deal(FlowHash::from_number(u128::MAX), 512, 10).queues().count(), 10);
    }

    #[test]
    fn hand_of_a_flow_depends_on_the_key() {
        let hand = |byte| Hand::deal(FlowHash::of(&key(byte), b"alice"), 64, 6).queues().collect::<Vec<_>>();
        assert_eq!(hand(1), hand(1));
        assert_ne!(hand(1), hand(2));
    }
}
