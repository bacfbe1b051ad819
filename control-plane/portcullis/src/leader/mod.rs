//! Which replica of the control plane leads. Every one serves xDS. One writes to Kubernetes, and one divides limits that gateways
//! share: each by a Lease of its own, since the two have to be followed at different times after their end.
//!
//! - [`election`]: the rules, pure; time is an argument.
//! - [`lease`]: between the rules' words and the Lease of Kubernetes.
//! - [`pace`]: how often a candidate asks, and why it cannot.
//! - [`run`]: asks and writes.

mod election;
mod lease;
mod pace;
mod run;

pub(crate) use election::{Tenure, Timing};
pub(crate) use run::{Leadership, campaign};

/// The default name of the Lease of the replica that writes.
pub(crate) const LEASE_NAME: &str = "portcullis";

/// The name of the Lease of the replica that divides limits, beside the other one's.
pub(crate) fn limits_lease_name(lease_name: &str) -> String {
    format!("{lease_name}-limits")
}
