//! Instance `b` as its tenant sees it: answers at a steady rate, and edits one after the other.

use std::time::{Duration, Instant};

use portcullis_harness::client::{ClientPool, LoadProfile, OpenLoopLoad, Outcome, Protocol};

use super::clusters;
use super::site::{NAMESPACES_PATH, PATIENCE, Tenant, TwoInstances};
use super::{HANDSHAKES, Instances};
use crate::error::BenchError;
use crate::pause::pause;

/// The connections of clients, half of them with a certificate and half with a known token: some to each Envoy.
const CLIENTS: u32 = 16;
/// The time for connections, before anything is measured.
const SETTLES: Duration = Duration::from_secs(2);

/// The clients and the editor of `b`, the same in all phases.
pub(super) struct Observer {
    reads: OpenLoopLoad,
    /// The time between the beginnings of two edits.
    pace: Duration,
    nodes: Vec<String>,
    edit: u64,
}

impl Observer {
    /// Connects clients, and checks that each Envoy has some.
    pub(super) fn start(site: &TwoInstances, options: &Instances) -> Result<Self, BenchError> {
        let clusters = &site.b.clusters;
        let client = |number: u32| {
            let cluster = number % clusters.count;
            let has_certificate = number / clusters.count.max(1) % 2 == number % 2;
            let target = if has_certificate { site.alice(clusters, cluster) } else { site.stranger(clusters, cluster) };
            let lane = LoadProfile::new(format!("b-{number}"), &target, Protocol::Http2).handshakes(HANDSHAKES);
            if has_certificate { lane } else { lane.token(Tenant::TOKEN) }
        };
        let lanes: Vec<LoadProfile> = (0..CLIENTS).map(client).collect();
        let path = format!("{NAMESPACES_PATH}{}/configmaps/config", clusters::namespace(0));
        let reads = ClientPool::new(2)?.steady(&lanes, &[path.as_str()], options.reads)?;
        pause(SETTLES);
        let nodes = site.b.nodes();
        for (node, count) in nodes.iter().zip(site.b.requests()?) {
            if count == 0 {
                return Err(BenchError::Unasked(node.clone()));
            }
        }
        let pace = Duration::from_secs_f64(1.0 / options.edits.max(0.01));
        Ok(Observer { reads, pace, nodes, edit: 0 })
    }

    /// The answers in that time, and how long each edit took until the last Envoy acknowledged it.
    pub(super) fn observe(
        &mut self,
        site: &mut TwoInstances,
        length: Duration,
    ) -> Result<(Outcome, Vec<Duration>), BenchError> {
        self.reads.take();
        let start = Instant::now();
        let (mut edits, mut next) = (Vec::new(), start);
        while start.elapsed() < length {
            edits.push(self.acknowledged_edit(site)?);
            // One that took longer than its turn delays the others: which of two under way a line is about, is not in the log.
            next = (next + self.pace).max(Instant::now());
            pause(next.min(start + length).saturating_duration_since(Instant::now()));
        }
        let reads = self.reads.take();
        if let Some(failure) = reads.failures.first() {
            eprintln!("{} of {} reads failed, the first: {}", reads.failed, reads.sent, failure.reason);
        }
        Ok((reads, edits))
    }

    /// Edits a policy that no request of the benchmark meets. The version of `b`'s Envoys changes by edits of `b` alone, so that the
    /// next one that each of them has is that of this edit.
    fn acknowledged_edit(&mut self, site: &mut TwoInstances) -> Result<Duration, BenchError> {
        self.edit += 1;
        let number = self.edit % u64::from(site.b.clusters.count.max(1));
        site.log.skip()?;
        let start = Instant::now();
        site.b.clusters.write(&site.manifests, u32::try_from(number).unwrap_or_default(), self.edit, 0)?;
        let mut missing = self.nodes.clone();
        while !missing.is_empty() {
            let line = site.log.line_with("in sync", PATIENCE)?;
            missing.retain(|node| !line.contains(&format!("node=\"{node}\"")));
        }
        Ok(start.elapsed())
    }
}
