use portcullis_filter_config::activity::{MAX_DIFFERENCES, MAX_SHADOWS, ShadowActivity, ShadowDifference};

/// The requests that the last editions of the shadow have judged, the newest last.
#[derive(Debug, Default)]
pub(super) struct ShadowTotals(Vec<CountedShadow>);

#[derive(Debug)]
struct CountedShadow {
    activity: ShadowActivity,
    /// The kinds whose first client was not known.
    unknown: usize,
}

impl ShadowTotals {
    /// Follows a configuration with this edition of the shadow. An edition that is there keeps its counts: several listeners have the
    /// same one, and a proxy that refuses a configuration goes on with the one before it.
    pub(super) fn configure(&mut self, generation: &str) {
        if self.move_to_end(generation) {
            return;
        }
        let activity = ShadowActivity { generation: generation.to_owned(), ..ShadowActivity::default() };
        self.0.push(CountedShadow { activity, unknown: 0 });
        if self.0.len() > MAX_SHADOWS {
            self.0.remove(0);
        }
    }

    /// Adds requests that an edition has judged, and the kind of their difference, if they have one. An edition that is forgotten
    /// begins anew: it is in use, where a proxy refuses what came after it. Only a quarter of the places is for kinds of requests
    /// whose clients are not known.
    pub(super) fn add(&mut self, generation: &str, difference: Option<ShadowDifference>, is_known: bool, count: u64) {
        self.configure(generation);
        let Some(CountedShadow { activity, unknown }) = self.0.last_mut() else { return };
        activity.judged = activity.judged.saturating_add(count);
        let Some(difference) = difference else { return };
        if let Some((_, total)) = activity.differences.iter_mut().find(|(known, _)| *known == difference) {
            *total = total.saturating_add(count);
        } else if activity.differences.len() < MAX_DIFFERENCES && (is_known || *unknown < MAX_DIFFERENCES / 4) {
            *unknown += usize::from(!is_known);
            activity.differences.push((difference, count));
        } else {
            activity.others = activity.others.saturating_add(count);
        }
    }

    pub(super) fn activity(&self) -> Vec<ShadowActivity> {
        let mut all: Vec<_> = self.0.iter().map(|one| one.activity.clone()).collect();
        // Whichever counted last: a page must not change without a count.
        all.sort_by(|one, other| one.generation.cmp(&other.generation));
        all
    }

    /// Whether it is there.
    fn move_to_end(&mut self, generation: &str) -> bool {
        let Some(at) = self.0.iter().position(|one| one.activity.generation == generation) else { return false };
        if let Some(moved) = self.0.get_mut(at..) {
            moved.rotate_left(1);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(resource: &str) -> Option<ShadowDifference> {
        Some(ShadowDifference { resource: resource.to_owned(), ..ShadowDifference::default() })
    }

    fn judged(totals: &ShadowTotals) -> Vec<(String, u64)> {
        totals.activity().into_iter().map(|one| (one.generation, one.judged)).collect()
    }

    fn row(generation: &str, judged: u64) -> (String, u64) {
        (generation.to_owned(), judged)
    }

    #[test]
    fn editions_of_a_shadow_count_apart() {
        let mut totals = ShadowTotals::default();
        totals.configure("a");
        totals.add("a", difference("pods"), true, 3);
        totals.configure("b");
        totals.add("a", difference("pods"), true, 1);
        assert_eq!(judged(&totals), [row("a", 4), row("b", 0)], "a request that began before");
        totals.configure("a");
        totals.configure("a");
        assert_eq!(judged(&totals), [row("a", 4), row("b", 0)], "another listener, or an edit that was taken back");
        totals.add("a", None, true, 1);
        totals.configure("c");
        assert_eq!(judged(&totals), [row("a", 5), row("c", 0)], "the one in use stays");
        totals.add("b", difference("pods"), true, 9);
        assert_eq!(
            judged(&totals),
            [row("b", 9), row("c", 0)],
            "it was forgotten, and is in use: the proxy has refused the newest"
        );
    }

    #[test]
    fn kinds_beyond_the_bound_count_together() {
        let mut totals = ShadowTotals::default();
        totals.configure("a");
        for _ in 0..2 {
            (0..100).for_each(|kind| totals.add("a", difference(&kind.to_string()), true, 5));
        }
        totals.add("a", None, true, 7);
        let activity = totals.activity().remove(0);
        assert_eq!((activity.judged, activity.differences.len()), (1_007, MAX_DIFFERENCES));
        assert!(activity.differences.iter().all(|(_, count)| *count == 10));
        assert_eq!(activity.others, 10 * (100 - MAX_DIFFERENCES as u64));
    }
}
