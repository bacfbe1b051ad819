//! Limits that gateways share: the use that they report, and the parts that they get.

mod arguments;
mod leader;
mod owners;
mod recent_reports;
mod reporters;
mod stored;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use portcullis_limits::LimitAnswer;
use portcullis_limits_store::AddressError;
use portcullis_report::limits::{ClusterUseMessage, MAX_USE_BYTES, PartsMessage, UseMessage};
use portcullis_xds::{GatewayReport, ReportSink, UnreadableReport};
use prost::Message;
use tokio::sync::watch;

pub(super) use self::arguments::LimitsArguments;
use self::leader::{LimitDivision, campaign_for_limits};
use self::owners::node_owners;
use self::stored::StoredDivision;
use super::fleet::{Fleet, ServedObjects};
use super::metrics::ControlPlaneMetrics;
use super::source::Source;
use crate::boot_time::boot_time;
use crate::leader::Leadership;

/// The pause until a gateway reports again whose limits this replica does not know.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of reports that a gateway sends at most.
const BYTES_PER_MILLISECOND: u64 = 1_024;

/// Takes the reports of gateways: of their activity, and of the use of limits.
pub(super) struct Reports {
    pub(super) fleet: Arc<Fleet>,
    pub(super) limits: Divider,
}

/// The way in which limits are divided.
pub(super) enum Divider {
    /// By the replica that leads.
    Leader(LimitDivision),
    /// By all control planes of a store.
    Store(StoredDivision),
}

impl Divider {
    /// The way that the arguments and the source name, and the candidacy of this replica where one of several divides: beside the
    /// Lease of that name. Needs a tokio runtime.
    ///
    /// # Errors
    /// The address of the store is none: the operator's fault.
    pub(super) fn start(
        arguments: &LimitsArguments,
        (source, lease_name): (&Source, &str),
        served: &watch::Receiver<Arc<ServedObjects>>,
        metrics: &ControlPlaneMetrics,
    ) -> Result<(Self, Option<Leadership>), AddressError> {
        let owners = node_owners(source.kubernetes.as_ref().map(|access| access.namespace.clone()));
        if let Some(store) = arguments.store(owners.clone())? {
            metrics.keep_limits_in(store.statistics());
            return Ok((Self::Store(StoredDivision::new(served.clone(), store, owners)), None));
        }
        let campaign = |access| campaign_for_limits(access, lease_name, served.clone());
        let leadership = source.kubernetes.as_ref().map(campaign);
        let tenure = leadership.as_ref().map(|leadership| leadership.tenure.clone());
        Ok((Self::Leader(LimitDivision::new(served.clone(), tenure, owners)), leadership))
    }
}

impl ReportSink for Reports {
    fn take(&self, report: GatewayReport) -> Result<(), UnreadableReport> {
        self.fleet.take(report)
    }

    fn divide(&self, report: GatewayReport) -> BoxFuture<'_, Result<Bytes, UnreadableReport>> {
        match &self.limits {
            Divider::Leader(division) => Box::pin(std::future::ready(division.divide(&report, boot_time()))),
            Divider::Store(division) => Box::pin(division.divide(report)),
        }
    }
}

/// Reads a report. Its limits are in the order of their names, each once, so that its length bounds the work that it makes.
fn read(content: &Bytes) -> Result<(UseMessage, Vec<ClusterUseMessage>), UnreadableReport> {
    let unreadable = |what: &str| UnreadableReport(format!("{what} of limits cannot be read"));
    if content.len() > MAX_USE_BYTES {
        return Err(unreadable("a longer report"));
    }
    let message = UseMessage::decode(content.clone()).map_err(|_| unreadable("the report"))?;
    let clusters = message.clusters.iter().map(|cluster| ClusterUseMessage::decode(cluster.clone()));
    let clusters: Vec<_> = clusters.collect::<Result<_, _>>().map_err(|_| unreadable("a cluster in the report"))?;
    let names = clusters.iter().flat_map(|one| one.uses().map(|(schema, used)| (&one.cluster, schema, used.is_rate)));
    if !names.is_sorted_by(|one, next| one < next) {
        return Err(unreadable("the order in the report"));
    }
    Ok((message, clusters))
}

/// The names under which the clusters of a report count. `None` for one that is in the report under both of its names: it would
/// get two parts.
fn counted_names<'a>(clusters: &'a [ClusterUseMessage], served: &ServedObjects) -> Vec<Option<Cow<'a, str>>> {
    let reported: HashSet<&str> = clusters.iter().map(|one| one.cluster.as_str()).collect();
    let counted = |one: &'a ClusterUseMessage| {
        let name = served.reported_cluster(&one.cluster);
        (*name == *one.cluster || !reported.contains(&*name)).then_some(name)
    };
    clusters.iter().map(counted).collect()
}

/// The answer to a report that has no part of any limit, or whose owner has too many processes: each goes by its local limits.
fn refusal(number: u64, clusters: &[ClusterUseMessage], bytes: usize) -> Bytes {
    answer(number, clusters.iter().flat_map(|cluster| cluster.uses().map(|_| None)), bytes)
}

/// The answer to a report of so many bytes, with the parts in its order.
fn answer(number: u64, answers: impl IntoIterator<Item = Option<LimitAnswer>>, bytes: usize) -> Bytes {
    let mut parts = PartsMessage { number, ..PartsMessage::default() };
    let mut next = PAUSE;
    for answer in answers {
        next = answer.map_or(next, |answer| next.min(answer.next));
        parts.push(answer.and_then(|answer| answer.part));
    }
    // A long report comes less often.
    let least = u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(BYTES_PER_MILLISECOND);
    let next = next.max(Duration::from_millis(least));
    parts.next_milliseconds = u32::try_from(next.as_millis()).unwrap_or(u32::MAX);
    parts.encode_to_vec().into()
}
