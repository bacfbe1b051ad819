/// Reproducible choices: the same seed makes the same requests.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Choices of a seed.
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The seed of `PORTCULLIS_ORACLE_SEED` or a fixed one, and the number of cases of `PORTCULLIS_ORACLE_CASES` or
    /// `cases`.
    pub fn from_environment(cases: usize) -> (Self, usize) {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = number("PORTCULLIS_ORACLE_SEED").unwrap_or(20_261_121);
        let cases = number("PORTCULLIS_ORACLE_CASES").and_then(|cases| usize::try_from(cases).ok()).unwrap_or(cases);
        (Dice::new(seed), cases)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let wide = u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d));
        usize::try_from((wide * bound as u128) >> 64).unwrap_or(0)
    }

    /// Whether one of so many chances came true.
    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        #[allow(clippy::indexing_slicing, reason = "below the length")]
        list[self.below(list.len())]
    }
}
