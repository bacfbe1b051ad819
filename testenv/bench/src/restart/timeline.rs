//! Shares of servers, second by second.

use std::fmt::Write;

use portcullis_plot::{Color, Line, Lines, Panel};

/// Shares over so many seconds are compared: with fewer requests chance alone makes them differ.
const WINDOW: usize = 5;
/// Equal enough.
const EQUAL: f64 = 1.1;
const COLORS: [Color; 3] = [Color::Blue, Color::Orange, Color::Green];

/// One second, by server.
pub(crate) struct Sample {
    pub(crate) second: f64,
    pub(crate) requests: Vec<u64>,
    /// CPU time.
    pub(crate) nanos: Vec<u64>,
    /// Requests that no server answered with 200.
    pub(crate) failed: u64,
}

/// One way to the servers.
pub(crate) struct Timeline {
    title: String,
    pub(crate) samples: Vec<Sample>,
}

impl Timeline {
    pub(crate) fn new(title: &str) -> Self {
        Timeline { title: title.to_owned(), samples: Vec::new() }
    }

    /// The busiest server's requests over the least busy one's, in the seconds from an index on.
    fn imbalance(&self, from: usize) -> f64 {
        let window: Vec<&Sample> = self.samples.iter().skip(from).take(WINDOW).collect();
        let servers = window.first().map_or(0, |sample| sample.requests.len());
        let sums = (0..servers).map(|at| window.iter().filter_map(|sample| sample.requests.get(at)).sum::<u64>());
        let (least, most) = sums.fold((u64::MAX, 0), |(least, most), sum| (least.min(sum), most.max(sum)));
        if least == 0 { f64::INFINITY } else { most as f64 / least as f64 }
    }

    /// How long after a time it took until shares were equal, and stayed so to the end.
    fn settled(&self, since: f64) -> Option<f64> {
        let last = self.samples.len().checked_sub(WINDOW)?;
        let first = (0..=last).rev().take_while(|from| self.imbalance(*from) < EQUAL).last()?;
        self.samples.get(first).map(|sample| (sample.second - 1.0 - since).max(0.0))
    }

    fn final_imbalance(&self) -> f64 {
        self.imbalance(self.samples.len().saturating_sub(WINDOW))
    }

    fn lines(&self, of: fn(&Sample) -> &Vec<u64>) -> Vec<Line> {
        let share = |sample: &Sample, at: usize| {
            let all = of(sample).iter().sum::<u64>().max(1) as f64;
            of(sample).get(at).copied().unwrap_or_default() as f64 / all * 100.0
        };
        let points = |at: usize| self.samples.iter().map(|sample| (sample.second, share(sample, at))).collect();
        COLORS.iter().enumerate().map(|(at, color)| Line { color: *color, points: points(at) }).collect()
    }
}

/// A table.
pub(crate) fn text(timelines: &[Timeline], dies: f64, back: f64) -> String {
    let mut text = format!(
        "The first server dies at {dies:.0} s and is back at {back:.0} s.\n\n| | busiest server's requests over the least busy one's, in the last {WINDOW} s | below {EQUAL} for good, after the server was back | requests not answered with 200 |\n|---|---|---|---|\n"
    );
    for timeline in timelines {
        let imbalance = timeline.final_imbalance();
        let imbalance = if imbalance.is_finite() { format!("{imbalance:.2}") } else { "one gets none".to_owned() };
        let settled = timeline.settled(back).map_or("never".to_owned(), |seconds| format!("{seconds:.0} s"));
        let failed: u64 = timeline.samples.iter().map(|sample| sample.failed).sum();
        _ = writeln!(text, "| {} | {imbalance} | {settled} | {failed} |", timeline.title);
    }
    text
}

/// Shares of requests of each way, and of CPU time of the first two.
pub(crate) fn picture(timelines: &[Timeline], dies: f64, back: f64) -> String {
    let panel = |timeline: &Timeline, what: &str, of| Panel {
        title: format!("{}: share of {what}, %", timeline.title.replace('`', "")),
        top: 60.0,
        lines: timeline.lines(of),
    };
    let panels = timelines.iter().map(|timeline| panel(timeline, "requests", |sample| &sample.requests));
    let panels = panels.chain(
        timelines.iter().take(2).map(|timeline| panel(timeline, "the servers' CPU time", |sample| &sample.nanos)),
    );
    Lines {
        legend: COLORS.iter().enumerate().map(|(at, color)| (*color, format!("apiserver {}", at + 1))).collect(),
        span: timelines.first().and_then(|timeline| timeline.samples.last()).map_or(1.0, |sample| sample.second),
        unit: "s",
        marks: vec![(dies, "dies".to_owned()), (back, "back".to_owned())],
        panels: panels.collect(),
    }
    .picture()
}

#[cfg(test)]
mod tests {
    use super::{Sample, Timeline, text};

    fn timeline(requests: impl Fn(u32) -> [u64; 3]) -> Timeline {
        let sample = |second: u32| Sample {
            second: f64::from(second),
            requests: requests(second).to_vec(),
            nanos: vec![1, 1, 1],
            failed: 0,
        };
        Timeline { title: "a".to_owned(), samples: (1..=30).map(sample).collect() }
    }

    #[test]
    fn shares_settle_where_they_stay_equal() {
        let back = timeline(|second| if second <= 17 { [0, 150, 150] } else { [100, 101, 99] });
        assert_eq!(back.settled(15.0), Some(2.0));
        let never = timeline(|_| [0, 150, 150]);
        assert_eq!(never.settled(15.0), None);
        assert!(text(&[never], 10.0, 15.0).contains("| a | one gets none | never | 0 |"));
    }

    #[test]
    fn short_calm_does_not_count() {
        let odd = timeline(|second| if second == 28 { [300, 0, 0] } else { [100, 100, 100] });
        assert_eq!(odd.settled(0.0), None);
    }
}
