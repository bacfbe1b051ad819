//! A gateway's report of its activity, as it travels from the agent to the control plane: the filter's page
//! ([`portcullis_filter_config::activity`]) by cluster, in parts of bounded size, without the clusters that have not changed.
//!
//! Fields have numbers, unknown ones are ignored. Numbers from 16 on are free for what gateways will report besides, such as
//! their part of limits that several gateways share.

mod bounds;
mod message;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use bounds::{MAX_TALKERS, OTHER};
#[cfg(test)]
pub(crate) use message::PolicyMessage;
pub(crate) use message::{ClusterMessage, LimitMessage, ServerMessage};
pub(crate) use read::{ReadError, ReportPart, talkers};
pub(crate) use write::ActivityPage;
#[cfg(test)]
pub(crate) use write::Since;
