//! `portcullis serve`: objects in, xDS out.
//!
//! | step | module |
//! |---|---|
//! | read objects from a directory or a Kubernetes API | `source` |
//! | put policies that are attached to them into their documents | `policies` |
//! | put what they refer to in place of their references | `references` |
//! | read keys of tokens from servers and issuers, and put them into the objects | `token_keys` |
//! | have servers discovered, and put them into the objects | `discovery` |
//! | translate them, with what was served before as a fallback | `reconcile_loop`, `reconciler`, `retention`, and `filter_snapshots` for builds of the filter |
//! | judge Gateways and routes, and have them served to their Envoys | `gateway_api`, `gateway_views` |
//! | divide clusters among instances, each with Envoys of its own | `instance_views` |
//! | serve the snapshot to each Envoy, by its Gateway, its instance or the build of its filter | `filter_views`, `wanted_views`, the crate portcullis-xds |
//! | save the snapshot for the next start | `state` |
//! | judge the objects by what the gateways report | `status_observer`, `object_statuses`, `gateway_states`, `endpoint_reports`, `gateway_health`, `instance_status` |
//! | remember what the gateways report of their requests, of shadows and of limits that they share | `fleet`, `shadow_reports`, `limit_reports` |
//! | inform the operator | `edit_traces`, `diagnosis_log`, `status`, `status_part` for tenants, `http`, `console`, `metrics`, and `writer` for Kubernetes |

mod arguments;
mod by_place;
mod changed_keys;
mod cluster_progress;
mod console;
mod diagnosis_log;
mod discovery;
mod divided_translator;
#[cfg(test)]
mod edit_cost;
mod edit_queue;
mod edit_traces;
mod endpoint_reports;
mod explained_diagnoses;
mod filter_snapshots;
mod filter_views;
pub(crate) mod fleet;
mod gateway_api;
mod gateway_health;
mod gateway_states;
mod gateway_views;
#[cfg(test)]
mod generations;
mod group_change;
mod http;
mod http_arguments;
mod instance_status;
mod instance_views;
mod limit_reports;
mod limits;
mod list_origins;
#[cfg(test)]
mod memory_cost;
mod metrics;
mod object_status;
mod object_statuses;
#[cfg(test)]
mod optional_kinds_tests;
mod policies;
mod reconcile_loop;
mod reconciler;
mod references;
mod report_origin;
mod retention;
mod run;
mod served_versions;
mod shadow_reports;
mod source;
mod state;
mod status;
mod status_observer;
mod status_part;
mod tls_connection;
mod token_keys;
mod turns;
mod version;
mod wanted_views;
mod watchdog;
mod writer;
mod xds;
mod xds_resources;

pub(crate) use arguments::Serve;
pub(crate) use divided_translator::{DividedTranslator, Division, OwnPart};
pub(crate) use gateway_views::gateway_name;
pub(crate) use instance_views::instance_name;
pub(crate) use references::Resolved;
pub(crate) use run::run;
