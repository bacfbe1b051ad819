//! The cost of the index besides time: `policy-figures <shape> <policies> <hit> <rounds>` prints compile time and memory, then
//! matches `rounds` times, so that the difference of two runs under callgrind is the instructions of one match.

mod workload;

use std::hint::black_box;
use std::time::Duration;

use portcullis_core::policy::{LinearMatcher, Policies};
use workload::{Asked, Hit, Shape, policies, requests};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [shape, count, hit, rounds] = arguments.as_slice() else {
        for shape in ["tenants", "crowded", "wide", "all-but-one", "all-but-four", "all-but-five"] {
            for count in [10, 100, 1_000, 10_000] {
                measure(shape, count, "never", 0);
            }
        }
        return;
    };
    measure(shape, count.parse().unwrap_or(1_000), hit, rounds.parse().unwrap_or(0));
}

fn measure(shape: &str, count: usize, hit: &str, rounds: usize) {
    let shape = match shape {
        "tenants" => Shape::Tenants,
        "crowded" => Shape::Crowded,
        "wide" => Shape::Wide,
        "all-but-four" => Shape::AllButFour,
        "all-but-five" => Shape::AllButFive,
        _ => Shape::AllButOne,
    };
    let hit = match hit {
        "early" => Hit::Early,
        "late" => Hit::Late,
        "in-many-groups" => Hit::InManyGroups,
        _ => Hit::Never,
    };
    let written = policies(shape, count);
    let (before, start) = (kib("VmRSS:"), processor_time());
    let index = Policies::new(&written);
    let (took, after) = (processor_time().saturating_sub(start), kib("VmRSS:"));
    let peak = kib("VmHWM:");
    println!(
        "{shape:?} {count}: compiled in {took:?}, resident {before} KiB before, {after} KiB after, {peak} KiB at the peak"
    );
    if rounds == 0 {
        return;
    }
    let asked = requests(shape, &index, count, hit);
    let walk = |matcher: &dyn Fn(&Asked) -> Option<usize>| {
        let start = processor_time();
        for asked in asked.iter().cycle().take(rounds) {
            black_box(matcher(black_box(asked)));
        }
        processor_time().saturating_sub(start).as_nanos() / rounds.max(1) as u128
    };
    println!("  {hit:?}, {} requests: {} ns", asked.len(), walk(&|(info, user)| index.first_match(info, user)));
    if std::env::var_os("MODEL").is_some() {
        let model = LinearMatcher::new(&written);
        println!(
            "  the list, walked: {} ns",
            walk(&|(info, user)| model.first_match(info, user).map(|matched| matched.policy))
        );
    }
}

/// The processor's time of this process, which has one thread: other processes do not count.
fn processor_time() -> Duration {
    let times = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(times.split_whitespace().next().and_then(|running| running.parse().ok()).unwrap_or(0))
}

fn kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
