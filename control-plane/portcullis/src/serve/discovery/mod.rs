//! Servers that EndpointSlices or DNS list (`spec.portcullis.discovery`).
//!
//! - [`want`]: what the served objects want to have watched, pure.
//! - [`slices`]: EndpointSlices as servers, pure; [`known_slices`]: those of a Service that are kept.
//! - [`answers`]: the last answer of each object's source, pure.
//! - [`service`]: EndpointSlices of the Kubernetes that the objects come from; [`upstream`]: that of the upstream itself, over
//!   [`connection`]; [`srv`]: SRV records of DNS.
//! - [`report`]: the way from a source's task to the discoverer.
//! - [`documents`]: the answers in the objects' documents, pure.
//! - [`discoverer`]: a task for each wanted source, and the publication of what they find.
//! - [`saved`]: the answers on disk, for the next start.

mod answers;
mod connection;
mod discoverer;
mod documents;
mod known_slices;
mod report;
mod saved;
mod service;
mod slices;
mod srv;
#[cfg(test)]
mod tests;
mod upstream;
mod want;

pub(super) use answers::Answers;
pub(super) use discoverer::{Discoverer, DiscoveryHandle};
pub(super) use documents::DiscoveredDocuments;
pub(super) use srv::Nameservers;
pub(super) use want::{AskedUpstream, Want, Wants};
