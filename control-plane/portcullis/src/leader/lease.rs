//! The Lease of Kubernetes in the words of the rules, and back.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;

use super::election::{Claim, Record};

/// The exact time of a Lease, since `leaseDurationSeconds` has whole seconds.
const DURATION_ANNOTATION: &str = "portcullis.dev/lease-duration-milliseconds";

/// The time as `leaseDurationSeconds` has it, which is no less.
fn whole_seconds(lease: Duration) -> u64 {
    u64::try_from(lease.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// The exact time, if it is that of the whole seconds: another program may have written those alone.
fn exact(metadata: &ObjectMeta, seconds: u64) -> Option<Duration> {
    let text = metadata.annotations.as_ref()?.get(DURATION_ANNOTATION)?;
    text.parse().ok().map(Duration::from_millis).filter(|exact| whole_seconds(*exact) == seconds)
}

/// The content of a Lease object.
pub(super) fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        lease: exact(&lease.metadata, seconds).unwrap_or(Duration::from_secs(seconds)),
        renewal: spec.renew_time.map(|time| time.0.to_string()).unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

/// The Lease object to write: `before` is the object that was read, whose version goes along, so that the server refuses the
/// write if another replica was faster. `at` distinguishes the renewal from others of this candidate.
pub(super) fn claimed(
    before: Option<Lease>,
    name: &str,
    identity: &str,
    claim: &Claim,
    lease: Duration,
    at: Timestamp,
) -> Lease {
    // As the API keeps it, so that what is read can be compared.
    let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
    let fresh =
        || Lease { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..Lease::default() };
    let mut made = before.unwrap_or_else(fresh);
    let spec = made.spec.get_or_insert_with(LeaseSpec::default);
    if claim.is_new {
        spec.acquire_time = Some(MicroTime(at));
    }
    spec.renew_time = Some(MicroTime(at));
    spec.holder_identity = Some(identity.to_owned());
    spec.lease_duration_seconds = Some(i32::try_from(whole_seconds(lease)).unwrap_or(i32::MAX));
    spec.lease_transitions = Some(claim.transitions);
    let annotations = made.metadata.annotations.get_or_insert_default();
    annotations.insert(DURATION_ANNOTATION.to_owned(), lease.as_millis().to_string());
    made
}

/// The Lease without a holder, if `identity` has it.
pub(super) fn released(mut lease: Lease, identity: &str) -> Option<Lease> {
    let spec = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_deref() == Some(identity))?;
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    Some(lease)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(lease: Duration) -> Lease {
        let claim = Claim { transitions: 1, is_new: true };
        // Of a nanosecond that the API does not keep.
        claimed(None, "a", "me", &claim, lease, Timestamp::from_nanosecond(1_234_567_891).unwrap())
    }

    /// As the API answers it.
    fn kept(lease: &Lease) -> Lease {
        serde_json::from_str(&serde_json::to_string(lease).unwrap()).unwrap()
    }

    #[test]
    fn lease_says_its_exact_time_and_no_less_in_whole_seconds() {
        for (millis, seconds) in [(1_300, 2), (15_000, 15), (900, 1)] {
            let lease = written(Duration::from_millis(millis));
            assert_eq!(lease.spec.as_ref().unwrap().lease_duration_seconds, Some(seconds));
            assert_eq!(record(&kept(&lease)).lease, Duration::from_millis(millis));
        }
    }

    #[test]
    fn lease_of_others_has_the_time_of_its_whole_seconds() {
        let mut lease = written(Duration::from_millis(1_300));
        lease.spec.as_mut().unwrap().lease_duration_seconds = Some(30);
        assert_eq!(record(&lease).lease, Duration::from_secs(30), "an annotation of another time");
        for text in ["", "-1", "1.3", "99999999999999999999999"] {
            let annotations = lease.metadata.annotations.as_mut().unwrap();
            annotations.insert(DURATION_ANNOTATION.to_owned(), text.to_owned());
            assert_eq!(record(&lease).lease, Duration::from_secs(30), "{text}");
        }
        lease.metadata.annotations = None;
        assert_eq!(record(&lease).lease, Duration::from_secs(30));
    }

    #[test]
    fn renewal_that_is_read_is_the_one_that_was_written() {
        let lease = written(Duration::from_secs(1));
        assert_eq!(record(&kept(&lease)), record(&lease));
    }
}
