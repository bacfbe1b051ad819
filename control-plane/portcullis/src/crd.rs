use std::process::ExitCode;

use portcullis_api::{cluster_definition, instance_definition, settings_definition};

use crate::arguments::Crd;

pub(crate) fn run(arguments: &Crd) -> ExitCode {
    match arguments.output.list(&[cluster_definition(), settings_definition(), instance_definition()]) {
        Ok(text) => crate::print(&text),
        Err(error) => crate::fail(&error),
    }
}
