//! The report: a table for each number of clusters, and the growth of memory.

use std::time::Duration;

use crate::spread::quantile;
use crate::usage::Memory;

/// The measurements with one number of clusters.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) clusters: u32,
    pub(crate) bytes: u64,
    pub(crate) served: Duration,
    pub(crate) pushed: Duration,
    pub(crate) policy_acked: Vec<Duration>,
    pub(crate) policy_seen: Vec<Duration>,
    pub(crate) added_acked: Vec<Duration>,
    pub(crate) added_seen: Vec<Duration>,
    /// CPU time of the control plane and of Envoy for one edit of a policy.
    pub(crate) edit_cpu: (Duration, Duration),
    /// The same for the cold push.
    pub(crate) push_cpu: (Duration, Duration),
    pub(crate) plane: Memory,
    pub(crate) plane_after: Memory,
    pub(crate) envoy: Memory,
}

impl Figures {
    pub(crate) fn print(&self) {
        println!("\n{} clusters, {:.1} MiB of manifests", self.clusters, self.bytes as f64 / (1024.0 * 1024.0));
        println!("  cold start: files read and translated\t{}", show(self.served));
        println!("  cold push: Envoy's start to all acknowledged\t{}", show(self.pushed));
        cpu("cold start and push", self.push_cpu);
        row("one policy edited: acknowledged", &self.policy_acked);
        row("one policy edited: seen by a request", &self.policy_seen);
        cpu("one policy edited", self.edit_cpu);
        row("one cluster added: acknowledged", &self.added_acked);
        row("one cluster added: seen by a request", &self.added_seen);
        for (what, memory) in [
            ("control plane after the push", self.plane),
            ("control plane after the edits", self.plane_after),
            ("Envoy", self.envoy),
        ] {
            println!("  memory of {what}\t{} MiB, at most {} MiB", memory.now / 1024, memory.peak / 1024);
        }
    }
}

/// Prints the cost of a further cluster.
pub(crate) fn print_growth(all: &[Figures]) {
    for pair in all.windows(2) {
        let [few, many] = pair else { continue };
        let more = u64::from(many.clusters.saturating_sub(few.clusters)).max(1);
        let each = |memory: fn(&Figures) -> Memory| memory(many).now.saturating_sub(memory(few).now) / more;
        println!("\nfrom {} to {} clusters, each:", few.clusters, many.clusters);
        println!("  memory of the control plane\t{} KiB", each(|figures| figures.plane_after));
        println!("  memory of Envoy\t{} KiB", each(|figures| figures.envoy));
    }
}

fn cpu(what: &str, (plane, envoy): (Duration, Duration)) {
    println!("  {what}: CPU time\tcontrol plane {}, Envoy {}", show(plane), show(envoy));
}

fn row(what: &str, times: &[Duration]) {
    let at = |part| quantile(times, part).map(show);
    if let (Some(half), Some(most), Some(worst)) = (at(0.5), at(0.99), at(1.0)) {
        println!("  {what}\tp50 {half}, p99 {most}, worst {worst} ({} edits)", times.len());
    }
}

fn show(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}
