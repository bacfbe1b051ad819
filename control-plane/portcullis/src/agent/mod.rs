//! `portcullis agent`: starts one Envoy, observes it, reports its health and activity and stops it in order.

mod activity;
mod admin;
mod arguments;
mod drain;
mod envoy;
mod filter;
mod pages;
mod report;
mod run;
mod talkers;

pub(crate) use arguments::{Agent, ExecEnvoy};
pub(crate) use envoy::exec_envoy;
pub(crate) use run::run;
