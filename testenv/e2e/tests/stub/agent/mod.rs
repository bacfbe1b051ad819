//! `portcullis agent` with a real Envoy: readiness, exit, health reports, and several control planes.

mod conditions;
mod exit;
pub(crate) mod fixture;
mod fleet;
mod global_limits;
mod in_flight;
mod instances;
mod limit_fleet;
mod limit_partition;
mod limit_status;
mod limit_store;
mod limit_storms;
mod metrics;
mod passed_on;
mod rebalance;
mod release;
mod renewal;
mod replicas;
mod reports;
mod rolling;
mod shadow_reports;
mod slow_list;
mod socket_relay;
mod strangers;
mod supervision;
mod unhealthy;
