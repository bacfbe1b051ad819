//! Numbers that look random, by a seed (SplitMix64).

/// Mixes the bits of a number.
pub(crate) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// A series of numbers.
pub(crate) struct Lots(pub(crate) u64);

impl Lots {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    /// From 0 up to, but not, 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// Times between events that come at random.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }

    /// The number of events that come at random, of which so many are expected.
    pub(crate) fn poisson(&mut self, expected: f64) -> u32 {
        if expected > 30.0 {
            let normal: f64 = (0..12).map(|_| self.fraction()).sum::<f64>() - 6.0;
            return (expected + normal * expected.sqrt()).max(0.0).round() as u32;
        }
        let (limit, mut product, mut count) = ((-expected).exp(), self.fraction(), 0);
        while product > limit {
            product *= self.fraction();
            count += 1;
        }
        count
    }
}
