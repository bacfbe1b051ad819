//! Shell completion and manual pages, generated from the definitions of the commands (docs/decisions/0084).

use std::process::ExitCode;

use clap::CommandFactory;

use crate::arguments::{Completion, Man};
use crate::cli::Cli;
use crate::{fail, print};

/// Runs `portcullis completion`.
pub(crate) fn run(arguments: &Completion) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "portcullis", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Runs `portcullis man`.
pub(crate) fn man(arguments: &Man) -> ExitCode {
    match clap_mangen::generate_to(Cli::command(), &arguments.dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}
