//! The demand of a fleet through its day: three regions, minutes of bursts, one gateway that is hot, and herds.

use std::f64::consts::TAU;

use crate::lots::mixed;
use crate::world::SECOND;

const DAY: f64 = 86_400.0;
/// Mean demand of a gateway, in even shares of the limit.
const MEAN: f64 = 0.7;
/// The regions' parts of all gateways, added up: in the first it is noon at 12 h, in the others eight and sixteen hours later.
const REGIONS: [f64; 3] = [0.6, 0.85, 1.0];
/// One gateway in each half hour is hot for some minutes of it.
const HOT_PERIOD: u64 = 1_800;
const HOT_SECONDS: std::ops::Range<u64> = 120..1_320;
/// Its demand, as a part of the limit.
const HOT_PART: f64 = 0.25;

/// All gateways together ask for more in some seconds of each hour.
const HERD_PERIOD: u64 = 3_600;
const HERD_SECONDS: std::ops::Range<u64> = 540..555;
const HERD: f64 = 6.0;

/// The demand as a function of gateway and time.
pub(crate) struct Demand {
    pub(crate) seed: u64,
    pub(crate) gateways: usize,
}

impl Demand {
    /// Even shares of the limit that the clients of a gateway ask for.
    pub(crate) fn at(&self, gateway: usize, now: u64) -> f64 {
        let second = now / SECOND;
        let day = 1.0 - (TAU * (second as f64 / DAY - self.region(gateway) as f64 / 3.0)).cos();
        let weight = 0.25 + 1.5 * self.drawn(gateway, 0);
        let burst = if self.drawn(gateway, 1 + second / 60) < 0.01 { 4.0 } else { 0.0 };
        let hot = if self.hot(now) == Some(gateway) { HOT_PART * self.gateways as f64 } else { 0.0 };
        let herd = if HERD_SECONDS.contains(&(second % HERD_PERIOD)) { HERD } else { 0.0 };
        MEAN * weight * day + burst + hot + herd
    }

    pub(crate) fn region(&self, gateway: usize) -> usize {
        let place = gateway as f64 / self.gateways as f64;
        REGIONS.iter().take_while(|end| place >= **end).count()
    }

    /// The gateway that is hot.
    pub(crate) fn hot(&self, now: u64) -> Option<usize> {
        let second = now / SECOND;
        HOT_SECONDS.contains(&(second % HOT_PERIOD)).then(|| self.hot_of(second / HOT_PERIOD))
    }

    fn hot_of(&self, period: u64) -> usize {
        (mixed(self.seed ^ mixed(period + 1)) % self.gateways as u64) as usize
    }

    /// The next time at which a gateway becomes hot.
    pub(crate) fn next_jump(&self, now: u64) -> u64 {
        let start = HOT_SECONDS.start * SECOND;
        (now.saturating_sub(start) / (HOT_PERIOD * SECOND) + u64::from(now >= start)) * HOT_PERIOD * SECOND + start
    }

    fn drawn(&self, gateway: usize, number: u64) -> f64 {
        (mixed(self.seed ^ mixed(gateway as u64) ^ mixed(number << 32)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
