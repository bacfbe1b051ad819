//! How fast a part follows: the time until it has nine tenths of that at which it settles within a minute.

use crate::world::SECOND;

/// The time over which requests are counted where a part has no rate.
const COUNTED: u64 = SECOND / 2;
/// A part has settled after that time.
const SETTLED: u64 = 40 * SECOND;

/// The jump that runs, and the outcome of those before.
pub(crate) struct Follow {
    jump: Option<Jump>,
    /// Seconds, by limit.
    times: Vec<Vec<f64>>,
}

struct Jump {
    gateway: usize,
    since: u64,
    limits: Vec<Seen>,
}

#[derive(Clone, Default)]
struct Seen {
    levels: Vec<(u64, f64)>,
    counted: Option<(u64, u64)>,
}

impl Follow {
    pub(crate) fn new(limits: usize) -> Self {
        Follow { jump: None, times: vec![Vec::new(); limits] }
    }

    pub(crate) fn begin(&mut self, now: u64, gateway: usize) {
        let limits = vec![Seen::default(); self.times.len()];
        self.jump = Some(Jump { gateway, since: now, limits });
    }

    pub(crate) fn is_of(&self, gateway: usize) -> bool {
        self.jump.as_ref().is_some_and(|jump| jump.gateway == gateway)
    }

    /// The part of a limit; without one, the requests that were admitted.
    pub(crate) fn see(&mut self, limit: usize, now: u64, level: Option<f64>, admitted: u64) {
        let Some(jump) = &mut self.jump else { return };
        let seen = &mut jump.limits[limit];
        match (level, seen.counted) {
            (Some(level), _) => seen.levels.push((now, level)),
            (None, Some((at, before))) if now >= at + COUNTED => {
                // A restart begins to count anew.
                let count = admitted.saturating_sub(before) as f64;
                seen.levels.push((now, count / (now - at) as f64));
                seen.counted = Some((now, admitted));
            }
            (None, None) => seen.counted = Some((now, admitted)),
            (None, Some(_)) => {}
        }
    }

    /// Ends the jump.
    pub(crate) fn end(&mut self) {
        let Some(jump) = self.jump.take() else { return };
        for (limit, seen) in jump.limits.iter().enumerate() {
            let mut late: Vec<f64> =
                seen.levels.iter().filter(|(at, _)| *at > jump.since + SETTLED).map(|(_, level)| *level).collect();
            late.sort_unstable_by(f64::total_cmp);
            let Some(settled) = late.get(late.len() / 2) else { continue };
            if let Some((at, _)) = seen.levels.iter().find(|(_, level)| *level >= 0.9 * settled) {
                self.times[limit].push((at - jump.since) as f64 / SECOND as f64);
            }
        }
    }

    pub(crate) fn line(&self, limit: usize) -> String {
        let mut times = self.times[limit].clone();
        times.sort_unstable_by(f64::total_cmp);
        let at = |part: usize| times.get(times.len() * part / 100).or(times.last()).copied().unwrap_or_default();
        format!(
            "{} jumps of a gateway to a quarter of the limit: nine tenths of the part after {:.1} s (median), {:.1} s (90th percentile), {:.1} s \
             at most",
            times.len(),
            at(50),
            at(90),
            at(100)
        )
    }
}
