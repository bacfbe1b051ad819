//! Reports of gateways about their activity ([`portcullis_report`]), read within their bounds: their senders are not trusted.

mod read;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use portcullis_report::Since;
pub(crate) use portcullis_report::bounds::MAX_TALKERS;
pub(crate) use portcullis_report::message::{ClusterMessage, LimitMessage, ServerMessage, ShadowMessage};
#[cfg(test)]
pub(crate) use portcullis_report::message::{DifferenceMessage, PolicyMessage};
pub(crate) use portcullis_report::{ActivityPage, OTHER};
pub(crate) use read::{ReadError, ReportPart, shadows, talkers};
