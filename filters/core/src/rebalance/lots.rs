/// Random numbers that may be guessed (SplitMix64): to draw lots, and not for secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lots {
    /// 0 before the first number.
    state: u64,
}

impl Lots {
    /// Lots without a seed.
    pub const fn new() -> Self {
        Lots { state: 0 }
    }

    /// The next number. Asks for a seed before the first; the largest number where there is none.
    pub fn draw(&mut self, seed: impl FnOnce() -> Option<u64>) -> u64 {
        let state = match self.state {
            0 => match seed() {
                Some(seed) => seed,
                None => return u64::MAX,
            },
            state => state,
        };
        self.state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_part_are_drawn() {
        let (mut here, mut there) = (Lots::new(), Lots::new());
        let mut parts = [0; 16];
        for _ in 0..4_000 {
            let number = here.draw(|| Some(1));
            assert_ne!(number, there.draw(|| Some(2)), "another seed draws others");
            parts[usize::try_from(number >> 60).unwrap()] += 1;
        }
        assert!(parts.iter().all(|count| (150..350).contains(count)), "{parts:?}");
    }

    #[test]
    fn lots_without_a_seed_hit_nothing() {
        let mut lots = Lots::new();
        assert_eq!((lots.draw(|| None), lots.draw(|| None)), (u64::MAX, u64::MAX));
        assert_ne!(lots.draw(|| Some(7)), u64::MAX, "until there is one");
    }
}
