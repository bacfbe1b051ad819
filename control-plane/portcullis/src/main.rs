//! `portcullis`: the control plane's one program.

mod bootstrap;
mod check;
mod cli;
mod crd;
mod explain;
mod gateway;
mod leader;
mod listen;
mod objects;
mod plain;
mod rbac;
mod serve;
mod status;
mod zone;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use cli::{Cli, Command, LogFormat};

/// The client of Kubernetes logs answers that it cannot read, and answers hold keys. What it fails at is told by the
/// source, and by the election of a leader.
const SILENCED: [&str; 3] = ["kube_client::client=off", "kube_client::client::tls=warn", "kube_runtime=off"];

fn main() -> ExitCode {
    let cli = Cli::parse();
    let asked = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let silenced = SILENCED.iter().filter_map(|directive| directive.parse().ok());
    let filter = silenced.fold(asked, EnvFilter::add_directive);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    match &cli.command {
        Command::Serve(serve) if serve.log_format == LogFormat::Json => log.json().flatten_event(true).init(),
        _ => log.init(),
    }
    match cli.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Gateway(arguments) => gateway::run(&arguments),
        Command::BecomeEnvoy(arguments) => gateway::become_envoy(&arguments),
        Command::Bootstrap(arguments) => bootstrap::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Rbac(arguments) => rbac::run(&arguments),
        Command::Crd(arguments) => crd::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
    }
}

/// Writes to standard output. A reader that went away (`| head`) is no failure of ours.
fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => fail(&error),
        _ => ExitCode::SUCCESS,
    }
}

/// Tells an error with all its causes.
fn fail(error: &dyn std::error::Error) -> ExitCode {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    tracing::error!("{text}");
    ExitCode::FAILURE
}
