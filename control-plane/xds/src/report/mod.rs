//! Reports of gateways about themselves, by a service of our own: `portcullis.report.v1.ReportService`.
//!
//! This crate checks the sender and the size of a report and hands its bytes on; it cannot read them. One client stream carries
//! the reports of one node, and each is acknowledged, so that at most one waits to be read. A sender that does not know a field,
//! or a receiver that does not, ignores it.

mod client;
mod service;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::membership::Membership;

pub use client::{ReportClient, ReportStream};
pub(crate) use service::service;

/// A report of a gateway. The peer may be that node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayReport {
    /// The node's name: its id, with the instance of its certificate before it.
    pub node: String,
    /// The Gateways and instances that it may belong to: it may report about objects of these alone. Of an Envoy of a Gateway that one,
    /// whichever others its certificate names.
    pub membership: Membership,
    /// The instance that it is about; empty where there is one.
    pub instance: String,
    /// The report itself.
    pub content: Bytes,
}

impl GatewayReport {
    /// The Gateway whose Envoy it is of, as `NAMESPACE/NAME`; `None` of an Envoy of no Gateway.
    pub fn gateway(&self) -> Option<&str> {
        self.membership.gateway()
    }
}

/// The reason that a report cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableReport(pub String);

/// Takes the reports of gateways, and divides the limits that they share.
pub trait ReportSink: Send + Sync {
    /// Takes a report. Calls come from within the streams, so they must not wait.
    ///
    /// # Errors
    /// The report cannot be read. Its stream ends.
    fn take(&self, report: GatewayReport) -> Result<(), UnreadableReport>;

    /// Takes the use of limits that gateways share, and returns the gateway's parts of them; empty if it gets none from here. Only
    /// the report's own stream waits for it.
    ///
    /// # Errors
    /// The report cannot be read. Its stream ends.
    fn divide(&self, report: GatewayReport) -> BoxFuture<'_, Result<Bytes, UnreadableReport>>;
}
