use std::process::ExitCode;

use portcullis_api::{
    PolicyKind, cluster_definition, instance_definition, policy_definition, settings_definition, upstream_definition,
};
use serde_json::Value;

use crate::arguments::Crd;

pub(crate) fn run(arguments: &Crd) -> ExitCode {
    match arguments.output.list(&definitions()) {
        Ok(text) => crate::print(&text),
        Err(error) => crate::fail(&error),
    }
}

/// The definitions of all kinds.
pub(crate) fn definitions() -> Vec<Value> {
    let of_policies = PolicyKind::ALL.map(policy_definition);
    let own = [cluster_definition(), settings_definition(), instance_definition()];
    own.into_iter().chain(of_policies).chain([upstream_definition()]).collect()
}
