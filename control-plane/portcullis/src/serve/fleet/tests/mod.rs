mod at_gateways;
mod bounds;
mod history;
mod limits;
mod owners;
mod rates;
mod scale;
mod severity;
mod views;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use portcullis_api::status::{ClusterStatus, Condition, ConditionType, State, Timestamp};
use portcullis_filter_config::activity::{Activity, ClusterActivity, Latency, PolicyActivity, ServerActivity};
use portcullis_translate::{Diagnosis, Reason, Version};

use super::super::report_origin::ReportOrigin;
use super::activity::GatewayActivity;
use super::fleet_time::FleetTime;
use crate::activity_report::{ActivityPage, ReportPart, Since};
use crate::serve::object_status::{ClusterHolder, ObjectStatus};
use crate::serve::object_statuses::ObjectStatuses;
use crate::serve::status::StatusBody;

/// Seconds since 1970 at the begin of a test.
const START: u64 = 1_800_000_000;

/// The time of a test.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn at(self, seconds: u64) -> Instant {
        self.0 + Duration::from_secs(seconds)
    }

    fn moment(self, seconds: u64) -> FleetTime {
        FleetTime { uptime: self.at(seconds), seconds: START + seconds }
    }
}

/// A gateway's agent, which reports on one stream.
#[derive(Default)]
struct Agent {
    page: ActivityPage,
    since: Option<Since>,
}

impl Agent {
    fn parts(&mut self, activity: &Activity) -> Vec<Bytes> {
        self.page = std::mem::take(&mut self.page).succeeded_by(activity);
        let parts = self.page.parts(self.since);
        self.since = Some(self.page.since());
        parts
    }

    /// Begins another stream.
    fn reconnect(&mut self) {
        self.since = None;
    }
}

fn take(memory: &mut GatewayActivity, node: &str, parts: Vec<Bytes>, at: Instant) {
    for part in parts {
        let part = ReportPart::read(part).unwrap();
        let clusters = part.clusters().map(Result::unwrap).collect();
        memory.take(ReportOrigin::free(node), &part, clusters, at);
    }
}

/// A cluster with counts of its servers: answers of 200, answers of 500, each of them below 25 ms.
fn cluster(name: &str, servers: &[(&str, u64, u64)]) -> ClusterActivity {
    let server = |(server, good, bad): &(&str, u64, u64)| {
        let mut latency = Latency::default();
        latency.buckets[1] = good + bad;
        ServerActivity { server: (*server).to_owned(), answers: [0, 0, *good, 0, 0, *bad], latency, in_flight: 0 }
    };
    let forwarded = servers.iter().map(|(_, good, bad)| good + bad).sum();
    let policy = PolicyActivity { policy: "0".to_owned(), forwarded, refused: Vec::new() };
    ClusterActivity {
        cluster: name.to_owned(),
        policies: vec![policy],
        servers: servers.iter().map(server).collect(),
        ..ClusterActivity::default()
    }
}

fn activity(process: u64, clusters: Vec<ClusterActivity>) -> Activity {
    Activity { process, uptime_seconds: 60, clusters }
}

fn condition(kind: ConditionType, status: State, reason: &str, message: &str) -> Condition {
    Condition {
        kind,
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Timestamp::from_seconds(START),
        observed_generation: None,
    }
}

/// An object whose conditions hold, but for the last one of a list of others.
fn object(name: &str, others: &[(ConditionType, State, &str, &str)]) -> ObjectStatus {
    let kinds = [ConditionType::Accepted, ConditionType::Programmed, ConditionType::Ready];
    let conditions = kinds.into_iter().map(|kind| {
        let other = others.iter().rev().find(|other| other.0 == kind);
        other.map_or_else(
            || condition(kind, State::True, "Good", ""),
            |(_, status, reason, message)| condition(kind, *status, reason, message),
        )
    });
    let conditions = conditions.collect();
    ObjectStatus {
        diagnosis: Arc::new(Diagnosis {
            kind: portcullis_api::CLUSTER_KIND.to_owned(),
            name: name.to_owned(),
            at: None,
            accepted: true,
            reason: Reason::Accepted,
            message: String::new(),
            warnings: Vec::new(),
            problems: Vec::new(),
            cautions: Vec::new(),
            shadow: None,
            names: Vec::new(),
            version: Version::default(),
        })
        .into(),
        status: ClusterStatus { content_hash: Some("0".to_owned()), conditions, ..ClusterStatus::default() },
        instances: Vec::new(),
        counts: None,
        holder: ClusterHolder::default(),
        is_of_own_envoys: false,
    }
}

fn status(objects: Vec<ObjectStatus>) -> StatusBody {
    let objects = Arc::new(ObjectStatuses::new(objects.into_iter().map(Arc::new).collect()));
    StatusBody { objects, snapshot: "0".to_owned(), ..StatusBody::default() }
}
