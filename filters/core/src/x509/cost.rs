/// How much work a chain was, in numbers that are the same on every machine. Whatever bytes a client sends, the steps are
/// bounded by their number, and the signatures by [`MAX_SIGNATURES`](super::MAX_SIGNATURES).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Elements of DER that were looked at, and names and key identifiers that were compared, each 16 bytes of them a step.
    pub steps: u64,
    /// Signatures that were checked before the path was found, good ones included.
    pub signatures: u32,
}

impl Cost {
    pub(super) fn step(&mut self, count: usize) {
        self.steps = self.steps.saturating_add(count as u64);
    }

    /// Compares two texts of a client's.
    pub(super) fn equal(&mut self, a: &[u8], b: &[u8]) -> bool {
        let compared = if a.len() == b.len() { a.len() / 16 } else { 0 };
        self.step(compared.saturating_add(1));
        a == b
    }
}
