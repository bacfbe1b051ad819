use super::*;

#[test]
fn bounds_of_a_small_fleet_hold_whatever_happens() {
    let limits = "rate,seats,counted-rate,counted-seats".to_owned();
    let world = Run { seed: 1, gateways: 50, hours: 1.0 / 6.0, limits, plot: None }.world();
    let used: Vec<f64> =
        world.figures.limits.iter().map(|limit| limit.used.iter().copied().fold(0.0, f64::max)).collect();
    assert!(used.iter().all(|used| *used > 0.4), "{used:?} of each limit is used at most");
}
