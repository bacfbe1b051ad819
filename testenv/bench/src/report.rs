//! The report: text for a person, columns by tabs.

use crate::case::Case;
use crate::profile::Profile;

/// The names of the columns.
pub(crate) const HEADING: &str = "case\tper request in each round\tof its baseline";

/// Prints a case; gives what a request costs, the mean of its rounds.
pub(crate) fn print(case: Case, rounds: &[Profile], requests: u32, baseline: Option<f64>) -> f64 {
    let of = |amount: u64| amount as f64 / f64::from(requests);
    let each: Vec<f64> = rounds.iter().map(|round| of(round.total)).collect();
    let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
    let told: Vec<String> = each.iter().map(|amount| format!("{amount:.0}")).collect();
    println!("{}\t{}\t{:.4}", case.title(), told.join(" "), mean / baseline.unwrap_or(mean));
    if let Some(profile) = rounds.last() {
        details(profile, of);
    }
    mean
}

fn details(profile: &Profile, of: impl Fn(u64) -> f64) {
    let mut objects: Vec<_> = profile.objects.iter().collect();
    objects.sort_by_key(|(_, cost)| std::cmp::Reverse(**cost));
    for (object, cost) in objects.into_iter().take(4) {
        println!("    in {object}\t{:.0}", of(*cost));
    }
    let mut calls: Vec<_> = profile.calls.iter().collect();
    calls.sort_by_key(|(_, call)| std::cmp::Reverse(call.inclusive));
    for (name, call) in calls {
        println!("    {name}\t{:.2} calls\t{:.0}", of(call.count), of(call.inclusive));
    }
}
