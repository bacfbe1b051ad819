//! Phases, which differ in the load of instance `a` alone.

use clap::ValueEnum;

/// The load of instance `a` while `b` is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// None.
    Quiet,
    /// Requests with unknown tokens at its Envoys.
    Flood,
    /// Edits of its clusters.
    Storm,
    /// Limits of all gateways, which its agents report each second.
    Limits,
}

impl Phase {
    pub(super) const ALL: [Phase; 4] = [Phase::Quiet, Phase::Flood, Phase::Storm, Phase::Limits];

    /// Its name in tables and pictures.
    pub(super) fn title(self) -> &'static str {
        match self {
            Phase::Quiet => "quiet",
            Phase::Flood => "flood of unknown tokens",
            Phase::Storm => "storm of edits",
            Phase::Limits => "limits of all gateways",
        }
    }

    /// The phases of a round, each time beginning with another one. All are compared with the quiet one, which is always among
    /// them.
    pub(super) fn of_round(wanted: &[Phase], round: u32) -> Vec<Phase> {
        let is_wanted = |phase: &Phase| *phase == Phase::Quiet || wanted.is_empty() || wanted.contains(phase);
        let mut phases: Vec<Phase> = Self::ALL.into_iter().filter(is_wanted).collect();
        let first = round as usize % phases.len().max(1);
        phases.rotate_left(first);
        phases
    }
}

#[cfg(test)]
mod tests {
    use super::Phase;

    #[test]
    fn rounds_begin_with_each_phase_in_turn() {
        let firsts: Vec<Phase> = (0..5).map(|round| Phase::of_round(&[], round)[0]).collect();
        assert_eq!(firsts, [Phase::Quiet, Phase::Flood, Phase::Storm, Phase::Limits, Phase::Quiet]);
        assert_eq!(Phase::of_round(&[Phase::Storm], 1), [Phase::Storm, Phase::Quiet]);
    }
}
