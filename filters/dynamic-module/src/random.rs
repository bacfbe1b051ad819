use std::cell::Cell;

use ring::rand::{SecureRandom, SystemRandom};

thread_local! {
    /// The state of this thread's numbers; 0 before the first.
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// A random number of this thread that may be guessed (SplitMix64): to draw lots, and not for secrets. The largest one where the
/// system has no randomness to begin with.
pub(crate) fn random_number() -> u64 {
    let state = match STATE.get() {
        0 => match system_random() {
            Some(seed) => seed,
            None => return u64::MAX,
        },
        state => state,
    };
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A random number of the system's. `None` if it has none to give.
#[cold]
pub(crate) fn system_random() -> Option<u64> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_part_are_drawn_on_each_thread() {
        let drawn = || -> Vec<u64> { (0..4_000).map(|_| random_number()).collect() };
        let (here, there) = (drawn(), std::thread::spawn(drawn).join().unwrap());
        assert_ne!(here, there, "workers do not draw the same");
        for numbers in [here, there] {
            let mut parts = [0; 16];
            numbers.iter().for_each(|number| parts[usize::try_from(number >> 60).unwrap()] += 1);
            assert!(parts.iter().all(|count| (150..350).contains(count)), "{parts:?}");
        }
    }
}
