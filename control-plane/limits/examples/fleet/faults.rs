//! Everything that goes wrong: messages, processes, clocks, the network, the limiter.

use crate::lots::Lots;
use crate::world::SECOND;

const MILLISECOND: u64 = SECOND / 1_000;
/// Clocks that are as fast as any, in parts of a million, and as slow: the leases' bound is two percent.
pub(crate) const FASTEST: i64 = 1_000;
const SLOW: i64 = -1_000;
const SLOWEST: i64 = -19_000;

/// Something that happens to the fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Messages are lost and late more often than as a rule, for that long.
    Rough(u64),
    /// Some gateways reach no limiter for that long.
    Partition { first: usize, count: usize, length: u64 },
    /// The process of a gateway ends, and the next one begins after that time.
    Restart { gateway: usize, pause: u64 },
    /// No limiter divides for that long, then another one does.
    Replace(u64),
}

/// The faults of a run, by their times. Longer runs have as many, but for restarts the longer ones.
pub(crate) fn schedule(gateways: usize, length: u64, lots: &mut Lots) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..12 {
        faults.push((lots.below(length), Fault::Rough(length / 144)));
    }
    for _ in 0..24 {
        let count = 1 + lots.below(gateways as u64 * 3 / 10) as usize;
        let span = (lots.exponential(60.0) * SECOND as f64) as u64;
        let first = lots.below(gateways as u64) as usize;
        faults.push((lots.below(length), Fault::Partition { first, count, length: SECOND + span.min(600 * SECOND) }));
    }
    for _ in 0..2 * gateways {
        let (gateway, pause) = (lots.below(gateways as u64) as usize, lots.below(5 * SECOND));
        faults.push((lots.below(length), Fault::Restart { gateway, pause }));
    }
    // A rolling restart of all.
    for gateway in 0..gateways {
        let at = length * 10 / 24 + length / 20 * gateway as u64 / gateways as u64;
        faults.push((at, Fault::Restart { gateway, pause: 2 * SECOND }));
    }
    for number in 0..12 {
        // Half of the leaders hand over, and half are killed and followed when their Lease has run out.
        let pause = if number % 2 == 0 { 0 } else { lots.below(17 * SECOND) };
        faults.push((lots.below(length), Fault::Replace(pause)));
    }
    faults.push((length * 18 / 24, Fault::Replace((length / 288).max(10 * SECOND))));
    faults
}

/// The error of a gateway's clock: one in ten is nearly as slow as the bound allows.
pub(crate) fn skew(lots: &mut Lots) -> i64 {
    let slowest = if lots.chance(0.1) { SLOWEST } else { SLOW };
    slowest + lots.below((FASTEST - slowest) as u64 + 1) as i64
}

/// The times that the copies of a message take: none, one or two.
pub(crate) fn delays(is_rough: bool, lots: &mut Lots) -> [Option<u64>; 2] {
    let (lost, late) = if is_rough { (0.05, 0.1) } else { (0.01, 0.005) };
    let copies = if lots.chance(lost) { 0 } else { 1 + usize::from(lots.chance(0.01)) };
    let mut delay = |copy: usize| {
        let most = if lots.chance(late) { 4_000.0 * lots.fraction() } else { 0.0 };
        let milliseconds = 2.0 + lots.exponential(20.0) + most;
        (copy < copies).then_some((milliseconds * MILLISECOND as f64) as u64)
    };
    [delay(0), delay(1)]
}
