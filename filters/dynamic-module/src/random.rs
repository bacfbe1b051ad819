use std::cell::Cell;

use portcullis_core::rebalance::Lots;
use ring::rand::{SecureRandom, SystemRandom};

thread_local! {
    static LOTS: Cell<Lots> = const { Cell::new(Lots::new()) };
}

/// A random number of this thread that may be guessed: to draw lots, and not for secrets.
pub(crate) fn random_number() -> u64 {
    let mut lots = LOTS.get();
    let number = lots.draw(system_random);
    LOTS.set(lots);
    number
}

/// A random number of the system's. `None` if it has none to give.
#[cold]
pub(crate) fn system_random() -> Option<u64> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(u64::from_ne_bytes(bytes))
}
