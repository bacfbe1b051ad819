//! A running gateway is changed and its servers fail, under load: what must go on goes on.

mod changes;
mod churn;
mod drain_scope;
mod editions;
mod failures;
mod freeze;
mod generations;
mod kubectl;
mod motion;
mod questions;
mod recovery;
mod references;
mod refusals;
mod repointed;
mod server;
mod sessions;
mod site;
mod slow_server;
mod source;
mod srv;
mod stalled;
