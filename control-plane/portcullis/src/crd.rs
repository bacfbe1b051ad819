use std::process::ExitCode;

use portcullis_api::cluster_definition;

use crate::arguments::Crd;

pub(crate) fn run(arguments: &Crd) -> ExitCode {
    match arguments.output.text(&cluster_definition()) {
        Ok(text) => crate::print(&text),
        Err(error) => crate::fail(&error),
    }
}
