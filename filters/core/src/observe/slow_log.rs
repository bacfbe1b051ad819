//! Lines of the access log for requests that turn out to be slow or to fail, whatever the log mode.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use portcullis_filter_config::ClusterConfig;

/// Lines of each kind of one cluster in a second at most: a server that is away fails every request.
const MAX_LINES_PER_SECOND: u32 = 100;
/// The same for clients that were not authenticated.
const MAX_LINES_OF_STRANGERS: u32 = 10;

/// The choice of lines for slow and failed requests of one cluster.
#[derive(Debug, Default)]
pub(super) struct SlowLog {
    slow: Option<Duration>,
    failed: bool,
    slow_lines: Lines,
    failed_lines: Lines,
    strangers_lines: Lines,
}

/// The lines of one kind.
#[derive(Debug, Default)]
struct Lines {
    /// The second of uptime that `written` counts in.
    second: AtomicU64,
    written: AtomicU32,
    suppressed: AtomicU32,
}

/// Why a request has a line that its policy does not ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conspicuous {
    /// It took as long as `logging.slow`, or longer.
    Slow,
    /// It was answered with 5xx.
    Failed,
}

impl Conspicuous {
    /// The member `conspicuous` of the line.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Conspicuous::Slow => "slow",
            Conspicuous::Failed => "failed",
        }
    }
}

/// The phases of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phases {
    /// The filter's own work, and waiting for a drain of the connection.
    pub(crate) filter: Duration,
    /// Waiting for TokenReviews and SubjectAccessReviews.
    pub(crate) reviews: Duration,
    /// Waiting for a seat of a fair queue.
    pub(crate) queue: Duration,
    /// From the request's departure to the headers of the answer; the upload of its body is in it.
    pub(crate) server: Duration,
    /// From the headers of the answer to its end, as fast as the client takes it.
    pub(crate) answer: Duration,
}

impl Phases {
    /// Their names in the line, in order, and their times.
    pub(super) const fn named(self) -> [(&'static str, Duration); 5] {
        [
            ("filterMs", self.filter),
            ("reviewsMs", self.reviews),
            ("queueMs", self.queue),
            ("serverMs", self.server),
            ("answerMs", self.answer),
        ]
    }

    /// The name of the longest one.
    pub(super) fn longest(self) -> &'static str {
        let longest = self.named().into_iter().max_by_key(|(_, time)| *time);
        longest.map_or("filter", |(name, _)| name.trim_end_matches("Ms"))
    }
}

impl SlowLog {
    pub(super) fn of(config: &ClusterConfig) -> Self {
        SlowLog {
            slow: config.log_slow_milliseconds.map(Duration::from_millis),
            failed: config.log_failed,
            ..SlowLog::default()
        }
    }

    /// `duration` is `None` if the time of the request says nothing about the cluster.
    pub(super) fn conspicuous(&self, code: u16, duration: Option<Duration>) -> Option<Conspicuous> {
        if self.failed && code >= 500 {
            return Some(Conspicuous::Failed);
        }
        self.slow.filter(|slow| duration.is_some_and(|duration| duration >= *slow)).map(|_| Conspicuous::Slow)
    }

    /// Whether there is room for a line now, and how many there was none for since the last one. Slow requests take no room of
    /// failed ones, and clients that were not authenticated none of others.
    pub(super) fn admit(&self, why: Conspicuous, is_known: bool, uptime: Duration) -> Option<u32> {
        let (lines, most) = match (is_known, why) {
            (false, _) => (&self.strangers_lines, MAX_LINES_OF_STRANGERS),
            (true, Conspicuous::Slow) => (&self.slow_lines, MAX_LINES_PER_SECOND),
            (true, Conspicuous::Failed) => (&self.failed_lines, MAX_LINES_PER_SECOND),
        };
        lines.admit(most, uptime.as_secs())
    }
}

impl Lines {
    /// A second that is over never comes back: threads read the clock before they come here. Two that see a second begin may
    /// both begin it: a few lines more.
    fn admit(&self, most: u32, second: u64) -> Option<u32> {
        if self.second.fetch_max(second, Ordering::Relaxed) < second {
            self.written.store(0, Ordering::Relaxed);
        }
        if self.written.fetch_add(1, Ordering::Relaxed) < most {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_and_failed_requests_are_conspicuous() {
        let log = SlowLog { slow: Some(Duration::from_secs(5)), failed: true, ..SlowLog::default() };
        let table = [
            (200, 4_999, None),
            (200, 5_000, Some(Conspicuous::Slow)),
            (0, 6_000, Some(Conspicuous::Slow)),
            (499, 1, None),
            (500, 1, Some(Conspicuous::Failed)),
            (504, 9_000, Some(Conspicuous::Failed)),
        ];
        for (code, milliseconds, expected) in table {
            let duration = Some(Duration::from_millis(milliseconds));
            assert_eq!(log.conspicuous(code, duration), expected, "{code} {milliseconds}");
        }
        assert_eq!((log.conspicuous(401, None), log.conspicuous(503, None)), (None, Some(Conspicuous::Failed)));
        assert_eq!(SlowLog::default().conspicuous(503, Some(Duration::MAX)), None);
    }

    fn admitted(log: &SlowLog, why: Conspicuous, is_known: bool, second: u64) -> Vec<u32> {
        (0..150).filter_map(|_| log.admit(why, is_known, Duration::from_secs(second))).collect()
    }

    #[test]
    fn lines_of_a_second_are_bounded_and_the_rest_is_counted() {
        let log = SlowLog::default();
        assert_eq!(admitted(&log, Conspicuous::Slow, true, 7), [0; 100]);
        let next = admitted(&log, Conspicuous::Slow, true, 8);
        assert_eq!((next.len(), next[0], next[1]), (100, 50, 0));
    }

    #[test]
    fn lines_of_one_kind_take_no_room_of_another() {
        let log = SlowLog::default();
        let of = |why, is_known| admitted(&log, why, is_known, 7).len();
        assert_eq!([of(Conspicuous::Failed, false), of(Conspicuous::Slow, false)], [10, 0]);
        assert_eq!([of(Conspicuous::Slow, true), of(Conspicuous::Failed, true)], [100, 100]);
    }

    #[test]
    fn lines_of_an_older_second_open_no_room() {
        let log = SlowLog::default();
        assert_eq!(admitted(&log, Conspicuous::Failed, true, 8).len(), 100);
        for second in [7, 8, 1, 8] {
            assert!(admitted(&log, Conspicuous::Failed, true, second).is_empty(), "{second}");
        }
        assert_eq!(admitted(&log, Conspicuous::Failed, true, 9).len(), 100);
    }
}
