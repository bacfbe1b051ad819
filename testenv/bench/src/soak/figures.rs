//! Samples over time: table, picture and what grew.

use std::fmt::Write;

use portcullis_plot::{Color, Line, Lines, Panel};

use super::churn::Churn;
use super::traffic::Seen;

/// One look at the gateway; memory in KiB.
pub(crate) struct Sample {
    pub(crate) minute: f64,
    pub(crate) envoy: u64,
    pub(crate) plane: u64,
    pub(crate) envoy_files: usize,
    pub(crate) plane_files: usize,
    pub(crate) seen: Seen,
}

/// All samples.
#[derive(Default)]
pub(crate) struct Figures {
    samples: Vec<Sample>,
}

impl Figures {
    pub(crate) fn add(&mut self, sample: Sample) {
        println!(
            "{:.1} min\tEnvoy {:.1} MiB, {} files\tcontrol plane {:.1} MiB, {} files\tp99 {:.1} ms",
            sample.minute,
            mib(sample.envoy),
            sample.envoy_files,
            mib(sample.plane),
            sample.plane_files,
            millis(&sample),
        );
        self.samples.push(sample);
    }

    /// The medians of each sixth of the time: single samples meet servers that are down.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from(
            "| minutes | Envoy | control plane | files of Envoy | of the control plane | p99 of a read |\n|---|---|---|---|---|---|\n",
        );
        for part in self.samples.chunks(self.samples.len().div_ceil(6).max(1)) {
            let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
            let of = |level: fn(&Sample) -> f64| median(part, level);
            _ = writeln!(
                text,
                "| {:.0} to {:.0} | {:.1} MiB | {:.1} MiB | {:.0} | {:.0} | {:.1} ms |",
                first.minute,
                last.minute,
                of(|sample| mib(sample.envoy)),
                of(|sample| mib(sample.plane)),
                of(|sample| sample.envoy_files as f64),
                of(|sample| sample.plane_files as f64),
                of(millis),
            );
        }
        text
    }

    /// Requests and changes.
    pub(crate) fn summary(&self, churn: &Churn) -> String {
        let sum = |count: fn(&Seen) -> u64| self.samples.iter().map(|sample| count(&sample.seen)).sum::<u64>();
        let failures = self.samples.iter().flat_map(|sample| {
            let seen = &sample.seen;
            seen.reads.failures.iter().chain(&seen.lists.failures)
        });
        for failure in failures.take(20) {
            eprintln!("at {:.0?}: {}", failure.sent, failure.reason);
        }
        let refused = |seen: &Seen| {
            let of = |status| seen.refused.statuses.get(&status).copied().unwrap_or_default();
            of(403) + of(401)
        };
        format!(
            "{} reads, {} of them not answered with 200; {} lists, {}; {} refused as they must be, {} otherwise; {} sessions, {} failed; {} watches cut by servers that died. {} edits of policies, {} servers killed and started again, {} rotations of the serving and the client certificate.",
            sum(|seen| seen.reads.sent),
            sum(|seen| seen.reads.failed),
            sum(|seen| seen.lists.sent),
            sum(|seen| seen.lists.failed),
            sum(refused),
            sum(|seen| seen.refused.sent).saturating_sub(sum(refused)),
            sum(|seen| seen.sessions),
            sum(|seen| seen.sessions_failed),
            self.samples.last().map_or(0, |sample| sample.seen.watches_cut),
            churn.edits,
            churn.restarts,
            churn.rotations,
        )
    }

    /// Memory, files and answering times.
    pub(crate) fn picture(&self) -> String {
        let line = |color, level: fn(&Sample) -> f64| Line {
            color,
            points: self.samples.iter().map(|sample| (sample.minute, level(sample))).collect(),
        };
        let panel = |title: &str, lines: Vec<Line>| {
            let levels = lines.iter().flat_map(|line| &line.points).map(|(_, level)| *level);
            let top = levels.fold(1.0, f64::max) * 1.1;
            Panel { title: title.to_owned(), top, lines }
        };
        Lines {
            legend: vec![(Color::Blue, "Envoy".to_owned()), (Color::Orange, "control plane".to_owned())],
            span: self.samples.last().map_or(1.0, |sample| sample.minute),
            unit: "min",
            marks: Vec::new(),
            panels: vec![
                panel(
                    "memory, MiB",
                    vec![
                        line(Color::Blue, |sample| mib(sample.envoy)),
                        line(Color::Orange, |sample| mib(sample.plane)),
                    ],
                ),
                panel(
                    "open file descriptors",
                    vec![
                        line(Color::Blue, |sample| sample.envoy_files as f64),
                        line(Color::Orange, |sample| sample.plane_files as f64),
                    ],
                ),
                panel("p99 of a read, ms", vec![line(Color::Blue, millis)]),
            ],
        }
        .picture()
    }
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1_024.0
}

fn millis(sample: &Sample) -> f64 {
    sample.seen.reads.quantile(0.99).as_secs_f64() * 1_000.0
}

fn median(samples: &[Sample], level: fn(&Sample) -> f64) -> f64 {
    let mut levels: Vec<f64> = samples.iter().map(level).collect();
    levels.sort_by(f64::total_cmp);
    levels.get(levels.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::{Figures, Sample};
    use crate::soak::traffic::Seen;

    #[test]
    fn table_has_a_row_for_each_sixth() {
        let sample = |minute: f64| Sample {
            minute,
            envoy: 2_048,
            plane: 1_024,
            envoy_files: 9,
            plane_files: 8,
            seen: Seen::default(),
        };
        let figures = Figures { samples: (0..18).map(|at| sample(f64::from(at))).collect() };
        let table = figures.table();
        assert_eq!(table.lines().count(), 8, "{table}");
        assert!(table.contains("| 15 to 17 | 2.0 MiB | 1.0 MiB | 9 | 8 | 0.0 ms |"), "{table}");
    }
}
