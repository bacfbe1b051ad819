use std::process::ExitCode;

use portcullis_api::cluster_definition;

use crate::cli::{Crd, CrdOutput};

pub(crate) fn run(arguments: &Crd) -> ExitCode {
    let definition = cluster_definition();
    match arguments.output {
        CrdOutput::Json => crate::print(&format!("{definition:#}\n")),
        // Quoted for readers of YAML 1.1, too: to kubectl a bare `on` is a boolean.
        CrdOutput::Yaml => match serde_saphyr::to_string(&definition) {
            Ok(text) => crate::print(&text),
            Err(error) => crate::fail(&error),
        },
    }
}
