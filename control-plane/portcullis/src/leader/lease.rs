//! The Lease of Kubernetes in the words of the rules, and back.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;

use super::election::{Claim, Record};

/// The content of a Lease object.
pub(super) fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        lease: Duration::from_secs(seconds.unwrap_or_default()),
        renewal: spec.renew_time.map(|time| time.0.to_string()).unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

/// The Lease object to write: `before` is the object that was read, whose version goes along, so that the server refuses the
/// write if another replica was faster. `at` is for people to read.
pub(super) fn claimed(
    before: Option<Lease>,
    name: &str,
    identity: &str,
    claim: &Claim,
    lease: Duration,
    at: Timestamp,
) -> Lease {
    let fresh =
        || Lease { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..Lease::default() };
    let mut made = before.unwrap_or_else(fresh);
    let spec = made.spec.get_or_insert_with(LeaseSpec::default);
    if claim.is_new {
        spec.acquire_time = Some(MicroTime(at));
    }
    spec.renew_time = Some(MicroTime(at));
    spec.holder_identity = Some(identity.to_owned());
    // Whole seconds, one at least. Of a lease that is no whole number every candidate knows the rest.
    spec.lease_duration_seconds = Some(i32::try_from(lease.as_secs().max(1)).unwrap_or(i32::MAX));
    spec.lease_transitions = Some(claim.transitions);
    made
}

/// The Lease without a holder, if `identity` has it.
pub(super) fn released(mut lease: Lease, identity: &str) -> Option<Lease> {
    let spec = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_deref() == Some(identity))?;
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    Some(lease)
}
