//! `portcullis serve`: objects in, xDS out.
//!
//! | step | module |
//! |---|---|
//! | read objects from a directory or a Kubernetes API | `source` |
//! | put what they refer to in place of their references | `references` |
//! | translate them, with what was served before as a fallback | `reconcile_loop`, `reconciler`, `retention` |
//! | serve the snapshot to each Envoy, by the build of its filter | `filter_views`, the crate portcullis-xds |
//! | save the snapshot for the next start | `state` |
//! | judge the objects by what the gateways report | `status_observer`, `gateway_states` |
//! | inform the operator | `edit_traces`, `diagnosis_log`, `status`, `http`, `page`, `metrics`, and `writer` for Kubernetes |

mod diagnosis_log;
mod edit_traces;
mod filter_views;
mod gateway_states;
#[cfg(test)]
mod generations;
mod http;
mod metrics;
mod page;
mod reconcile_loop;
mod reconciler;
mod references;
mod retention;
mod run;
mod source;
mod state;
mod status;
mod status_observer;
mod version;
mod watchdog;
mod writer;
mod xds;
mod xds_resources;

pub(crate) use edit_traces::TracingArguments;
pub(crate) use reconciler::{CheckedTranslator, check_client_ca};
pub(crate) use references::Resolved;
pub(crate) use run::run;
pub(crate) use source::{LEASE_NAME, SourceArguments};
pub(crate) use state::StateArguments;
pub(crate) use xds::XdsArguments;
