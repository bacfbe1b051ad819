use std::time::Duration;

use rustls_pki_types::UnixTime;

/// A moment by the two clocks of a host. Ages are measured by the clock that only goes forward, so that no change of the other
/// prolongs trust; a credential's own validity is compared with the time of day.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time of day: what certificates and tokens are valid by.
    pub now: UnixTime,
    /// The time since any fixed point, which only goes forward.
    pub uptime: Duration,
}
