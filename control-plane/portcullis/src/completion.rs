//! Shell completion and manual pages, generated from the definitions of the commands (docs/decisions/0084).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::{fail, print};

/// Print a completion script for a shell.
///
///   portcullis completion bash > /etc/bash_completion.d/portcullis
///   source <(portcullis completion zsh)
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Completion {
    /// The shell.
    shell: Shell,
}

/// Write the manual pages into a directory, for packages.
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct Man {
    /// The directory, which must exist.
    dir: PathBuf,
}

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
