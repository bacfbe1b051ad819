//! The table as Markdown, its picture, and the three figures of the front page.

use std::fmt::Write;

use portcullis_plot::{Bar, Bars, Color};

use super::figures::Row;
use super::subject::Subject;
use crate::case::Case;

/// The rows, and how they were measured.
pub(crate) struct Table<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) rates: &'a [u32],
    pub(crate) watches: usize,
}

impl Table<'_> {
    /// Markdown.
    pub(crate) fn text(&self) -> String {
        let mut text =
            String::from("| | CPU per request | of bare (quartiles) | instructions | of bare | requests/s |");
        for rate in self.rates {
            _ = write!(text, " p50, p99 at {rate}/s |");
        }
        _ = writeln!(text, " 10,000 watches |\n|---|---|---|---|---|---|{}---|", "---|".repeat(self.rates.len()));
        for row in self.rows {
            let other = self.row(row.subject.baseline());
            let bare = other.filter(|_| row.micros().is_some());
            let instructions = row.instructions.zip(other.and_then(|other| other.instructions));
            _ = write!(
                text,
                "| {} | {} | {} | {} | {} | {:.0} |",
                row.subject.title(),
                optional(row.micros(), |micros| format!("{micros:.0} µs")),
                optional(bare.and_then(|bare| row.of(bare)), |ratio| format!("{ratio:.2}")),
                optional(row.instructions, |count| format!("{:.1} k", count / 1_000.0)),
                optional(instructions, |(own, other)| format!("{:.3}", own / other)),
                row.per_second(),
            );
            for rate in self.rates {
                let failed = row.failed(*rate) * 100.0;
                let failed = if failed > 0.0 { format!(" ({failed:.1} % failed)") } else { String::new() };
                _ = write!(text, " {:.1}, {:.1} ms{failed} |", row.millis(*rate, 0.5), row.millis(*rate, 0.99));
            }
            _ = writeln!(text, " {} |", optional(row.watch_bytes, |bytes| format!("{:.0} MiB", mib(bytes))));
        }
        _ = write!(text, "\nMemory is that of {} watches, extrapolated.", self.watches);
        text
    }

    /// CPU time as bars.
    pub(crate) fn picture(&self) -> String {
        let bar = |row: &Row| {
            let level = row.micros()?;
            let color = match row.subject {
                Subject::Envoy(Case::Bare | Case::BareToken | Case::Lua) => Color::Gray,
                Subject::Envoy(_) => Color::Blue,
                _ => Color::Orange,
            };
            Some(Bar { name: row.subject.title().to_owned(), color, level, figure: format!("{level:.0} µs") })
        };
        Bars {
            title: "CPU time of the proxy for one request".to_owned(),
            legend: [(Color::Blue, "Portcullis"), (Color::Gray, "Envoy without it"), (Color::Orange, "other proxies")]
                .map(|(color, name)| (color, name.to_owned()))
                .to_vec(),
            bars: self.rows.iter().filter_map(bar).collect(),
        }
        .picture()
    }

    /// Three figures.
    pub(crate) fn front(&self) -> String {
        let of = |case: Case| self.row(Subject::Envoy(case));
        let bare = of(Case::Bare);
        let ratio = |case: Case| {
            let (own, bare) = (of(case).and_then(|row| row.instructions), bare.and_then(|row| row.instructions));
            optional(own.zip(bare), |(own, bare)| format!("{:.2}", own / bare))
        };
        let rate = self.rates.last().copied().unwrap_or_default();
        let p99 = |row: Option<&Row>| row.map_or(f64::NAN, |row| row.millis(rate, 0.99));
        let memory = |case| optional(of(case).and_then(|row| row.watch_bytes), |bytes| format!("{:.0}", mib(bytes)));
        format!(
            "**Cost.** A request of a user with a certificate, through 100 policies, takes {} times the instructions of a bare Envoy; a Lua script that only forwards the user, {} times. At {rate} requests a second the p99 is {:.1} ms ({:.1} ms through a bare Envoy, {:.1} ms without a proxy). 10,000 watches take {} MiB of memory (a bare Envoy: {} MiB; both extrapolated from 2,000). [All figures](docs/performance.md#beside-other-proxies): `make bench`.",
            ratio(Case::Last),
            ratio(Case::Lua),
            p99(of(Case::Last)),
            p99(bare),
            p99(self.row(Subject::Direct)),
            memory(Case::Last),
            memory(Case::Bare),
        )
    }

    fn row(&self, subject: Subject) -> Option<&Row> {
        self.rows.iter().find(|row| row.subject == subject)
    }
}

fn optional<T>(figure: Option<T>, show: impl Fn(T) -> String) -> String {
    figure.map_or_else(|| "–".to_owned(), show)
}

/// Bytes of one watch as MiB of 10,000.
fn mib(bytes: f64) -> f64 {
    bytes * 10_000.0 / 1_048_576.0
}

#[cfg(test)]
mod tests {
    use super::Table;
    use crate::case::Case;
    use crate::compare::figures::{Burst, Row};
    use crate::compare::subject::Subject;

    #[test]
    fn table_compares_each_row_with_its_baseline() {
        let row = |subject, micros, count| {
            let mut row = Row::new(subject);
            row.bursts.push(Burst { micros, per_second: 900.0 });
            row.instructions = count;
            row.watch_bytes = micros.map(|_| 104_857.6);
            row
        };
        let rows = [
            row(Subject::Direct, None, None),
            row(Subject::Envoy(Case::Bare), Some(100.0), Some(200_000.0)),
            row(Subject::Envoy(Case::Last), Some(120.0), Some(230_000.0)),
        ];
        let table = Table { rows: &rows, rates: &[], watches: 50 };
        let text = table.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "| no proxy | – | – | – | – | 900 | – |");
        assert_eq!(
            lines[4],
            "| Portcullis: certificate | 120 µs | 1.20 (1.20-1.20) | 230.0 k | 1.150 | 900 | 1000 MiB |"
        );
        assert!(table.front().contains("takes 1.15 times"), "{}", table.front());
        assert!(table.picture().contains("120 µs"));
    }
}
