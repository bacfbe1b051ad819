//! The next turn of a proxy's main thread, for what has no configuration at hand that could be woken there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::schedule::Wake;

/// Wakers of configurations on the main thread, of which one at a time is asked for the next turn.
#[derive(Debug)]
pub struct NextTurn<W: Wake>(Mutex<Wakers<W>>);

#[derive(Debug)]
struct Wakers<W> {
    next: u64,
    /// By number: the newest configuration is the last.
    wakers: BTreeMap<u64, W>,
    /// The one that was asked, and whose turn has not come.
    asked: Option<u64>,
}

/// A configuration's place among those that are asked, given back when it is dropped.
#[derive(Debug)]
pub struct TurnPlace<W: Wake> {
    turn: Arc<NextTurn<W>>,
    number: u64,
}

impl<W: Wake> Default for NextTurn<W> {
    fn default() -> Self {
        NextTurn(Mutex::new(Wakers { next: 0, wakers: BTreeMap::new(), asked: None }))
    }
}

impl<W: Wake> NextTurn<W> {
    /// Adds the waker of a configuration.
    pub fn join(self: &Arc<Self>, waker: W) -> TurnPlace<W> {
        let mut wakers = self.lock();
        let number = wakers.next;
        wakers.next = number.wrapping_add(1);
        wakers.wakers.insert(number, waker);
        TurnPlace { turn: Arc::clone(self), number }
    }

    /// Asks for the next turn, unless a configuration was asked for it that is there still. False if there is none to ask.
    pub fn ask(&self) -> bool {
        let mut wakers = self.lock();
        if wakers.asked.is_none() {
            let newest = wakers.wakers.last_key_value();
            wakers.asked = newest.map(|(number, waker)| {
                waker.wake();
                *number
            });
        }
        wakers.asked.is_some()
    }

    /// Notes that a turn has begun. Whether it was asked for.
    pub fn begin(&self) -> bool {
        self.lock().asked.take().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Wakers<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Wake> Drop for TurnPlace<W> {
    fn drop(&mut self) {
        let mut wakers = self.turn.lock();
        let waker = wakers.wakers.remove(&self.number);
        // Nothing wakes a configuration that is gone. Nor is another one woken here: the proxy itself may be about to end.
        wakers.asked.take_if(|asked| *asked == self.number);
        drop(wakers);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Debug)]
    struct Woken(Arc<AtomicU32>);

    impl Wake for Woken {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn turn_is_asked_for_once_of_a_configuration_that_is_there() {
        let turn = Arc::new(NextTurn::default());
        let counts = [(); 3].map(|()| Arc::new(AtomicU32::new(0)));
        let woken = || counts.each_ref().map(|count| count.load(Ordering::SeqCst));
        assert_eq!((turn.ask(), turn.begin()), (false, false), "nobody is there");
        let [first, second, third] = counts.each_ref().map(|count| turn.join(Woken(Arc::clone(count))));
        assert_eq!((turn.ask(), turn.ask(), woken()), (true, true, [0, 0, 1]));
        assert_eq!((turn.begin(), turn.begin()), (true, false));
        assert_eq!((turn.ask(), woken()), (true, [0, 0, 2]));
        drop(first);
        assert_eq!(woken(), [0, 0, 2]);
        drop(third);
        assert_eq!(woken(), [0, 0, 2]);
        assert_eq!((turn.ask(), woken()), (true, [0, 1, 2]), "in the place of one that is gone");
        drop(second);
        assert_eq!((turn.begin(), turn.ask(), woken()), (false, false, [0, 1, 2]));
    }
}
