//! Which replica of the control plane leads: only that one writes to Kubernetes; every one serves xDS.
//!
//! - [`election`]: the rules, pure; time is an argument.
//! - [`lease`]: between the rules' words and the Lease of Kubernetes.
//! - [`run`]: asks and writes.

mod election;
mod run;

pub(crate) use run::{Leadership, campaign};

/// The default name of the Lease.
pub(crate) const LEASE_NAME: &str = "portcullis";
