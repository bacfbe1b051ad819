use std::time::Duration;

use tokio::time::Instant;

/// How long the API has to say that there is no such kind until it counts: definitions are replaced, and an apiserver that starts may
/// not know all of them yet.
const CERTAIN_AFTER: Duration = Duration::from_secs(30);

/// Since when the API says that there is no such kind, without another answer in between.
#[derive(Debug, Default)]
pub(super) struct KindAbsence {
    since: Option<Instant>,
}

impl KindAbsence {
    /// There is no such kind. Returns whether that was said for so long that it counts.
    pub(super) fn said(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        now.duration_since(since) >= CERTAIN_AFTER
    }

    /// Another answer.
    pub(super) fn contradicted(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_counts_when_it_is_said_for_a_while() {
        let start = Instant::now();
        let mut absence = KindAbsence::default();
        let mut said = |seconds: u64| absence.said(start + Duration::from_secs(seconds));
        assert_eq!([0, 10, 20, 30].map(&mut said), [false, false, false, true]);
        absence.contradicted();
        assert!(!absence.said(start + Duration::from_secs(60)), "another answer came in between");
    }
}
