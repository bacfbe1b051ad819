use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use portcullis_core::StateStore;
use portcullis_core::exchange::CompiledClusters;
use portcullis_core::global_limit::GlobalLimits;
use portcullis_core::observe::ClusterTotals;
use portcullis_core::state_store::ProcessState;
use portcullis_filter_config::activity::Activity;
use ring::rand::{SecureRandom, SystemRandom};

use crate::random::system_random;

/// The configurations that Envoy has loaded.
pub(crate) static CLUSTERS: LazyLock<CompiledClusters> = LazyLock::new(CompiledClusters::default);
static STATE: LazyLock<ProcessState> = LazyLock::new(ProcessState::default);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// A random number of this process, so that readers of its activity notice a restart. `None` if the system has no randomness.
pub(crate) static PROCESS: LazyLock<Option<u64>> = LazyLock::new(system_random);

/// The time since this process first asked, which only goes forward; the same for all buckets and workers.
pub(crate) fn uptime(now: Instant) -> Duration {
    now.saturating_duration_since(*START)
}

/// The state of the process, for configurations that are compiled. `None` if the system has no randomness to give.
pub(crate) fn state() -> Option<impl StateStore> {
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).ok()?;
    Some(STATE.with_secret(secret))
}

/// The activity of requests that reach no cluster.
pub(crate) fn unrouted() -> Arc<ClusterTotals> {
    STATE.unrouted()
}

/// The activity of this process, which has that number.
pub(crate) fn activity(process: u64) -> Activity {
    let uptime = uptime(Instant::now());
    Activity { process, uptime_seconds: uptime.as_secs(), clusters: STATE.activity(uptime) }
}

/// The parts of limits that gateways share.
pub(crate) fn global_limits() -> &'static GlobalLimits {
    STATE.global_limits()
}

/// Forgets what is too old. True if anything is left.
pub(crate) fn forget_old() -> bool {
    STATE.forget_old(uptime(Instant::now()))
}
