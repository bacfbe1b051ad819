//! Figures of `b` by phase, and in proportion to the quiet phase of the same round.

use std::fmt::Write;
use std::time::Duration;

use portcullis_harness::client::Outcome;
use portcullis_plot::{Bar, Bars, Color};

use super::disturbance::Effort;
use super::phase::Phase;
use super::site::CpuTimes;
use crate::spread::{Spread, quantile};

/// A phase of a round.
pub(super) struct Trial {
    pub(super) round: u32,
    pub(super) phase: Phase,
    pub(super) reads: Outcome,
    /// How long edits took until they were acknowledged.
    pub(super) edits: Vec<Duration>,
    /// CPU time in that phase, and its length.
    pub(super) cpu: CpuTimes,
    pub(super) took: Duration,
    pub(super) effort: Effort,
}

/// All phases of all rounds.
#[derive(Default)]
pub(super) struct Trials {
    trials: Vec<Trial>,
    /// Whether limits are no load, because the control plane takes no reports of the agents.
    pub(super) are_limits_refused: bool,
}

const HEADING: &str = "| load of `a` | reads at `b`: p50, p99 | p50, of quiet | p99, of quiet | edits of `b` acknowledged: p50, p99 | p50, of quiet | p99, of quiet | reads not answered with 200 | CPU: control plane | Envoys of `a` | Envoys of `b` | machine |
|---|---|---|---|---|---|---|---|---|---|---|---|
";

impl Trials {
    pub(super) fn add(&mut self, trial: Trial) {
        let (round, phase, took) = (trial.round + 1, trial.phase.title(), trial.took.as_secs_f64());
        let [reads, edits] = [trial.reads.quantile(0.99), trial.edit(0.99)].map(millis);
        println!(
            "round {round}, {phase}\treads p99 {reads:.1} ms\t{} edits, p99 {edits:.0} ms\tcontrol plane {:.0} %\tmachine {:.0} %",
            trial.edits.len(),
            trial.cpu.plane.as_secs_f64() / took * 100.0,
            trial.cpu.machine.as_secs_f64() / took * 100.0,
        );
        self.trials.push(trial);
    }

    fn of(&self, phase: Phase) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(move |trial| trial.phase == phase)
    }

    /// The quartiles of a figure over that of the quiet phase of the same round.
    fn ratios(&self, phase: Phase, figure: impl Fn(&Trial) -> f64) -> Spread {
        let ratio = |trial: &Trial| {
            let quiet = self.of(Phase::Quiet).find(|quiet| quiet.round == trial.round)?;
            Some(figure(trial) / figure(quiet)).filter(|ratio| ratio.is_finite())
        };
        Spread::of(self.of(phase).filter_map(ratio))
    }

    /// A row for each phase.
    pub(super) fn table(&self) -> String {
        let rows = Phase::ALL.into_iter().filter(|phase| self.of(*phase).next().is_some()).map(|phase| self.row(phase));
        rows.fold(HEADING.to_owned(), |table, row| table + &row)
    }

    fn row(&self, phase: Phase) -> String {
        let reads = self.of(phase).map(|trial| trial.reads.clone()).fold(Outcome::default(), Outcome::and);
        let edits: Vec<Duration> = self.of(phase).flat_map(|trial| trial.edits.iter().copied()).collect();
        let edit = |part| quantile(&edits, part).unwrap_or_default();
        let of_quiet = |figure: fn(&Trial) -> f64| match phase {
            Phase::Quiet => "1".to_owned(),
            _ => format!("{:.2}", self.ratios(phase, figure)),
        };
        let took: f64 = self.of(phase).map(|trial| trial.took.as_secs_f64()).sum();
        let cpu = |of: fn(&CpuTimes) -> Duration| {
            let spent: f64 = self.of(phase).map(|trial| of(&trial.cpu).as_secs_f64()).sum();
            format!("{:.0} %", spent / took * 100.0)
        };
        format!(
            "| {} | {:.1}, {:.1} ms | {} | {} | {:.0}, {:.0} ms | {} | {} | {} of {} | {} | {} | {} | {} |\n",
            phase.title(),
            millis(reads.quantile(0.5)),
            millis(reads.quantile(0.99)),
            of_quiet(|trial| millis(trial.reads.quantile(0.5))),
            of_quiet(|trial| millis(trial.reads.quantile(0.99))),
            millis(edit(0.5)),
            millis(edit(0.99)),
            of_quiet(|trial| millis(trial.edit(0.5))),
            of_quiet(|trial| millis(trial.edit(0.99))),
            reads.failed,
            reads.sent,
            cpu(|times| times.plane),
            cpu(|times| times.of_a),
            cpu(|times| times.of_b),
            cpu(|times| times.machine),
        )
    }

    /// The size of each load, as it was and not as it was asked for. `limits` is the number of all limits.
    pub(super) fn efforts(&self, limits: u32) -> String {
        let mut text = String::new();
        for phase in [Phase::Flood, Phase::Storm, Phase::Limits] {
            let mut trials = self.of(phase).map(|trial| &trial.effort).peekable();
            if trials.peek().is_none() {
                continue;
            }
            let (mut requests, mut edits, mut took) = (Outcome::default(), 0, Duration::ZERO);
            for effort in trials {
                (requests, edits) = (requests.and(effort.requests.clone()), edits + effort.edits);
                took += effort.took;
            }
            let line = match phase {
                Phase::Storm => format!("{:.0} edits a minute", edits as f64 * 60.0 / took.as_secs_f64()),
                Phase::Limits => format!("{limits} limits at each Envoy; {}", answers(&requests)),
                _ => answers(&requests),
            };
            _ = writeln!(text, "- {}: {line}.", phase.title());
        }
        if self.are_limits_refused {
            text += "- limits of all gateways: not measured. Within ten seconds the agents of an instance got no parts: this control plane takes no reports of theirs, or none in time.\n";
        }
        text
    }

    /// The 99 % of reads and edits of each phase, in proportion to the quiet one.
    pub(super) fn picture(&self) -> String {
        let bars = |phase: Phase| {
            let bar = |name: &str, color, figure: fn(&Trial) -> f64| {
                let ratio = self.ratios(phase, figure);
                let name = format!("{}: {name}", phase.title());
                Bar { name, color, level: ratio.median(), figure: format!("{:.2}", ratio.median()) }
            };
            [
                bar("reads", Color::Blue, |trial| millis(trial.reads.quantile(0.99))),
                bar("edits", Color::Orange, |trial| millis(trial.edit(0.99))),
            ]
        };
        let phases = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Quiet);
        let aim = |name: &str, level: f64| Bar {
            name: name.to_owned(),
            color: Color::Gray,
            level,
            figure: format!("{level:.2}"),
        };
        let measured = phases.filter(|phase| self.of(*phase).next().is_some()).flat_map(bars);
        Bars {
            title: "p99 at instance b under the load of instance a, over that of the quiet phase".to_owned(),
            legend: vec![
                (Color::Blue, "answers to reads".to_owned()),
                (Color::Orange, "edits until both Envoys acknowledged".to_owned()),
            ],
            bars: [aim("quiet", 1.0), aim("aim, at most", 1.1)].into_iter().chain(measured).collect(),
        }
        .picture()
    }
}

impl Trial {
    fn edit(&self, part: f64) -> Duration {
        quantile(&self.edits, part).unwrap_or_default()
    }
}

fn answers(requests: &Outcome) -> String {
    let all: u64 = requests.statuses.values().sum();
    let share = |count: u64| count as f64 / all.max(1) as f64 * 100.0;
    let statuses = requests.statuses.iter().map(|(status, count)| format!("{:.0} % {status}", share(*count)));
    let withheld = requests.withheld as f64 / (requests.sent + requests.withheld).max(1) as f64 * 100.0;
    format!(
        "{:.0} requests a second, answered {}; {withheld:.0} % of those that were due were not sent, as too many were under way",
        requests.rate(),
        statuses.collect::<Vec<_>>().join(", "),
    )
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use portcullis_harness::client::Outcome;

    use super::{Trial, Trials, millis};
    use crate::instances::disturbance::Effort;
    use crate::instances::phase::Phase;
    use crate::instances::site::CpuTimes;

    fn trial(round: u32, phase: Phase, edit: u64) -> Trial {
        Trial {
            round,
            phase,
            reads: Outcome::default(),
            edits: vec![Duration::from_millis(edit); 3],
            cpu: CpuTimes { plane: Duration::from_secs(1), ..CpuTimes::default() },
            took: Duration::from_secs(10),
            effort: Effort { edits: 100, took: Duration::from_secs(2), ..Effort::default() },
        }
    }

    fn trials(list: &[(u32, Phase, u64)]) -> Trials {
        let trials = list.iter().map(|(round, phase, edit)| trial(*round, *phase, *edit)).collect();
        Trials { trials, are_limits_refused: true }
    }

    #[test]
    fn phase_is_compared_within_its_round() {
        // A machine that becomes ten times slower with each round.
        let trials = trials(&[
            (0, Phase::Quiet, 10),
            (0, Phase::Storm, 11),
            (1, Phase::Storm, 120),
            (1, Phase::Quiet, 100),
            (2, Phase::Quiet, 1_000),
            (2, Phase::Storm, 1_300),
            // Without a quiet phase there is nothing to compare with.
            (3, Phase::Storm, 9_000),
        ]);
        let ratios = trials.ratios(Phase::Storm, |trial| millis(trial.edit(0.99)));
        assert_eq!(format!("{ratios:.2}"), "1.20 (1.20-1.30)");
    }

    #[test]
    fn table_has_a_row_for_each_measured_phase() {
        let trials = trials(&[(0, Phase::Quiet, 10), (0, Phase::Storm, 20)]);
        let table = trials.table();
        assert_eq!(table.lines().count(), 4, "{table}");
        let cells: Vec<&str> = table.lines().nth(3).unwrap().split(" | ").collect();
        assert_eq!((cells[4], cells[5], cells[8]), ("20, 20 ms", "2.00 (2.00-2.00)", "10 %"), "{table}");
        assert!(trials.picture().contains("storm of edits: edits"));
    }

    #[test]
    fn loads_are_named_with_their_size() {
        let efforts = trials(&[(0, Phase::Quiet, 10), (0, Phase::Storm, 20), (1, Phase::Storm, 20)]).efforts(9);
        assert!(efforts.starts_with("- storm of edits: 3000 edits a minute.\n- limits"), "{efforts}");
    }
}
