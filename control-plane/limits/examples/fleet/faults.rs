//! Everything that goes wrong: messages, processes, clocks, the network, the limiter.

use crate::lots::Lots;
use crate::world::SECOND;

const MILLISECOND: u64 = SECOND / 1_000;
/// Clocks that are as fast as any, in parts of a million, and as slow: the leases' bound is two percent.
pub(crate) const FASTEST: i64 = 1_000;
const SLOW: i64 = -1_000;
const SLOWEST: i64 = -19_000;

/// The Lease of the limiter that leads, in milliseconds: its length, the time after a renewal for which the leader goes on at most,
/// the time after which others take it to have stopped, and the time until another one has seen that the Lease is free.
const LEASE: u64 = 1_300;
const RENEWED_WITHIN: u64 = 900;
const QUIET_AFTER: u64 = 945;
const NOTICED_WITHIN: u64 = 760;

/// Something that happens to the fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Messages are lost and late more often than as a rule, for that long.
    Rough(u64),
    /// Some gateways reach no limiter for that long.
    Partition { first: usize, count: usize, length: u64 },
    /// The process of a gateway ends, and the next one begins after that time.
    Restart { gateway: usize, pause: u64 },
    /// No limiter divides for that long, then another one does, which by then knows to have been alone for that long.
    Replace { pause: u64, alone: u64 },
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
        // Half of the leaders hand over; the others are killed, or go on until their last renewal is too old.
        let fault = if number % 2 == 0 { handed_over(lots) } else { followed(lots) };
        faults.push((lots.below(length), fault));
    }
    let away = (length / 288).max(10 * SECOND);
    faults.push((length * 18 / 24, Fault::Replace { pause: away, alone: away - SECOND }));
    faults
}

fn handed_over(lots: &mut Lots) -> Fault {
    let pause = lots.below(NOTICED_WITHIN) * MILLISECOND;
    Fault::Replace { pause, alone: pause }
}

/// The Lease was renewed some time before the last answer, by a clock that is up to two percent slow, and its end is waited for by
/// another one that is as wrong in any direction.
fn followed(lots: &mut Lots) -> Fault {
    let renewed = lots.below(RENEWED_WITHIN * 102 / 100);
    let quiet_after = QUIET_AFTER * (98 + lots.below(5)) / 100;
    let led_after = LEASE + lots.below(NOTICED_WITHIN);
    Fault::Replace { pause: (led_after - renewed) * MILLISECOND, alone: (led_after - quiet_after) * MILLISECOND }
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
